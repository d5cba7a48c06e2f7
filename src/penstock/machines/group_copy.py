"""A consumer group as it was at one moment, for a snapshot that is encoded while it goes on."""

from collections.abc import Iterator

from penstock.machines.group import Group, GroupRecord
from penstock.machines.state_pieces import array_header, encoded, map_header, map_pieces


class GroupCopy:
    """A `GroupRecord`, encoded when it is asked for.

    What changes in place is encoded at once; offsets are replaced, never changed, so that a copy of
    their tables will do."""

    __slots__ = ("_head", "_offsets")

    def __init__(self, group: Group) -> None:
        self._head = array_header(len(GroupRecord.__struct_fields__)) + encoded(
            group.state,
            group.since_ms,
            group.generation,
            group.rebalance,
            group.initial,
            group.protocol_type,
            group.protocol,
            group.leader,
            group.members,
        )
        self._offsets = {topic: dict(table) for topic, table in group.offsets.items()}

    def pieces(self) -> Iterator[bytes]:
        """Offsets are sorted: the order they came in is not state."""
        yield self._head + map_header(len(self._offsets))
        for topic, table in sorted(self._offsets.items()):
            yield encoded(topic)
            yield from map_pieces(sorted(table.items()))
