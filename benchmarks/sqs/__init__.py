"""Benchmarks of the SQS API, and of what else speaks it."""
