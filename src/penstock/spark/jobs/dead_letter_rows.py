"""Dead letters as rows: what lies in dead-letter queues, and what died and stayed in its queue.

They are looked at as an operator would (`peek`): in order, without touching them, and only those
that are there now, so that what a report counts is what a redrive can move. Ranges of offsets are
shared out among Spark's tasks, and each asks the node that leads its partition.

    where it lies   lies_in, lies_partition, lies_offset, state
    how it died     queue, partition, offset, work_group, reason, kind, deliveries,
                    timestamp (sent), first_received, died, age_minutes, age_hours
    what it is      message_id, key, value, headers, and key_bytes, value_bytes as they are

A `kind` is a reason without its numbers and names (see `reasons`). Key, value and headers are text;
bytes that are no UTF-8 show as �.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from penstock.client.client import Client
from penstock.client.peeked_message import PeekedMessage
from penstock.core.errors import UnknownTopic
from penstock.core.limits import BROWSE_STEPS_MAX, MIB
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.reasons import kind_column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = {
    "lies_in": "STRING",
    "lies_partition": "INT",
    "lies_offset": "BIGINT",
    "state": "STRING",
    "queue": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "work_group": "STRING",
    "reason": "STRING",
    "deliveries": "INT",
    "timestamp": "TIMESTAMP",
    "first_received": "TIMESTAMP",
    "died": "TIMESTAMP",
    "message_id": "STRING",
    "key": "STRING",
    "value": "STRING",
    "headers": "MAP<STRING, STRING>",
    "key_bytes": "BINARY",
    "value_bytes": "BINARY",
}
LETTERS_MAX: Final = 1_000_000
RANGE_OFFSETS: Final = 50_000
PAGE_MESSAGES: Final = 50
PAGE_MESSAGES_MAX: Final = 1_000
PAGE_BYTES: Final = 4 * MIB
LIVING: Final = ("ready", "leased", "delayed")
DEAD: Final = ("dead",)
DEAD_LETTER_CONFIG: Final = "queue.dead.letter.topic"
ENDINGS: Final = ("_dlq", "-dlq", "_dead", "-dead", ".dead")
"""Suffixes of queues that hold dead letters, even if no queue's settings name them any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A part of a partition in which letters may lie."""

    queue: str
    partition: int
    start: int
    end: int
    is_dead_letter_queue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSources:
    """The dead letters to read."""

    stores: tuple[Store, ...]
    queues: tuple[str, ...]
    """The queues whose dead letters are read; all if empty."""
    left_out: int
    """The number of the oldest offsets that are skipped because there are too many."""


def find_stores(
    url: str, queues: Iterable[str] = (), *, letters_max: int = LETTERS_MAX
) -> DeadLetterSources:
    """Return the places of the dead letters of these queues, or of all; raise `UnknownTopic` if a
    queue does not exist."""
    return run(_find(client_of(url), tuple(queues), letters_max))


def read_letters(spark: "SparkSession", url: str, found: DeadLetterSources) -> "DataFrame":
    """The letters that lie there now; see the top of this module."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rows = [
        (url, one.queue, one.partition, one.start, one.end, one.is_dead_letter_queue)
        for one in found.stores
    ]
    asked = spark.createDataFrame(
        rows,
        "url STRING, queue STRING, partition INT, start BIGINT, end BIGINT, is_dlq BOOLEAN",
    ).repartition(max(1, min(len(rows), 64)))
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    letters = asked.mapInArrow(_look, schema)
    if found.queues:
        letters = letters.where(
            F.col("queue").isin(*found.queues) | F.col("lies_in").isin(*found.queues)
        )
    age = F.unix_micros(F.current_timestamp()) - F.unix_micros("died")
    return letters.select(
        "*",
        kind_column(F.col("reason")).alias("kind"),
        (age / 60e6).alias("age_minutes"),
        (age / 3600e6).alias("age_hours"),
    )


# Where they are.


async def _find(client: Client, wanted: tuple[str, ...], letters_max: int) -> DeadLetterSources:
    topics = {one.name for one in await client.topics()}
    unknown = [name for name in wanted if name not in topics]
    if unknown:
        raise UnknownTopic(f"there is no queue {unknown[0]}; `penstock queue list` shows all")
    described = {name: await client.describe_topic(name) for name in sorted(topics)}
    targets = {name: one.configs.get(DEAD_LETTER_CONFIG, "") for name, one in described.items()}
    letter_queues = {name for name in targets.values() if name in topics}
    letter_queues |= {name for name in topics if name.endswith(ENDINGS)}
    chosen = set(wanted or topics)
    chosen |= {targets[name] for name in chosen if targets[name] in topics}
    chosen |= {f"{name}{end}" for name in chosen for end in ENDINGS} & topics
    stores: list[Store] = []
    for name in sorted(chosen):
        is_letters = name in letter_queues
        if not is_letters:
            stats = await client.queue(name).stats()
            if stats.dead == stats.dead_lettered:
                continue
        stores += [
            Store(
                queue=name,
                partition=part.index,
                start=part.start,
                end=part.end,
                is_dead_letter_queue=is_letters,
            )
            for part in described[name].partitions
            if part.end > part.start
        ]
    kept, left_out = _bounded(stores, letters_max)
    return DeadLetterSources(stores=tuple(kept), queues=wanted, left_out=left_out)


def _bounded(stores: list[Store], letters_max: int) -> tuple[list[Store], int]:
    """Keep the latest offsets of each store, up to the limit, in pieces; also return how many are
    left out."""
    left_out = 0
    kept: list[Store] = []
    share = letters_max // max(1, len(stores))
    for one in stores:
        start = max(one.start, one.end - max(1, share))
        left_out += start - one.start
        for at in range(start, one.end, RANGE_OFFSETS):
            kept.append(
                Store(
                    queue=one.queue,
                    partition=one.partition,
                    start=at,
                    end=min(one.end, at + RANGE_OFFSETS),
                    is_dead_letter_queue=one.is_dead_letter_queue,
                )
            )
    return kept, left_out


# In Spark's tasks.


def _look(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa  # noqa: PLC0415

    kinds = {
        "BIGINT": pa.int64(),
        "BINARY": pa.binary(),
        "INT": pa.int32(),
        "MAP<STRING, STRING>": pa.map_(pa.string(), pa.string()),
        "STRING": pa.string(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    for batch in batches:
        for asked in batch.to_pylist():
            url = asked.pop("url")
            for page in _pages(client_of(url), **asked):
                rows = [row for one in page if (row := _row(one, asked["is_dlq"])) is not None]
                if rows:
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _pages(
    client: Client, *, queue: str, partition: int, start: int, end: int, is_dlq: bool
) -> Iterator[list[PeekedMessage[bytes]]]:
    """Yield messages of a range, in pages of a few megabytes."""
    handle = client.queue(queue, codec=bytes, group=DEFAULT_WORK_GROUP)
    states = LIVING + DEAD if is_dlq else DEAD
    page, position = PAGE_MESSAGES, start
    while position < end:
        count = min(page, end - position)
        found = run(handle.peek(count, states=states, partition=partition, start=position))
        yield [one for one in found if one.offset < end and one.timestamp_ms >= 0]
        after = found[-1].offset + 1 if found else position
        if len(found) < count:
            after = max(after, position + BROWSE_STEPS_MAX)
        if found:
            mean = 1 + sum(len(one.raw) for one in found) // len(found)
            page = max(1, min(PAGE_MESSAGES_MAX, PAGE_BYTES // mean))
        position = after


def _row(one: PeekedMessage[bytes], is_dlq: bool) -> dict[str, Any] | None:
    """A letter; None for a living message of a queue that is none of letters."""
    letter = one.dead_letter
    if letter is None and one.state != "dead" and not is_dlq:
        return None
    row: dict[str, Any] = {
        "lies_in": one.queue,
        "lies_partition": one.partition,
        "lies_offset": one.offset,
        "state": one.state,
        "message_id": one.id,
        "timestamp": one.sent_at,
        "key": _text(one.key),
        "value": None if one.is_tombstone else _text(one.raw),
        "headers": [(name, _text(value)) for name, value in one.headers.items()],
        "key_bytes": one.key,
        "value_bytes": None if one.is_tombstone else one.raw,
    }
    if one.state == "dead" or letter is None:  # It lies where it died, or says nothing of it.
        died: datetime | None = one.until if one.state == "dead" else one.sent_at
        return row | {
            "queue": one.queue,
            "partition": one.partition,
            "offset": one.offset,
            "work_group": DEFAULT_WORK_GROUP,
            "reason": one.reason,
            "deliveries": one.deliveries,
            "first_received": None,
            "died": died or one.sent_at,
        }
    return row | {
        "queue": letter.queue,
        "partition": letter.partition,
        "offset": letter.offset,
        "work_group": letter.group,
        "reason": letter.reason,
        "deliveries": min(letter.deliveries, 2**31 - 1),
        "timestamp": letter.sent_at or one.sent_at,
        "first_received": letter.first_received_at,
        "died": letter.died_at or one.sent_at,
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
