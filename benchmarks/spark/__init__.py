"""Benchmarks of the Spark source and sink, beside Spark's own Kafka connector and plain Python."""
