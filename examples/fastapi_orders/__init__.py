"""Orders by FastAPI, packed by a worker in the same process."""
