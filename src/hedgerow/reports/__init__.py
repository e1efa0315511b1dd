"""Pictures of what was run and what it cost."""
