"""The destination of each row: its topic, its partition, and the batch it joins.

The partition is the row's own, or its key's as all clients choose it (`hashing`). Rows without
either take turns by whole batches, not one by one: with many partitions, turns of single rows would
make many small batches, and Kafka's own clients do it in the same way (KIP-480).

    fixed topic or column → topic → partition → rows sorted by both → cut into batches
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.client.producer.compression import Compression
from penstock.core.limits import MIB
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.spark.sink.encoder import (
    KEY,
    cut_batches,
    encode_batches,
    record_parts,
    record_sizes,
)
from penstock.spark.sink.key_hash import partitions_of
from penstock.spark.sink.outgoing_rows import PARTITION, TOPIC, Complaints
from penstock.spark.sink.varints import Numbers

BATCH_BYTES: Final = 1 * MIB
"""A batch is not made larger than this, even if its topic allows it."""
BATCH_RECORDS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class TopicRoom:
    """The limits of a topic by which rows are cut into batches."""

    name: str
    partitions: int
    bytes_max: int
    """The size of a batch."""

    @property
    def batch_bytes(self) -> int:
        return min(self.bytes_max, BATCH_BYTES)


FindTopic = Callable[[str], TopicRoom | None]


class OutgoingBatch(NamedTuple):
    """A record batch and where it goes."""

    topic: str
    partition: int
    batch: bytearray
    records: int


class Destinations:
    """Places the rows of one task, which come in several lots."""

    def __init__(self, find: FindTopic, *, topic: str | None, turn: int) -> None:
        """`find` tells of a topic, or None if there is none; `turn` is the partition that the
        first rows without a key go to, modulo."""
        self._find = find
        self._topic = topic
        self._turn = turn

    def encode(
        self,
        rows: pa.RecordBatch,
        complaints: Complaints,
        *,
        now_ms: int,
        compression: Compression,
    ) -> Iterator[OutgoingBatch]:
        """The batches of all rows that have no complaint. Those found here are added before the
        first batch is made."""
        parts = record_parts(rows)
        sizes = record_sizes(parts)
        rooms, which = self._topics(rows, complaints)
        partitions = self._partitions(rows, sizes, rooms, which, complaints)
        return _encode(
            parts,
            sizes,
            rooms,
            (which, partitions),
            complaints,
            now_ms=now_ms,
            compression=compression,
        )

    def _topics(
        self, rows: pa.RecordBatch, complaints: Complaints
    ) -> tuple[list[TopicRoom], Numbers]:
        """The topics there are, and which of them each row goes to."""
        if self._topic is not None:
            names = [self._topic]
            given = np.zeros(rows.num_rows, np.int64)
        else:
            coded = rows.column(TOPIC).dictionary_encode()
            names = coded.dictionary.to_pylist()
            given = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
            complaints.add(given < 0, "it has no topic")
        rooms: list[TopicRoom] = []
        which = np.full(rows.num_rows, -1, np.int64)
        for number, name in enumerate(names):
            room = self._find(name)
            if room is None:
                complaints.add(
                    given == number,
                    f"there is no topic {name!r}: create it, or set createTopics=true",
                )
            else:
                which[given == number] = len(rooms)
                rooms.append(room)
        return rooms, which

    def _partitions(
        self,
        rows: pa.RecordBatch,
        sizes: Numbers,
        rooms: list[TopicRoom],
        which: Numbers,
        complaints: Complaints,
    ) -> Numbers:
        chosen = np.full(rows.num_rows, -1, np.int64)
        said = np.zeros(rows.num_rows, np.bool_)
        if PARTITION in rows.schema.names:
            column = rows.column(PARTITION)
            said = column.is_valid().to_numpy(zero_copy_only=False)
            chosen = column.fill_null(-1).to_numpy().copy()
        keyed = ~said & (
            rows.column(KEY).is_valid().to_numpy(zero_copy_only=False)
            if KEY in rows.schema.names
            else False
        )
        for number, room in enumerate(rooms):
            here = which == number
            complaints.add(
                here & said & ((chosen < 0) | (chosen >= room.partitions)),
                f"topic {room.name!r} has the partitions 0 to {room.partitions - 1}, and not the"
                " row's",
            )
            complaints.add(
                here & (sizes > room.bytes_max - BATCH_HEADER_BYTES),
                f"it is larger than topic {room.name!r} takes: max.message.bytes is"
                f" {room.bytes_max:,}",
            )
            by_key = here & keyed
            if by_key.any():
                found = partitions_of(rows.column(KEY), room.partitions)
                chosen[by_key] = found[by_key]
            in_turn = np.flatnonzero(here & ~said & ~keyed)
            chosen[in_turn] = self._turns(sizes[in_turn], room)
        return chosen

    def _turns(self, sizes: Numbers, room: TopicRoom) -> Numbers:
        """Partitions for rows that may go to any, as many to one as make a batch."""
        whole = [(0, len(sizes), room.batch_bytes)]
        cuts = cut_batches(sizes, whole, records_max=BATCH_RECORDS_MAX)
        turns = (self._turn + np.arange(len(cuts), dtype=np.int64)) % room.partitions
        self._turn += len(cuts)
        return np.repeat(turns, [end - first for first, end in cuts])


def _encode(
    parts: pa.RecordBatch,
    sizes: Numbers,
    rooms: list[TopicRoom],
    places: tuple[Numbers, Numbers],
    complaints: Complaints,
    *,
    now_ms: int,
    compression: Compression,
) -> Iterator[OutgoingBatch]:
    which, partitions = places
    stride = max((room.partitions for room in rooms), default=1)
    codes = which * stride + partitions
    order: NDArray[np.int64] | None = None
    if complaints.any:
        order = np.flatnonzero(~complaints.bad)
        codes = codes[order]
    if len(codes) and (codes[1:] < codes[:-1]).any():
        sorting = np.argsort(codes, kind="stable")
        codes = codes[sorting]
        order = sorting if order is None else order[sorting]
    if order is not None:
        parts, sizes = parts.take(pa.array(order)), sizes[order]
    if not len(codes):
        return
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)])).tolist()
    runs = [
        (first, end, rooms[int(codes[first]) // stride].batch_bytes)
        for first, end in pairwise(firsts)
    ]
    cuts = cut_batches(sizes, runs, records_max=BATCH_RECORDS_MAX)
    made = encode_batches(parts, cuts, now_ms=now_ms, compression=compression)
    for (first, end), batch in zip(cuts, made, strict=True):
        topic, partition = divmod(int(codes[first]), stride)
        yield OutgoingBatch(rooms[topic].name, partition, batch, end - first)
