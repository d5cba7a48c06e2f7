"""Commands about a running cluster: its nodes, topics, consumer groups, alerts and backups."""
