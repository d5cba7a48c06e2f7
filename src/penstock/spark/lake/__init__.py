"""The lake: topics kept as Parquet beyond their retention, each offset exactly once."""
