"""Reading a log by offset: consumer-group membership, fetching and committed offsets."""
