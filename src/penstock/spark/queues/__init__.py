"""Queues as a source of Spark: read by offset, settled when a micro-batch is committed."""
