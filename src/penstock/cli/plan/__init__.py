"""`penstock plan`: how many workers, partitions and nodes a load needs, and what it costs."""
