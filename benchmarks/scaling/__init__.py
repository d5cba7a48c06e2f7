"""How throughput changes as something grows: backlog, partitions, consumers, replicas."""
