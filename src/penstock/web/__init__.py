"""HTTP: health for probes, the cluster for operators, and a page for people."""
