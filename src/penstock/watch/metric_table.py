"""Every metric, once: its name, its kind, its labels, what it means and how nodes add up.

The page of metrics is written by this table, and the reference page is made of it: a name that is
not here cannot be exported. Names keep to the rules of Prometheus: one prefix, base units, the unit
last, `_total` for what only grows. Long because it is one table.

Adding up. Each node exports what it did itself and what it leads, and nothing of others:

    counters   of what this node did: appended, handed out, answered, applied as the leader
    gauges     of queues, groups and topics are exported by their leaders, part by part
    so         `sum` over all nodes is the cluster's number, unless the table says otherwise
"""

from collections.abc import Mapping
from enum import Enum

import msgspec


class Kind(Enum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    over_nodes: str = "sum"
    """The function that combines the values of several nodes."""


class Chapter(msgspec.Struct, frozen=True):
    """Metrics that belong together."""

    title: str
    text: str
    metrics: tuple[Metric, ...]


_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_TRAFFIC = ("destination", "protocol")
_WORK = ("queue", "group")
_REQUEST = ("protocol", "api")

CHAPTERS: tuple[Chapter, ...] = (
    Chapter(
        "Message traffic",
        "Counters by `destination`, which is a topic or queue, and by `protocol`: `kafka`,"
        " `native`, `sqs`, `http`, or `internal` for what the cluster sends to itself, as dead"
        " letters and redrives. Produced is counted by the node that appends, delivered by the node"
        " that answers the client; the rest by the node that leads the partition when it happens.",
        (
            Metric(
                "penstock_messages_produced_total",
                _C,
                _TRAFFIC,
                "Messages that were appended. A batch that its producer had to send again, because"
                " it did not hear the answer, counts again.",
            ),
            Metric(
                "penstock_bytes_produced_total",
                _C,
                _TRAFFIC,
                "Bytes that were appended, as they lie in the log before replication.",
            ),
            Metric(
                "penstock_batches_produced_total",
                _C,
                _TRAFFIC,
                "Batches in which they were appended: messages divided by batches is the size of a"
                " batch.",
            ),
            Metric(
                "penstock_messages_delivered_total",
                _C,
                _TRAFFIC,
                "Messages delivered to readers and workers; each delivery counts.",
            ),
            Metric(
                "penstock_messages_acked_total",
                _C,
                ("destination",),
                "Messages that were acknowledged.",
            ),
            Metric(
                "penstock_messages_redelivered_total",
                _C,
                ("destination",),
                "Deliveries to workers that were not the first of their message.",
            ),
            Metric(
                "penstock_messages_failed_total",
                _C,
                ("destination", "error_type"),
                "Deliveries that came to nothing. `error_type` is `released` (given back),"
                " `lease_expired` (no answer in time), `rejected` (by a worker) or `read` (by a"
                " reader of the log, as Spark).",
            ),
            Metric(
                "penstock_messages_dead_lettered_total",
                _C,
                ("destination", "reason"),
                "Messages that failed for good. `reason` is `deliveries` (as many as may be, in"
                " vain), `rejected` (by a worker) or `read` (by a reader of the log, as Spark).",
            ),
            Metric(
                "penstock_messages_expired_total",
                _C,
                ("destination",),
                "Messages that expired before they were delivered.",
            ),
            Metric(
                "penstock_messages_discarded_total",
                _C,
                ("destination",),
                "Dead messages that were deleted, as their queue is configured.",
            ),
            Metric(
                "penstock_message_processing_duration_seconds",
                _H,
                ("destination",),
                "From lease to ack, of messages that were done at the first delivery: of others the"
                " time would tell how long they waited between deliveries.",
            ),
        ),
    ),
    Chapter(
        "Queues",
        "`queue` is the topic, `group` the work group: `queue` is the one of SQS and of all"
        " receivers that name no group, others are share groups. A queue whose partitions are led"
        " by several nodes is exported by each of them, in part.",
        (
            Metric(
                "penstock_queue_messages",
                _G,
                (*_WORK, "state"),
                "Messages by state: `ready`, `leased`, `delayed` or `dead`. `in_flight` is a"
                " deprecated alias of `leased` with the same value, which 0.3 drops: sums over"
                " `state` must leave it out. What lies in a dead-letter queue is `dead` in the"
                " default work group of the queues it comes from, and `ready` in the dead-letter"
                " queue.",
            ),
            Metric(
                "penstock_queue_oldest_message_age_seconds",
                _G,
                _WORK,
                "Age of the oldest message that is not acknowledged; absent if there is none.",
                "max",
            ),
            Metric(
                "penstock_queue_dead_letters",
                _G,
                ("queue",),
                "Messages of a queue that failed for good: those still there, and those in its"
                " dead-letter queue. A dead-letter queue that several queues share counts for each"
                " of them.",
            ),
            Metric(
                "penstock_queue_consumers",
                _G,
                _WORK,
                "Workers that sent this node a receive within the last minute. One that uses"
                " several nodes is counted by each.",
                "max",
            ),
            Metric(
                "penstock_queue_depth_messages",
                _H,
                ("queue",),
                "How many messages of all work groups were ready, observed with each survey (every"
                " two seconds, or less often if surveys take long) by the node that leads the"
                " catalog.",
            ),
            Metric(
                "penstock_consumer_error_ratio",
                _G,
                (*_WORK, "consumer"),
                "Of the deliveries to a consumer that came to an end in the last minute, the share"
                " that failed: 0 to 1. Exported for consumers of which some did, read from the"
                " latest part of the delivery history every 15 seconds.",
                "max",
            ),
            Metric(
                "penstock_queue_silent_seconds",
                _G,
                _WORK,
                "Time since a worker last sent this node a receive; 0 while one holds messages.",
                "min",
            ),
        ),
    ),
    Chapter(
        "Consumer groups",
        "Exported by the node that coordinates the group.",
        (
            Metric(
                "penstock_consumer_group_lag_messages",
                _G,
                ("group", "topic"),
                "Lag of a group in a topic, in messages.",
            ),
            Metric("penstock_consumer_group_members", _G, ("group",), "Members of a group."),
        ),
    ),
    Chapter(
        "Requests",
        "`protocol` is `kafka`, `native`, `sqs` or `http`; `api` is what each calls its requests,"
        " for HTTP the method and the path as the routes have it. The time that a client asked to"
        " wait for messages is left out; JoinGroup and SyncGroup include waiting for the other"
        " members, as in Kafka.",
        (
            Metric(
                "penstock_request_duration_seconds",
                _H,
                _REQUEST,
                "Time from the last byte of a request to its answer.",
            ),
            Metric(
                "penstock_request_errors_total",
                _C,
                (*_REQUEST, "code"),
                "Errors in answers: Kafka's and SQS's own codes, names of errors natively, the"
                " status for HTTP.",
            ),
            Metric(
                "penstock_slow_requests_total",
                _C,
                (),
                "Requests that took longer than `log.slow_request`.",
            ),
            Metric(
                "penstock_loop_stalls_total",
                _C,
                (),
                "Times that one piece of work held the event loop for more than 100 ms; the log"
                " says which.",
            ),
            Metric("penstock_connections", _G, ("protocol",), "Connections that are open."),
            Metric(
                "penstock_connections_accepted_total",
                _C,
                ("protocol",),
                "Accepted connections. Native ones begin as Kafka's and count there too.",
            ),
            Metric(
                "penstock_connections_refused_total",
                _C,
                ("protocol",),
                "Connections refused because there were too many.",
            ),
            Metric(
                "penstock_connections_faulted_total",
                _C,
                ("protocol",),
                "Connections closed by the broker: invalid data, a timeout, an internal error.",
            ),
            Metric(
                "penstock_throttled_total",
                _C,
                ("protocol",),
                "Times that a client was delayed, or told to retry, because memory was short.",
            ),
            Metric(
                "penstock_held_bytes",
                _G,
                ("protocol", "what"),
                "Memory that is held for clients and, as `peer`, for other nodes: `requests` under"
                " way, `answers` that are not fetched, `fetches` that wait for more.",
            ),
            Metric(
                "penstock_memory_budget_bytes",
                _G,
                (),
                "How much memory clients of all ports may hold together (`limits.memory_max`).",
            ),
            Metric(
                "penstock_memory_waiting_requests",
                _G,
                (),
                "Connections and fetches that wait for memory now.",
            ),
            Metric(
                "penstock_memory_refused_total",
                _C,
                ("protocol",),
                "Requests that were refused because memory was short.",
            ),
            Metric(
                "penstock_memory_disconnected_total",
                _C,
                ("protocol",),
                "Connections that were closed because memory was short and they had stalled.",
            ),
            Metric(
                "penstock_network_bytes_total",
                _C,
                ("protocol", "direction"),
                "Bytes from (`in`) and to (`out`) clients, where they are counted.",
            ),
        ),
    ),
    Chapter(
        "Replication",
        "`group` is a Raft group, which is a shard: 0 is the catalog. Each node exports its own"
        " replica; lag and silence of followers are exported by the leader.",
        (
            Metric("penstock_raft_leader", _G, ("group",), "1 if this node leads the shard."),
            Metric("penstock_raft_term", _G, ("group",), "The term this replica is in.", "max"),
            Metric(
                "penstock_raft_commit_index",
                _G,
                ("group",),
                "The index of the last entry known to be committed.",
                "max",
            ),
            Metric(
                "penstock_raft_last_applied_index",
                _G,
                ("group",),
                "The index of the last applied entry.",
                "min",
            ),
            Metric(
                "penstock_raft_elections_total",
                _C,
                ("group",),
                "Elections that this replica stood in, trial votes included.",
            ),
            Metric(
                "penstock_raft_leaderships_total",
                _C,
                ("group",),
                "Times that this replica has become the leader.",
            ),
            Metric(
                "penstock_raft_commit_duration_seconds",
                _H,
                ("group",),
                "From a leader's proposal until it is written on a majority and applied; what was"
                " proposed together counts once.",
            ),
            Metric(
                "penstock_raft_follower_lag_entries",
                _G,
                ("group", "node"),
                "Entries that a follower is behind its leader.",
            ),
            Metric(
                "penstock_raft_follower_silent_seconds",
                _G,
                ("group", "node"),
                "Time since a leader last heard from a follower.",
            ),
            Metric(
                "penstock_raft_waiting_requests",
                _G,
                ("group",),
                "Requests that wait for a commit.",
            ),
        ),
    ),
    Chapter(
        "Storage",
        "Each node exports what is on its own disk; the sum counts every copy.",
        (
            Metric(
                "penstock_storage_bytes",
                _G,
                ("topic",),
                "Size of a topic's partitions in the logs.",
            ),
            Metric(
                "penstock_storage_log_bytes", _G, ("group",), "The size of a shard's log files."
            ),
            Metric("penstock_storage_segments", _G, ("group",), "Segment files of a shard."),
            Metric(
                "penstock_storage_fsync_duration_seconds",
                _H,
                ("group",),
                "Duration of the syncs that make entries durable.",
            ),
            Metric(
                "penstock_storage_full",
                _G,
                ("group",),
                "1 if a shard refuses appends because its disk is full.",
                "max",
            ),
            Metric(
                "penstock_shard_state_bytes",
                _G,
                ("group", "kind"),
                "What a shard's state takes in a snapshot; in memory it takes several times that.",
                "max",
            ),
            Metric(
                "penstock_shard_state_limit_bytes",
                _G,
                ("group", "kind"),
                "Size at which new state of the kind is refused.",
                "max",
            ),
            Metric(
                "penstock_storage_snapshot_failed",
                _G,
                ("group",),
                "1 if a shard could take no snapshot lately; it keeps the one before and its log.",
                "max",
            ),
            Metric("penstock_disk_size_bytes", _G, (), "The file system that holds the data."),
            Metric("penstock_disk_free_bytes", _G, (), "Free space of that file system."),
        ),
    ),
    Chapter(
        "Node and process",
        "With these come `process_…` (memory, processor time, open files) as every program has them"
        " that uses Prometheus' own library.",
        (
            Metric(
                "penstock_build_info",
                _G,
                ("version", "commit", "python"),
                "Always 1; the version of this node. `commit` is `unknown` in installed packages.",
            ),
            Metric(
                "penstock_node_info",
                _G,
                ("node", "cluster"),
                "Always 1; the identity of this node.",
            ),
            Metric("penstock_uptime_seconds", _G, (), "Time since the node started.", "min"),
            Metric(
                "penstock_peers_connected", _G, (), "Nodes that this one is connected to.", "min"
            ),
            Metric(
                "penstock_peer_bytes_total",
                _C,
                ("direction",),
                "Bytes from (`in`) and to (`out`) other nodes.",
            ),
            Metric(
                "penstock_peer_frames_total", _C, ("direction",), "Frames from and to other nodes."
            ),
            Metric("penstock_peer_links_lost_total", _C, (), "Links with other nodes that ended."),
            Metric("penstock_peer_waiting_bytes", _G, (), "Bytes waiting to be sent to nodes."),
            Metric(
                "penstock_peer_messages_dropped_total",
                _C,
                ("reason",),
                "Messages that were dropped: `outgoing`, there was no link or too much waited;"
                " `stranger`, the sender is no member or they were meant for another node.",
            ),
            Metric(
                "penstock_peer_connections_refused_total",
                _C,
                (),
                "Connections to the peer port that were refused: too many, or for what they said.",
            ),
            Metric(
                "penstock_peer_authentication_failures_total",
                _C,
                (),
                "Connections that did not prove in time that they hold the cluster key.",
            ),
            Metric(
                "penstock_peer_key_info",
                _G,
                (),
                "1 if this node talks only to nodes that hold the cluster key.",
                "min",
            ),
            Metric(
                "penstock_availability_ratio",
                _G,
                (),
                "The share of the last hour in which this node knew a leader of every shard and"
                " none of its own shards had lost its majority, 0 to 1. It looks every quarter of a"
                " second; time between two looks counts if both were good. More than 15 seconds"
                " without a look count as not available, time without a process not at all.",
                "min",
            ),
            Metric(
                "penstock_available_seconds_total",
                _C,
                (),
                "The same time, since the node started: the share of any window is its rate divided"
                " by that of `penstock_observed_seconds_total`.",
            ),
            Metric(
                "penstock_observed_seconds_total",
                _C,
                (),
                "The time of which that is known.",
            ),
            Metric("penstock_topics", _G, (), "Topics in this node's copy of the catalog.", "max"),
            Metric("penstock_partitions", _G, (), "Partitions of all of them.", "max"),
            Metric(
                "penstock_memory_bytes",
                _G,
                ("what",),
                "Memory of this process: `resident` is all of it, `limit` what it may have,"
                " `raft_cache` and `index_cache` are parts.",
            ),
            Metric(
                "penstock_alerts",
                _G,
                ("rule", "level"),
                "Alerts that fire; exported by the node that leads the catalog.",
            ),
            Metric(
                "penstock_metrics_duration_seconds_total",
                _C,
                (),
                "Time spent on making this page.",
            ),
        ),
    ),
    Chapter(
        "Names of other exporters",
        "The same numbers under the names of kafka_exporter, for boards that exist, and under the"
        " short names of many a design. Rates, errors and latency are of the last minute. Of more"
        " partitions than fit a small page, those by partition come only with `detail=partition`.",
        (
            Metric(
                "kafka_consumergroup_lag",
                _G,
                ("consumergroup", "topic", "partition"),
                "Lag of a group in a partition.",
            ),
            Metric(
                "kafka_consumergroup_lag_sum",
                _G,
                ("consumergroup", "topic"),
                "Lag of a group in a topic.",
            ),
            Metric(
                "kafka_consumergroup_current_offset",
                _G,
                ("consumergroup", "topic", "partition"),
                "The offset that a group has committed.",
            ),
            Metric("kafka_consumergroup_members", _G, ("consumergroup",), "Members of a group."),
            Metric(
                "kafka_topic_partitions",
                _G,
                ("topic",),
                "Partitions of a topic; exported by the node that leads the catalog.",
            ),
            Metric(
                "kafka_topic_partition_current_offset",
                _G,
                ("topic", "partition"),
                "The offset after the last message; exported by the partition's leader.",
            ),
            Metric(
                "kafka_topic_partition_oldest_offset",
                _G,
                ("topic", "partition"),
                "The first offset of the log.",
            ),
            Metric("queue_depth", _G, ("queue",), "Messages that are ready, of all groups."),
            Metric("queue_enqueue_rate", _G, ("queue",), "Messages appended in a second."),
            Metric("queue_dequeue_rate", _G, ("queue",), "Messages leased by workers in a second."),
            Metric(
                "queue_processing_latency_p95",
                _G,
                ("queue",),
                "The time, in seconds, within which 95 % of the messages were done.",
                "max",
            ),
            Metric(
                "queue_error_rate",
                _G,
                ("queue", "error_type"),
                "Share of the ended deliveries that failed: 0 to 1. `error_type`"
                " is that of `penstock_messages_failed_total`, or `all`; the maximum over types is"
                " therefore the whole.",
                "max",
            ),
            Metric(
                "batch_size_avg",
                _G,
                ("queue",),
                "Messages of a batch that was appended, in the last minute; absent if none was.",
                "max",
            ),
            Metric(
                "queue_consumer_lag",
                _G,
                ("queue", "group"),
                "Lag of a consumer group in a topic.",
            ),
        ),
    ),
    Chapter(
        "By partition",
        "Only with `GET /metrics?detail=partition`; exported by the partition's leader.",
        (
            Metric(
                "penstock_partition_log_start_offset",
                _G,
                ("topic", "partition"),
                "The first offset of the log.",
            ),
            Metric(
                "penstock_partition_high_watermark",
                _G,
                ("topic", "partition"),
                "The offset after the last committed message.",
            ),
            Metric(
                "penstock_partition_bytes",
                _G,
                ("topic", "partition"),
                "Size of a partition in its leader's log.",
            ),
            Metric(
                "penstock_partition_queue_messages",
                _G,
                ("topic", "partition", "group", "state"),
                "Messages of a queue by state, as `penstock_queue_messages`.",
            ),
            Metric(
                "penstock_consumer_group_partition_lag_messages",
                _G,
                ("group", "topic", "partition"),
                "Lag of a group in a partition; exported by its coordinator.",
            ),
        ),
    ),
)

METRICS: Mapping[str, Metric] = {
    metric.name: metric for chapter in CHAPTERS for metric in chapter.metrics
}
"""All metrics, by name."""
