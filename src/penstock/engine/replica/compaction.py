"""Keeping only the last message of each key, where a topic asks for it.

Unlike retention this is no command: it changes no offset and no answer that a client may rely on,
so every replica does it by itself, in its own files, when its background has time (`upkeep`). What
is done and when is in `storage.compaction`; here is which partitions it is done to. Time is log
time, so a replica that was away and replays the log comes to the same decisions as the others did.

Only sealed segments are compacted. Where a partition has a longest lag, the segment that is being
written is sealed in time for that.
"""

from penstock.core.types import NO_INDEX, Index, PartitionId
from penstock.machines.machine import Machine
from penstock.storage import CompactionPolicy, LogJob, ShardLog

SEAL_MS_MIN = 10_000
"""A segment is written for at least this long, however short a lag is asked for."""


class Compaction:
    """The policies of one shard, and the work they make."""

    def __init__(self, log: ShardLog, machine: Machine) -> None:
        self._log = log
        self._machine = machine
        self._policies: dict[PartitionId, CompactionPolicy] = {}
        self._handed_out: dict[PartitionId, CompactionPolicy] | None = {}
        self._hurried: dict[PartitionId, int] = {}
        """Partitions with a longest lag, and how long their segment may be written."""
        self._active_base = NO_INDEX
        self._active_since_ms = 0

    def set_policy(self, partition: PartitionId, policy: CompactionPolicy | None) -> None:
        """Compact a partition from now on, or in another way; with None, no longer."""
        if self._policies.get(partition) == policy:
            return
        self._hurried.pop(partition, None)
        if policy is None:
            del self._policies[partition]
        else:
            self._policies[partition] = policy
            if policy.max_lag_ms is not None:
                self._hurried[partition] = max(policy.max_lag_ms, SEAL_MS_MIN)
        self._handed_out = None

    def seal_due(self) -> bool:
        """Whether the segment that is being written holds back a partition for too long."""
        if not self._hurried:
            return False
        now_ms, base = self._machine.time_ms, self._log.active_base
        if base != self._active_base:
            self._active_base, self._active_since_ms = base, now_ms
        since_ms = now_ms - self._active_since_ms
        return any(
            since_ms >= wait_ms and self._log.active_holds(partition)
            for partition, wait_ms in self._hurried.items()
        )

    @property
    def under_way(self) -> bool:
        """There will be a next job soon."""
        return self._log.compacting

    def job(self, keep_from: Index) -> LogJob | None:
        """The next piece of work on what lies before `keep_from`; None if there is none now."""
        if self._handed_out is None:
            self._handed_out = dict(self._policies)
        if not self._handed_out and not self._log.compacting:
            return None
        return self._log.compaction_job(
            self._handed_out, self._machine.log_starts, keep_from, self._machine.time_ms
        )
