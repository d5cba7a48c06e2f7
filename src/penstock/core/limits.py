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
BATCH_UNPACKED_BYTES_MAX = 64 * MIB
"""The most that the records of a compressed batch may unpack to, where they are unpacked."""
BATCH_UNPACKED_RECORDS_MAX = 500_000
"""How many records of one batch are looked at, where records are read."""
RECORD_ERRORS_MAX = 10_000
"""How many wrong records of one batch an answer names."""
BATCH_UNPACKED_PARTS_MAX = 20_000
"""How many members of gzip or blocks of snappy a batch may be compressed in; snappy-java makes one
for each 32 KiB. Each takes some microseconds, also if it is empty."""
CHECKED_AT_ONCE_RECORDS_MAX = 256
"""How many records of a batch are walked on the event loop, in 0.1 ms; a thread walks more."""
CHECKED_AT_ONCE_PACKED_BYTES_MAX = 4 * KIB
CHECKED_AT_ONCE_UNPACKED_BYTES_MAX = 64 * KIB
"""A compressed batch above either is checked in a thread."""
CHECKED_AT_ONCE_PARTS_MAX = 4
CHECKS_WAITING_BYTES_MAX = 64 * MIB
"""What waits to be checked, or for an earlier batch that is being checked, on one node; above it
batches are refused until there is room."""
CHECK_MS_MAX = 1_000
"""Processor time that one batch may take to check."""
QUEUE_BATCH_RECORDS_MAX = 20_000
"""Of a FIFO queue, or one with deduplication: every replica remembers each message, in 8 µs."""
HEADER_BATCH_RECORDS_MAX = 100_000
"""Of other queues whose messages have delivery headers: every replica reads them, in 2 µs each."""
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
APPLY_BYTES_MAX = 1 * MIB
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
COMPACTION_KEYS_MAX = 250_000
"""How many keys one round of compaction holds in memory, at some 150 bytes each."""
COMPACTED_PARTITIONS_MAX = 50_000
"""Of one shard; how far each of them is compacted stands in the manifest."""
COMPACTION_JOB_BYTES = 8 * MIB
"""How much one job of a compaction reads before something else gets its turn."""
SNAPSHOT_BYTES_OLD_MAX = 1 * GIB
"""A node of release 0.1.0 takes no larger state from its leader, and stops if it is sent one."""
SNAPSHOT_PART_BYTES = 1 * MIB
"""How much of a snapshot, or of the records below it, one transfer message carries."""
SNAPSHOT_SLICE_BYTES = 128 * KIB
"""How much of a snapshot is encoded before the event loop turns."""
SNAPSHOT_WRITE_BYTES = 4 * MIB
"""How much of it is held in memory before it is written."""
SNAPSHOT_SECTION_BYTES_MAX = 2 * GIB
"""Of one machine; a larger state is split, since the format has room for 4 GiB in a piece."""

# State: what is in memory of a shard, and in its snapshots.
SHARD_STATE_BYTES_MAX = 256 * MIB
"""What all of it may take; above it new state is refused, kind by kind."""

# Producers.
PRODUCER_BATCHES_REMEMBERED = 5
"""Kafka's window: a retry of any of the last five batches is recognised."""
PRODUCERS_PER_PARTITION_MAX = 100_000
PRODUCER_EXPIRY_MS = 24 * 60 * 60 * 1000
PARTITIONS_PER_SHARD_MAX = 1_000_000

# The catalog. It decides by these while it applies, so they belong to its version: see there.
TOPICS_MAX = 100_000
PARTITIONS_MAX = 1_000_000
"""Of all topics together. A partition's id is never reused, so there may have been more."""
TOPIC_PARTITIONS_MAX = 100_000
"""Of one topic."""
TOPIC_PARTITIONS_ALLOWED = 2_000
"""Of one topic, unless a setting says otherwise."""
PARTITIONS_ALLOWED = 50_000
"""Of all topics together, unless a setting says otherwise."""
TOPIC_NAME_CHARACTERS_MAX = 249
"""Kafka's bound, which came from the names of its files."""
TOPIC_CONFIG_CHARACTERS_MAX = 1_024
"""Of one value."""
SHARDS_MAX = 1_024
"""Data shards of a cluster; their number is chosen once, when it is founded."""
NODES_MAX = 1_000
NODES_EVER_MAX = 100_000
"""Nodes there are and ids of those that were removed, which are remembered for ever."""
NODE_TEXT_CHARACTERS_MAX = 300
"""Of an address, an incarnation or the name of a rack."""
PRODUCER_IDS_TAKEN_MAX = 1_000_000
"""How many producer ids a node may take at once, to give out by itself."""
CONFIGURED_GROUPS_MAX = 10_000
"""Consumer and share groups that have configs of their own."""
SECRETS_MAX = 100
SECRET_NAME_CHARACTERS_MAX = 100
SECRET_BYTES_MAX = 1 * KIB
CATALOG_COMMAND_BYTES_MAX = 1 * MIB
"""The largest command that the catalog writes into its log."""

# Between nodes.
FRAME_BYTES_MAX = ENTRY_PAYLOAD_BYTES_MAX + 4 * MIB
"""The largest frame's payload: one entry of the largest size, and what is said around it."""
HELLO_BYTES_MAX = 4 * KIB
"""The largest frame of a connection that has not yet proven itself and said who it is."""
STRANGER_FRAME_BYTES_MAX = 64 * KIB
"""The largest frame of a node that is not a member: it introduces itself and does nothing else."""
CLUSTER_KEY_BYTES = 32
CLUSTER_KEYS_MAX = 2
"""Keys that are accepted at once: the new one and the old one, during a rotation."""
PEER_UNPROVEN_CONNECTIONS_MAX = 64
"""Connections that came in and have not said hello; they have two seconds for it."""
PEER_UNPROVEN_CONNECTIONS_PER_HOST_MAX = 16
TERM_MAX = 2**31 - 1
"""Kafka's leader epoch has 31 bits."""
TERM_JUMP_MAX = 2**20
"""How far a message's term may be ahead of a term that this node knows: elections without a pause
would take days to get there."""
INDEX_MAX = 2**48
"""Of an entry; at a million entries a second a log needs nine years to get there."""
MESSAGES_FRAME_BYTES = 1 * MIB
"""Messages beyond this leave in the next frame; a single larger one still goes, alone."""
PEER_OUTGOING_BYTES_MAX = 64 * MIB
"""What may wait to leave for one node; above it messages are dropped and requests refused."""
PEER_OUTGOING_SMALL_BYTES_MAX = 1 * MIB
"""On top of that, for heartbeats, votes and answers, which keep a cluster together."""
PEER_CONNECTIONS_MAX = 2_048
"""All connections with other nodes, and with what has not yet said that it is one."""
REQUESTS_IN_FLIGHT_MAX = 1_024
"""How many requests one node may have waiting at another."""
REQUEST_BODY_BYTES_MAX = 32 * MIB
"""The largest body of a request between nodes, or of its answer."""
REQUESTS_SERVED_BYTES_MAX = 64 * MIB
"""What all requests of one node may hold together while they are served; one is always taken."""

# Calls between nodes: how long the caller waits for the reply.
CALL_SECONDS = 3.0
"""Unless the call has a bound of its own."""
CALL_MS_MAX = 600_000
"""The longest that a call is served, whatever the caller says."""
CHANGE_CALL_SECONDS = 15.0
"""For a change of a shard, which its leader replicates before it replies."""
COPIES_CALL_SECONDS = 20.0
"""For a search for the copies of a message in one partition."""
CUT_CALL_SECONDS = 1.0
"""While shards are held for a cut, requests to them wait."""
INTRODUCTION_CALL_SECONDS = 2.0
LOOK_CALL_SECONDS = 10.0
"""For messages of a log, or the moves of a queue."""
PART_CALL_SECONDS = 60.0
"""For one partition's part of a publication."""
PUBLISH_SECONDS = 10.0
"""After this a caller that publishes learns that the outcome is open; it may ask again."""
QUEUE_CALL_SECONDS = 10.0
"""For a send, count or look at a queue; a receive may wait for messages on top of it."""
SAMPLE_CALL_SECONDS = 2.0
TRACE_CALL_SECONDS = 5.0

# Retries: the pause after the first failure, and the longest; between them it doubles each time.
POLL_PAUSE_SECONDS = 0.000_2
POLL_PAUSE_SECONDS_MAX = 0.02
"""For what this process has in a moment, such as its own copy of a change of the catalog."""
LEADER_PAUSE_SECONDS = 0.01
LEADER_PAUSE_SECONDS_MAX = 0.1
"""For a shard that has no leader now: an election takes a second or two."""
CALL_PAUSE_SECONDS = 0.05
CALL_PAUSE_SECONDS_MAX = 2.0
"""For a broker that cannot be reached or refuses."""
REPAIR_PAUSE_SECONDS = 0.2
REPAIR_PAUSE_SECONDS_MAX = 30.0
"""For work in the background, for which no caller waits."""

# Consumer groups. Kept by the leader, before it proposes; none of them decides in `apply`.
GROUPS_PER_SHARD_MAX = 100_000
GROUP_MEMBERS_MAX = 10_000
"""Of one group; a setting may ask for fewer."""
GROUP_NAME_BYTES_MAX = 4 * KIB
"""Of the names of a group, a member, a static instance, a client, a host or a protocol."""
GROUP_PROTOCOLS_MAX = 64
"""How many ways of sharing the work a member may offer."""
GROUP_METADATA_BYTES_MAX = 64 * KIB
"""What a member may say about itself, in all its protocols together."""
GROUP_ASSIGNMENTS_BYTES_MAX = 16 * MIB
"""What a leader may hand out, to all members together."""
GROUP_STATE_BYTES_MAX = 32 * MIB
"""What one group may take of its shard's state, with its offsets, before it may not grow."""
GROUP_PENDING_MEMBERS_MAX = 100_000
"""Ids given out, over all groups of a shard, whose owners have not come back yet (KIP-394)."""
GROUP_SESSION_MIN_MS = 6_000
GROUP_SESSION_MAX_MS = 30 * 60 * 1000
GROUP_REBALANCE_TIMEOUT_MAX_MS = 24 * 60 * 60 * 1000
"""No request waits longer than this for a member, whatever the member asks for."""
GROUP_INITIAL_DELAY_MS = 250
OFFSETS_PER_GROUP_MAX = 1_000_000
OFFSETS_PER_COMMIT_MAX = 100_000
OFFSETS_PER_COMMAND_MAX = 5_000
"""A larger commit becomes several commands, so that none is long to apply."""
OFFSET_METADATA_BYTES_MAX = 4 * KIB
OFFSET_RETENTION_MS = 7 * 24 * 60 * 60 * 1000
OFFSET_SWEEP_INTERVAL_MS = 10 * 60 * 1000
"""How often groups are looked through for offsets that are too old."""
OFFSET_SWEEP_GROUPS_PER_TICK = 500

# Share groups. Their coordinator keeps them in memory; messages they have leased are `Queues`.
SHARE_GROUPS_MAX = 10_000
"""With members, on one coordinator."""
SHARE_GROUP_MEMBERS_MAX = 200
"""Of one group, as in Kafka."""
SHARE_GROUP_SUBSCRIPTIONS_MAX = 1_000
"""Topics of one member."""
SHARE_SESSIONS_MAX = 2_000
"""Of one node, as in Kafka."""
SHARE_SESSION_PARTITIONS_MAX = 10_000
SHARE_SESSION_RANGES_MAX = 20_000
"""Ranges of messages that a member is remembered to have leased from one partition."""

# The memory that all connections of a node hold together: see `core/memory_budget.py`.
MEMORY_BYTES_MAX = 512 * MIB
"""What requests, answers and messages that are being read hold together, on all ports of a node."""
MEMORY_SMALL_BYTES_MAX = 16 * KIB
"""A request up to this size is small: there is a reserve for it when the rest is taken."""
MEMORY_CONNECTIONS_PER_ADDRESS_MAX = 8_000
"""How many connections clients of one address may have, on all ports of a node."""
FRAME_BYTES_MIN = 4 * KIB
"""The buffer that a request gets when it has only begun to arrive, however long it says it is."""

# The Kafka port.
KAFKA_REQUEST_BYTES_MAX = 100 * MIB
"""The largest request of a Kafka client; Kafka's socket.request.max.bytes."""
KAFKA_CONTROL_REQUEST_BYTES_MAX = 8 * MIB
"""The largest request that carries no messages: it becomes many small objects."""
KAFKA_REQUEST_ROWS_MAX = 100_000
"""The longest array in a request, and how many rows all its arrays may have together."""
KAFKA_DECODED_AT_ONCE_BYTES = 16 * KIB
"""A larger request is decoded and carried out in time slices."""
KAFKA_DECODED_WHOLE_BYTES_MAX = 256 * KIB
"""The largest heartbeat or request of a share session: these are never decoded in slices."""
KAFKA_TAGS_MAX = 64
"""Tagged fields of one struct."""
KAFKA_HEADER_BYTES_MAX = 32 * KIB
"""Of a request's header: the client's name and tagged fields."""
KAFKA_ROWS_AT_ONCE = 100
"""How many rows of one request are carried out side by side, where each waits for the cluster."""
KAFKA_LANDING_BYTES = 64 * KIB
"""Where bytes arrive before it is known what they belong to; one for all connections."""
KAFKA_CONNECTION_REQUESTS_MAX = 1_000
"""How many requests of one connection may be under way."""
KAFKA_CONNECTION_REQUESTS_BYTES_MAX = 32 * MIB
"""And how many bytes; a single larger request is still taken."""
KAFKA_CONNECTION_UNSENT_BYTES_MAX = 8 * MIB
"""What may wait to be sent on one connection before its next request is looked at."""
KAFKA_FETCH_BYTES_MAX = 55 * MIB
"""The largest answer to a fetch; Kafka's fetch.max.bytes."""
KAFKA_FETCHES_HELD_BYTES_MAX = 64 * MIB
"""What waiting fetches hold while they gather their smallest amount; above it they end."""
KAFKA_METADATA_CACHE_BYTES_MAX = 32 * MIB
KAFKA_BATCH_OPENED_BYTES_MAX = 16 * MIB
"""What a compressed batch may open to when a message is looked for by its time."""
KAFKA_SEQUENCE_GAPS_MAX = 10_000
"""How many producers may have batches missing before the oldest are forgotten."""
KAFKA_CONNECTIONS_MAX = 10_000
KAFKA_CONNECTION_IDLE_MS = 10 * 60 * 1000
"""A connection that asks nothing for this long is closed; Kafka's connections.max.idle.ms."""
KAFKA_FRAME_MS_MAX = 30_000
"""How long a request may take to arrive."""

# The native protocol, at the same port.
NATIVE_REQUEST_BYTES_MAX = 100 * MIB
"""The largest frame of a native client; what a batch may be is up to its topic."""
NATIVE_HEAD_BYTES_MAX = 1 * MIB
"""Of a request's head, which becomes many small objects in one piece."""
NATIVE_LARGE_HEAD_BYTES_MAX = 8 * MIB
"""The same for the requests that carry messages, verdicts, offsets or assignments in their head."""
NATIVE_ANSWER_BYTES_MAX = 128 * MIB
"""The largest frame a client takes from a broker."""
NATIVE_REQUESTS_MAX = 1_000
"""How many requests of one connection may be under way."""
NATIVE_REQUESTS_BYTES_MAX = 32 * MIB
NATIVE_UNSENT_BYTES_MAX = 8 * MIB
"""What may wait to be sent on one connection before its next request is looked at."""

# SQS, at the HTTP port.
SQS_BODY_BYTES_MAX = 8 * MIB
"""A batch has up to 1 MiB of text. JSON may write a character of one byte with six bytes, forms
with three; ids and names come on top."""
SQS_CONNECTIONS_MAX = 5_000
HTTP_DOOR_CONNECTIONS_MAX = 1_000
"""Connections above that number that may be open for a moment, to be asked for `/livez` or
`/readyz`."""

# Queues.
MESSAGES_OPENED_BYTES_MAX = 32 * MIB
"""What a node keeps of batches it has opened for queues; the one in use may be larger."""
MESSAGES_READ_BYTES_MIN = 16 * KIB
"""How much is read at once to find messages: this at first, more as a reader goes on."""
MESSAGES_READ_BYTES_MAX = 256 * KIB
QUEUE_COMMAND_BYTES_MAX = 4 * MIB
ACQUIRE_MESSAGES_MAX = 10_000
"""How many messages one receive may lease."""
SETTLEMENTS_MAX = 10_000
"""How many verdicts one request may bring."""
LEASE_MS_MAX = 12 * 60 * 60 * 1000
"""SQS's bound for the time a message may be in flight."""
DEAD_REASON_CHARACTERS_MAX = 1_000
QUEUE_WAIT_MS_MAX = 20_000
"""SQS's bound for how long a receive may wait."""
QUEUE_IN_FLIGHT_MAX = 1_000_000
"""The most that `queue.in.flight.max` may be."""
QUEUE_SQS_CHARACTERS_MAX = 16 * KIB
"""Of `queue.sqs`: what the SQS API keeps about a queue."""
WORK_GROUPS_PER_PARTITION_MAX = 1_000
DEDUPLICATION_IDS_MAX = 5_000_000
"""How many ids a partition remembers; beyond it the oldest go before their time."""
ORIGIN_REMEMBERED_MS = 24 * 60 * 60 * 1000
"""How long a queue remembers where a moved message came from, so that it is not moved twice."""

# Publishing batches of staged messages.
PUBLICATION_COMMAND_BYTES_MAX = 4 * MIB
PUBLICATION_RANGES_MAX = 50_000
"""Of staged messages that one publication may be made of."""
APPLICATION_NAME_BYTES_MAX = 255
APPLICATIONS_PER_SHARD_MAX = 100_000
APPLICATION_REMEMBERED_MS = 30 * 24 * 60 * 60 * 1000
"""How long it is known which batch an application that is silent has published last."""
PUBLICATION_OWNER_BYTES_MAX = 255
PUBLICATION_PART_RECORDS_MAX = (1 << 31) - 1
"""So far the messages of a part can be numbered."""
PUBLICATION_RANGES_UNDER_WAY_MAX = 1_000_000
"""In all publications of a shard that are under way: they are part of its state."""
STAGED_MS = 6 * 60 * 60 * 1000
"""How long staged messages wait to be published."""
STAGED_CHECKED_MS = 24 * 60 * 60 * 1000
"""How long they are kept for a publication that may have been decided."""
STAGED_RANGES_MAX = 1_000_000
"""How many ranges a leader remembers; beyond it, the oldest are left to expire."""

# Moving messages from one queue to another.
MOVE_COMMAND_BYTES_MAX = 1 * MIB
MOVES_ACTIVE_PER_SHARD_MAX = 1_000
MOVES_KEPT_PER_SOURCE = 10
"""How many moves that are over can still be asked about."""
MOVE_RATE_MAX = 10_000
"""The highest rate of a move, in messages a second."""
MOVE_RATE = 500
"""The default rate of a move: SQS's bound."""
MOVE_FILTER_CHARACTERS_MAX = 1_000
MOVE_FILTER_PLACES_MAX = 10_000
"""How many messages a filter may name one by one."""
MOVE_FAILURE_CHARACTERS_MAX = 1_000
TURN_STEPS_MAX = 2_000
"""How many leases, delays and expiries one entry may end; the rest is for the next one."""
COVER_STEPS_MAX = 5_000
"""How many runs one entry may end that covers a range; the rest is for the next one."""
COVER_DEAD_MAX = 1_000
"""How many messages may die by one of them."""
STREAM_NAME_CHARACTERS_MAX = 100
"""Of the name of an application that acks cumulatively."""
BROWSE_STEPS_MAX = 100_000
"""How many messages one look into a queue may pass over."""
RECEIVER_CHARACTERS_MAX = 120
"""Of the name of a receiver, as the delivery history keeps it."""
DELIVERY_HISTORY_BYTES_MAX = 8 * MIB
"""The delivery history that a node keeps of one shard by default."""

# Watching.
EVENTS_MAX = 500
"""How many lines of what happened a node keeps in memory."""
EVENT_CHARACTERS_MAX = 1_000
HISTORY_STEP_MS = 5_000
"""The least time between two points of a chart."""
HISTORY_STEPS = 720
"""How many points are kept: an hour of them."""
HISTORY_SERIES_MAX = 12_000
"""How many curves; each takes 3 KB, and one that was never anything but 0 takes nothing."""
HISTORY_LONG_STEP_MS = 300_000
"""The time between two points of a chart that goes back days."""
HISTORY_LONG_STEPS = 2_016
"""How many of them are kept: a week."""
HISTORY_LONG_SERIES_MAX = 3_000
"""How many curves; each takes 8 KB, and one that was never anything but 0 takes nothing."""
HISTORY_FILE_BYTES_MAX = 16 * MIB
"""Of each of the two files in which a node keeps them."""
ALERTS_MAX = 10_000
"""How many alerts there may be at once."""
ALERTS_RESOLVED_MAX = 500
"""How many that are over are still shown."""
SILENCES_MAX = 200
"""How many acknowledgements and silences of alerts may be in force at once."""
SILENCE_MS_MAX = 30 * 86_400_000
"""How long each may last."""
SILENCE_CHARACTERS_MAX = 300
"""Of each text in one."""
WEBHOOK_PAUSE_SECONDS = 1.0
WEBHOOK_PAUSE_SECONDS_MAX = 16.0
"""Before a notice that was not taken is sent again."""
WEBHOOK_MESSAGES_MAX = 1_000
"""How many messages about alerts wait to be sent; beyond it the oldest are dropped."""
AUDIT_LINES_MAX = 1_000
"""In one answer."""
AUDIT_WAITING_MAX = 1_000
"""How many orders wait to be recorded; beyond it the oldest are in the log only."""
AUDIT_CHARACTERS_MAX = 500
"""Of each part of such a record."""
ASKERS_PER_QUEUE_MAX = 1_000
"""How many workers of one work group on one partition are counted separately."""

# Counting.
COUNTED_TOPICS_MAX = 1_000
"""How many topics each node tells apart in its counters; the rest is counted as one."""
SCRAPED_CONSUMERS_MAX = 200
"""Of how many consumers a node tells the share of deliveries that failed: of those with the most
failures."""
SCRAPED_HISTOGRAMS_MAX = 200
"""Of how many queues a node tells how long their messages take, each for itself."""
SCRAPED_GROUPS_MAX = 1_000
"""How many consumer groups a node tells of in its metrics, at most."""
SCRAPED_PARTITIONS_MAX = 2_000
"""How many partitions a node tells of in its metrics unasked; above it, one has to ask for them."""
