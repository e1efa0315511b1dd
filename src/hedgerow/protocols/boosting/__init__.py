"""Private gradient boosting of one curator's table."""
