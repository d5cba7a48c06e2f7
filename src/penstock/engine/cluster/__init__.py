"""A node and the cluster it belongs to: founding, placement, stewardship, backup and restore."""
