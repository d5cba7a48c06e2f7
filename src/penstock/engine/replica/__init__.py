"""The driver of one shard: Raft, storage and machines joined on one event loop."""
