"""Monitoring of the cluster: readings every few seconds, their history, alerts and metrics."""
