"""Benchmarks of queues that are full."""
