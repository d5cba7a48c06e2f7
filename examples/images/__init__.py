"""Image jobs with priorities, delays and retries."""
