"""A queue as it was at one moment, for a snapshot that is encoded while it goes on."""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.core.queue_rules import QueueRules
from penstock.core.types import PartitionId
from penstock.machines.recent_ids import IdColumns, RecentIds
from penstock.machines.state_pieces import array_header, encoded
from penstock.machines.work import WorkGroup


class WorkRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    record: msgspec.Raw
    """A `WorkRecord`, which may be large: decoded by itself."""


class QueueRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A queue in a snapshot."""

    partition: PartitionId
    rules: QueueRules
    ids: IdColumns
    origins: IdColumns
    groups: list[WorkRow]


class QueueCopy:
    """A `QueueRow`. What is small is encoded at once; ids and runs are copied on write."""

    __slots__ = ("_head", "_views", "_works")

    def __init__(
        self,
        partition: PartitionId,
        rules: QueueRules,
        ids: tuple[RecentIds, RecentIds],
        groups: Mapping[str, WorkGroup],
    ) -> None:
        self._head = array_header(len(QueueRow.__struct_fields__)) + encoded(partition, rules)
        self._views = [one.view() for one in ids]
        self._works = [(name, work.copy_on_write()) for name, work in sorted(groups.items())]

    def pieces(self) -> Iterator[bytes]:
        yield self._head
        for view in self._views:
            yield from view.pieces()
        yield array_header(len(self._works))
        for name, work in self._works:
            yield array_header(len(WorkRow.__struct_fields__)) + encoded(name)
            yield from work.pieces()

    def end(self) -> None:
        """No more of it is wanted."""
        for _, work in self._works:
            work.end()
