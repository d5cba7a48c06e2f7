"""Every bound in the system, named with its unit. Nothing grows without one of these.

A bound that a user may change is a field of a settings object and takes its default from here.
"""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Messages and batches.
BATCH_BYTES_MAX = 16 * MIB
"""The largest record batch accepted from a client."""
BATCH_RECORDS_MAX = 1 << 24
"""How many records a batch may claim to hold; a compressed one's count cannot be checked."""
ENTRY_PAYLOAD_BYTES_MAX = 64 * MIB
"""The largest payload of one log entry; a length above it is damage, not data."""
ENTRY_SLICES_MAX = 65_536
"""How many batches one APPEND entry may carry."""

# Batching of proposals.
GATHER_BYTES_MAX = 1 * MIB
"""How much the batcher packs into one entry."""
WRITE_BYTES_MAX = 4 * MIB
"""How much of what is gathered one disk write takes; the rest is made ready meanwhile."""
PROPOSALS_WAITING_MAX = 100_000
"""How many requests a shard holds between arrival and answer before it pushes back."""
PROPOSALS_WAITING_BYTES_MAX = 256 * MIB

# Raft.
TICK_MS = 100
ELECTION_TICKS = 10
"""T of the election timeout [T, 2T): 1,000 ms, ten times a bad disk's fdatasync."""
HEARTBEAT_TICKS = 1
APPEND_MESSAGE_BYTES_MAX = 1 * MIB
INFLIGHT_MESSAGES_MAX = 64
INFLIGHT_BYTES_MAX = 16 * MIB
UNCOMMITTED_BYTES_MAX = 256 * MIB
ENTRY_CACHE_BYTES_MAX = 16 * MIB
"""Recent entries kept in memory for followers that are just behind."""
APPLY_BYTES_MAX = 4 * MIB
"""How much committed log one `Ready` hands over to be applied."""
PROMOTION_LAG_ENTRIES_MAX = 1_000
"""A learner that misses more entries than this is not made a voter yet."""

# Storage.
SEGMENT_BYTES = 64 * MIB
SEGMENT_REWRITE_LIVE_PERCENT_MAX = 30
"""A sealed segment with at most this share of living bytes is rewritten."""
BALLAST_BYTES = 160 * MIB
"""Held back on disk so that votes, acknowledgements and deletes still work when it is full."""
SNAPSHOT_LOG_BYTES = 64 * MIB
"""A new snapshot is taken after this much log."""
RETENTION_PARTITIONS_PER_LOOK = 1_000
"""How many partitions one look at what is too old or too large may cover."""
SNAPSHOT_BYTES_MAX = 1 * GIB
SNAPSHOT_PART_BYTES = 1 * MIB
"""How much of a snapshot, or of the records below it, one transfer message carries."""

# Producers.
PRODUCER_BATCHES_REMEMBERED = 5
"""Kafka's window: a retry of any of the last five batches is recognised."""
PRODUCERS_PER_PARTITION_MAX = 100_000
PRODUCER_EXPIRY_MS = 24 * 60 * 60 * 1000
PARTITIONS_PER_SHARD_MAX = 1_000_000
