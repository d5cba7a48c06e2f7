"""Topics as a source of Spark: options, ranges, fetching, decoding, readers."""
