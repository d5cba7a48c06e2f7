"""The way to the cluster: connections, metadata, routing and retries of requests."""
