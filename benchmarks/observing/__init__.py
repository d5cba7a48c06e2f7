"""What it costs to be looked at."""
