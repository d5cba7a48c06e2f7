"""Benchmarks of the native client, beside other systems' queues."""
