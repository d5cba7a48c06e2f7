"""Sending: partitioning, batching and compression."""
