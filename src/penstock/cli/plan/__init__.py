"""`penstock plan`: the workers, partitions and nodes that a load needs, and the cost."""
