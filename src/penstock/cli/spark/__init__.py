"""Commands that run on Spark: jobs and pipelines."""
