"""`penstock generate …`: files for Compose, Kubernetes, Prometheus and Grafana."""
