"""How the cluster is doing: readings every few seconds, their history, alerts and metrics."""
