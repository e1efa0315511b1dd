"""What a party keeps, on the disk before it counts."""
