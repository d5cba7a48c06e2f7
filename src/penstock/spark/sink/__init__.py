"""Topics as a sink of Spark: options, encoding, staging, publishing, writers."""
