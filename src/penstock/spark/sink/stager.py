"""The work of a sink's task: it encodes rows as record batches and stages them.

Nothing that a task stages is visible until the driver publishes what it names. So a task
that is repeated, or runs twice at once, does no harm: the other attempt's messages are never named
and expire.

Spark hands over rows by some thousands. They are gathered until there is enough for large batches
to all partitions, and no more: what is gathered is bounded, and a little of it is copied at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.client.client import Client
from penstock.client.stage import Stage
from penstock.client.staged_message import Staged
from penstock.core.clock import SystemClock
from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.core.limits import KIB, MIB
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.spark.connections import client_of, run
from penstock.spark.sink.bad_rows import dead_letters, refusal
from penstock.spark.sink.destinations import Destinations, OutgoingBatch, TopicRoom
from penstock.spark.sink.outgoing_rows import read_rows
from penstock.spark.sink.write_options import WriteOptions

GATHER_BYTES_MIN: Final = 4 * MIB
GATHER_BYTES_MAX: Final = 32 * MIB
PARTITION_BYTES: Final = 64 * KIB
"""The size gathered for each partition: the number of batches in a publication is limited."""
LOT_BYTES_MAX: Final = 64 * MIB
"""The size encoded at once; Arrow's columns of bytes end at 2 GiB."""
TOPICS_MAX: Final = 10_000
_MESSAGE_BYTES: Final = "max.message.bytes"


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows that a task has staged."""

    staged: Staged
    records: int
    dead: int
    """The number of dead letters among them."""


def stage_rows(
    lots: Iterator[pa.RecordBatch], options: WriteOptions, *, turn: int
) -> StagedRows | None:
    """Stage all rows of a task; None if there are none. `turn` tells tasks apart, so that they do
    not all begin with the same partition."""
    task: _Task | None = None

    def enough() -> int:
        return GATHER_BYTES_MIN if task is None else task.gather_bytes

    for table in gather(lots, enough):
        if task is None:
            task = _Task(options, turn)
        task.write(table)
    return None if task is None else task.close()


def gather(lots: Iterator[pa.RecordBatch], enough: Callable[[], int]) -> Iterator[pa.RecordBatch]:
    """Regroup rows into lots that are neither small nor huge."""
    held: list[pa.RecordBatch] = []
    size = 0
    for lot in lots:
        if not lot.num_rows:
            continue
        held.append(lot)
        size += lot.nbytes
        if size >= enough():
            yield from _split(_joined(held))
            held, size = [], 0
    if held:
        yield from _split(_joined(held))


def _joined(lots: list[pa.RecordBatch]) -> pa.RecordBatch:
    return lots[0] if len(lots) == 1 else pa.concat_batches(lots)


def _split(lot: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if lot.nbytes <= LOT_BYTES_MAX or lot.num_rows == 1:
        yield lot
        return
    half = lot.num_rows // 2
    yield from _split(lot.slice(0, half))
    yield from _split(lot.slice(half))


class Rooms:
    """The topics of a cluster, each asked for once."""

    def __init__(self, url: str, *, create: bool) -> None:
        self._url = url
        self._create = create
        self._found: dict[str, TopicRoom | None] = {}

    def find(self, name: str) -> TopicRoom | None:
        """Return the limits of a topic; None if it does not exist and is not to be created."""
        if name not in self._found:
            if len(self._found) >= TOPICS_MAX:
                raise InvalidRequest(f"one task writes to more than {TOPICS_MAX:,} topics")
            self._found[name] = self._ask(client_of(self._url), name)
        return self._found[name]

    def need(self, name: str) -> TopicRoom:
        """Return the limits of a topic; raise an error if it does not exist."""
        room = self.find(name)
        if room is None:
            raise UnknownTopic(
                f"there is no topic {name!r} to write to: create it (`penstock topic create"
                f" {name}`), or set createTopics=true"
            )
        return room

    @property
    def partitions(self) -> int:
        """Of all topics that were asked for."""
        return sum(room.partitions for room in self._found.values() if room is not None)

    def _ask(self, client: Client, name: str) -> TopicRoom | None:
        try:
            found = run(client.describe_topic(name))
        except UnknownTopic:
            if not self._create:
                return None
            found = run(client.create_topic(name, exist_ok=True))
        size = found.configs.get(_MESSAGE_BYTES, TOPIC_CONFIGS[_MESSAGE_BYTES].default)
        return TopicRoom(name, len(found.partitions), int(size))


class _Task:
    """The rows of one task on their way."""

    def __init__(self, options: WriteOptions, turn: int) -> None:
        self._options = options
        self._rooms = Rooms(options.url, create=options.create_topics)
        self._clock = SystemClock()
        self._destinations = Destinations(self._rooms.find, topic=options.topic, turn=turn)
        self._stage: Stage = run(_open(client_of(options.url)))
        self._rows = self._records = self._dead = 0

    @property
    def gather_bytes(self) -> int:
        """The number of bytes worth encoding at once."""
        wanted = self._rooms.partitions * PARTITION_BYTES
        return max(GATHER_BYTES_MIN, min(wanted, GATHER_BYTES_MAX))

    def write(self, table: pa.RecordBatch) -> None:
        options, now_ms = self._options, self._clock.wall_ms()
        rows, complaints = read_rows(table, keep_timestamps=options.keep_timestamps, now_ms=now_ms)
        batches = self._destinations.encode(
            rows, complaints, now_ms=now_ms, compression=options.compression
        )
        if complaints.any:
            if options.dead_letter_topic is None:
                raise refusal(rows, complaints, before=self._rows)
            room = self._rooms.need(options.dead_letter_topic)
            letters = dead_letters(rows, complaints, room=room, topic=options.topic, now_ms=now_ms)
            self._dead += self._append(letters)
        self._append(batches)
        self._rows += table.num_rows

    def _append(self, batches: Iterator[OutgoingBatch]) -> int:
        records = 0
        for one in batches:
            run(self._stage.append(one.topic, one.partition, one.batch))
            records += one.records
        self._records += records
        return records

    def close(self) -> StagedRows:
        staged = run(self._stage.close())
        assert staged.records == self._records, f"{staged.records} of {self._records} are staged"
        return StagedRows(staged, self._records, self._dead)


async def _open(client: Client) -> Stage:
    return client.open_stage()
