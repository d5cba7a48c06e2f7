"""Metrics of this node itself: its replicas, its disk, its memory, its front-ends."""

import platform
from collections import Counter
from collections.abc import Iterable

from penstock.core.front_end import FrontEndStatistics
from penstock.core.limits import TICK_MS
from penstock.core.memory_budget import MemoryStatistics
from penstock.core.types import ShardId
from penstock.core.version import __version__
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.samples import MachineSample
from penstock.engine.replica.replica import Replica
from penstock.watch.build import commit
from penstock.watch.families import Families
from penstock.watch.watch import Watch

PROTOCOLS = ("kafka", "native", "sqs", "http", "peer")
"""That draw on the memory budget; each has its series from the start."""


def add_node(page: Families, node: Node, machine: MachineSample) -> None:
    """The identity of this node, and its use of the machine."""
    engine = node.engine
    python = platform.python_version()
    page.add("penstock_build_info", 1, __version__, commit(), python)
    page.add("penstock_node_info", 1, str(engine.topics.node_id), engine.topics.cluster_id)
    page.add("penstock_uptime_seconds", machine.up_ms / 1_000)
    page.add("penstock_peers_connected", len(engine.topics.alive()) - 1)
    page.add("penstock_topics", len(engine.topics.catalog.topics))
    page.add("penstock_partitions", engine.topics.catalog.partition_count)
    page.add("penstock_memory_bytes", machine.memory_bytes, "resident")
    page.add("penstock_memory_bytes", machine.memory_bytes_max, "limit")
    if machine.disk_bytes:
        page.add("penstock_disk_size_bytes", machine.disk_bytes)
        page.add("penstock_disk_free_bytes", machine.disk_free_bytes)
    page.add("penstock_slow_requests_total", engine.topics.slow_requests.count)
    page.add("penstock_loop_stalls_total", engine.topics.slow_requests.stalls)


def add_links(page: Families, node: Node) -> None:
    """What passes between this node and the others, and who was kept out."""
    links = node.link_statistics()
    for direction, count, frames in (
        ("in", links.bytes_received, links.frames_received),
        ("out", links.bytes_sent, links.frames_sent),
    ):
        page.add("penstock_peer_bytes_total", count, direction)
        page.add("penstock_peer_frames_total", frames, direction)
    page.add("penstock_peer_links_lost_total", links.links_lost)
    page.add("penstock_peer_waiting_bytes", links.waiting_bytes)
    page.add("penstock_peer_messages_dropped_total", links.messages_dropped, "outgoing")
    page.add("penstock_peer_messages_dropped_total", links.messages_foreign, "stranger")
    page.add("penstock_peer_connections_refused_total", links.connections_refused)
    page.add("penstock_peer_authentication_failures_total", links.authentications_failed)
    page.add("penstock_peer_key_info", int(node.keys.status().required))


def add_shards(page: Families, node: Node) -> None:
    """Every replica that this node holds."""
    raft_bytes = index_bytes = 0
    for shard in node.shards:
        running = node.shards.get(shard)
        if running is not None:
            some = _add_replica(page, shard, running.replica)
            for kind, (size, limit) in running.state_use().items():
                page.add("penstock_shard_state_bytes", size, str(shard), kind.value)
                page.add("penstock_shard_state_limit_bytes", limit, str(shard), kind.value)
            raft_bytes += some[0]
            index_bytes += some[1]
    page.add("penstock_memory_bytes", raft_bytes, "raft_cache")
    page.add("penstock_memory_bytes", index_bytes, "index_cache")


def _add_replica(page: Families, shard: ShardId, replica: Replica) -> tuple[int, int]:
    group = str(shard)
    raft, log = replica.raft.statistics(), replica.log.statistics()
    page.add("penstock_raft_leader", int(replica.leads), group)
    page.add("penstock_raft_term", raft.term, group)
    page.add("penstock_raft_commit_index", raft.commit, group)
    page.add("penstock_raft_last_applied_index", raft.applied, group)
    page.add("penstock_raft_elections_total", raft.elections, group)
    page.add("penstock_raft_leaderships_total", raft.leaderships, group)
    page.add("penstock_raft_waiting_requests", replica.waiting_requests, group)
    commits = replica.commit_times.spans.histogram.statistics()
    page.add_times("penstock_raft_commit_duration_seconds", commits, group)
    if replica.leads:
        for view in replica.raft.progress():
            follower = str(view.node)
            lag = max(0, raft.last_index - view.match)
            page.add("penstock_raft_follower_lag_entries", lag, group, follower)
            silent = view.silence * TICK_MS / 1_000
            page.add("penstock_raft_follower_silent_seconds", silent, group, follower)
    page.add("penstock_storage_log_bytes", log.size_bytes, group)
    page.add("penstock_storage_segments", log.segments, group)
    page.add("penstock_storage_full", int(log.full), group)
    page.add("penstock_storage_snapshot_failed", int(bool(replica.snapshot_failure)), group)
    syncs = replica.log.syncs.histogram.statistics()
    page.add_times("penstock_storage_fsync_duration_seconds", syncs, group)
    return raft.memory_bytes, log.index_cache_bytes


def add_watch(page: Families, node: Node, watch: Watch) -> None:
    """What this node's watch sees. Every node knows all alerts; one of them exports them."""
    if node.engine.topics.controller() == node.engine.topics.node_id:
        firing = Counter((one.rule, one.level.value) for one in watch.alerts.firing())
        for (rule, level), count in firing.items():
            page.add("penstock_alerts", count, rule, level)
    for queue, depths in watch.depths.histograms.items():
        page.add_times("penstock_queue_depth_messages", depths.statistics(), queue)
    page.add("penstock_observed_seconds_total", watch.availability.observed_ms / 1_000)
    page.add("penstock_available_seconds_total", watch.availability.available_ms / 1_000)
    share = watch.availability.share()
    if share is not None:
        page.add("penstock_availability_ratio", share)


def add_memory(page: Families, memory: MemoryStatistics) -> None:
    """The memory budget that the ports share."""
    page.add("penstock_memory_budget_bytes", memory.bytes_max)
    page.add("penstock_memory_waiting_requests", memory.waiting)
    for protocol in PROTOCOLS:
        page.add("penstock_memory_refused_total", memory.refused.get(protocol, 0), protocol)
        page.add("penstock_memory_disconnected_total", memory.evicted.get(protocol, 0), protocol)


def add_front_ends(page: Families, front_ends: Iterable[FrontEndStatistics]) -> None:
    """Requests and connections, by protocol."""
    for one in front_ends:
        protocol = one.protocol
        for api, times in one.requests.times.items():
            page.add_times("penstock_request_duration_seconds", times, protocol, api)
        for (api, code), count in one.requests.errors.items():
            page.add("penstock_request_errors_total", count, protocol, api, code)
        page.add("penstock_connections", one.connections, protocol)
        page.add("penstock_connections_accepted_total", one.accepted, protocol)
        page.add("penstock_connections_refused_total", one.refused, protocol)
        page.add("penstock_connections_faulted_total", one.faulted, protocol)
        page.add("penstock_throttled_total", one.throttled, protocol)
        for what, held_bytes in one.held_bytes.items():
            page.add("penstock_held_bytes", held_bytes, protocol, what)
        for direction, moved in (("in", one.bytes_in), ("out", one.bytes_out)):
            if moved:
                page.add("penstock_network_bytes_total", moved, protocol, direction)
