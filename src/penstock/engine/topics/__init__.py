"""The log as front-ends see it: produce, fetch, long polls, publications across partitions."""
