"""Forgetting old messages: by age and by size, partition by partition.

Only the leader decides, from its own index, and what it decides is a command like any other
(`TrimPartition`): all replicas move the log start at the same entry, whatever their clocks say and
however their files are laid out. Files go later, when nothing in a segment is alive.

Retention is coarse on purpose: it moves in steps of what is stored together, and looks at a bounded
number of partitions each time, going round. A limit may be exceeded for a while, never undercut: a
message is not forgotten before its time, nor while the partition is within its size.
"""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.core.limits import RETENTION_PARTITIONS_PER_LOOK
from penstock.core.types import Offset, PartitionId
from penstock.machines.commands import TrimPartition
from penstock.machines.partitions import HoldsPartitions
from penstock.storage import ShardLog


class RetentionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much a partition keeps; None is without limit."""

    age_ms: int | None = None
    size_bytes: int | None = None

    @property
    def forgets(self) -> bool:
        return self.age_ms is not None or self.size_bytes is not None


KEEP_EVERYTHING = RetentionPolicy()


class Retention:
    """The policies of one shard, and what they ask for now."""

    def __init__(self, log: ShardLog, machine: HoldsPartitions) -> None:
        self._log = log
        self._machine = machine
        self._policies: dict[PartitionId, RetentionPolicy] = {}
        self._next = PartitionId(0)
        self.default = KEEP_EVERYTHING

    def set_policy(self, partition: PartitionId, policy: RetentionPolicy | None) -> None:
        """Give a partition a policy of its own, or, with None, the default again."""
        if policy is None:
            self._policies.pop(partition, None)
        else:
            self._policies[partition] = policy

    def due(self, now_ms: int) -> Iterator[TrimPartition]:
        """The trims that are due, for the next few partitions in turn."""
        starts = self._machine.log_starts()
        for partition in self._choose(starts):
            policy = self._policies.get(partition, self.default)
            before = self._start_for(partition, policy, now_ms)
            if before > starts[partition]:
                yield TrimPartition(partition=partition, before=before)

    def _choose(self, starts: Mapping[PartitionId, Offset]) -> list[PartitionId]:
        if not self.default.forgets and not self._policies:
            return []
        everyone = starts.keys()
        candidates = sorted(everyone if self.default.forgets else everyone & self._policies.keys())
        later = [partition for partition in candidates if partition >= self._next]
        chosen = (later + candidates[: len(candidates) - len(later)])[
            :RETENTION_PARTITIONS_PER_LOOK
        ]
        self._next = PartitionId(chosen[-1] + 1) if chosen else PartitionId(0)
        return chosen

    def _start_for(self, partition: PartitionId, policy: RetentionPolicy, now_ms: int) -> Offset:
        """The log start the policy allows; never beyond what is committed."""
        starts = [Offset(0)]
        if policy.age_ms is not None:
            found = self._log.offset_before_time(partition, now_ms - policy.age_ms)
            starts += [] if found is None else [found]
        if policy.size_bytes is not None:
            found = self._log.offset_before_bytes(partition, policy.size_bytes)
            starts += [] if found is None else [found]
        return min(max(starts), self._machine.bounds(partition).high_watermark)
