"""The async shell: joins raft, storage and machines for one shard."""
