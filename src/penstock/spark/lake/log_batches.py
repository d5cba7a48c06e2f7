"""Offsets of one partition as Arrow batches, fetched from its leader, in a task."""

import logging
from collections.abc import Iterator

import pyarrow as pa

from penstock.client.client import Client
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RangeReader
from penstock.core.errors import InvalidBatch
from penstock.spark.connections import client_of, run
from penstock.spark.lake.spans import Span
from penstock.spark.reading.decoder import Decoder, StoredHead

logger = logging.getLogger(__name__)


def log_batches(
    url: str,
    topic: str,
    topic_id: str,
    partition: int,
    span: Span,
    schema: pa.Schema,
    *,
    skip_bad: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The messages of a span, in order; only of the topic that has this id. A batch that
    cannot be decoded is `InvalidBatch`, or is skipped with a line in the log."""

    def on_bad(head: StoredHead, error: InvalidBatch) -> None:
        problem = (
            f"messages {head.base_offset} to {head.end_offset - 1} of {topic}, partition"
            f" {partition}, cannot be decoded ({error})"
        )
        if not skip_bad:
            raise InvalidBatch(f"{problem}; to go on without them, turn failOnDataLoss off")
        logger.warning("%s and are left out", problem)

    part = TopicPartition(topic, partition)
    reader = run(_open_reader(client_of(url), part, span, bytes.fromhex(topic_id)))
    decoder = Decoder(schema, topic, partition)
    try:
        while (data := run(reader.next())) is not None:
            yield from decoder.decode(data, *span, on_bad)
    finally:
        run(reader.close())


async def _open_reader(
    client: Client, part: TopicPartition, span: Span, topic_id: bytes
) -> RangeReader:
    return client.raw_log().read(part, *span, topic_id=topic_id)
