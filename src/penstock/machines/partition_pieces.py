"""A partition, and the snapshot of many of them in pieces."""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.core.types import Offset, PartitionId, ProducerId
from penstock.machines.producers import Producer
from penstock.machines.state_pieces import (
    PIECE_ROWS,
    array_header,
    encoded,
    map_header,
    map_items,
    map_pieces,
)


class Partition(msgspec.Struct, array_like=True, gc=False):
    """One partition, applied. The table of producers is made when the first one comes."""

    log_start: Offset = Offset(0)
    next_offset: Offset = Offset(0)
    producers: dict[ProducerId, Producer] | None = None


def partition_pieces(
    version: int, time_ms: int, partitions: Mapping[PartitionId, Partition]
) -> Iterator[bytes]:
    """The state of this moment; the first piece fixes it. Tables are sorted by key: the order they
    grew in is not state."""
    # Producers are replaced, never changed, so that a copy of their table is one of them all.
    rows = [
        (number, one.log_start, one.next_offset, one.producers and dict(one.producers))
        for number, one in sorted(partitions.items())
    ]
    yield array_header(3) + encoded(version, time_ms) + map_header(len(rows))
    for start in range(0, len(rows), PIECE_ROWS):
        plain: dict[object, object] = {}
        for number, log_start, next_offset, producers in rows[start : start + PIECE_ROWS]:
            if not producers:
                plain[number] = Partition(log_start, next_offset)
                continue
            yield map_items(plain)
            plain.clear()
            head = array_header(len(Partition.__struct_fields__))
            yield encoded(number) + head + encoded(log_start, next_offset)
            yield from map_pieces(sorted(producers.items()))
        yield map_items(plain)
