"""Secret arrays: engines, and what is written once on top of them."""
