"""Benchmarks of other brokers' queues, in the shapes in which ours are measured."""
