"""Telling the broker how far queries have got, as soon as Spark has committed a micro-batch.

    watch(spark)        once for a session; `penstock.spark.session` has done it

A source learns that a micro-batch was committed only when the next one is planned, so of the last
one, before a query is stopped, it never learns. A listener does: Spark reports progress after the
commit. What it does with it depends on what the source says of itself (`identity`):

    a queue                       what the batch covered is settled in its work group
    topics, with kafka.group.id   the consumer group's offsets are committed, so that its lag is
                                  seen by `penstock group describe`. Nothing is read from there: a
                                  query goes on from its checkpoint

A listener is called a little later, or never if the driver is killed: a queue's reader then settles
after the restart. A broker that cannot be reached is no reason to end a query; it is logged, and
the next batch says it again.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock.client.client import Client
from penstock.client.reader.positions import TopicPartition
from penstock.core.decoders import decode_json
from penstock.core.errors import PenstockError
from penstock.spark.connections import client_of, run
from penstock.spark.identity import QUEUE, Identity, find_identity
from penstock.spark.queues.queue_batch import read_batch
from penstock.spark.queues.settlement import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TELL_SECONDS: Final = 30.0
_MARK: Final = "_penstock_progress"
log = logging.getLogger("penstock.spark")


class ProgressListener(StreamingQueryListener):
    """Notes which micro-batches of a streaming query are committed."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: nothing has been processed yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Commit the progress of a micro-batch."""
        for source in event.progress.sources:
            try:
                tell(source.latestOffset, source.endOffset)
            except PenstockError as error:
                log.warning("the progress of a query was not committed: %s", error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: there is no progress."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the progress was committed."""


def watch(spark: "SparkSession") -> None:
    """Commit the progress of all queries of this session at the broker; one call is enough."""
    if getattr(spark, _MARK, None) is None:
        listener = ProgressListener()
        spark.streams.addListener(listener)
        setattr(spark, _MARK, listener)


def tell(latest: str | None, end: str | None) -> None:
    """Commit, for the group of a source, everything up to `end`."""
    who = find_identity(_read(latest))
    if who is None or not end:
        return
    client = client_of(who.url)
    if who.kind == QUEUE:
        said = _read(end)
        (queue,) = (name for name in said if ":" not in name)
        run(settle(client, who.group, read_batch(queue, said)), TELL_SECONDS)
    else:
        topics = {name: rows for name, rows in _read(end).items() if ":" not in name}
        run(_commit(client, who, topics), TELL_SECONDS)


async def _commit(client: Client, who: Identity, end: Mapping[str, Any]) -> None:
    offsets = {
        TopicPartition(topic, int(index)): int(offset)
        for topic, indexes in end.items()
        for index, offset in indexes.items()
    }
    await client.reset_group(who.group, offsets, topics=sorted(end))


def _read(text: str | None) -> dict[str, Any]:
    """An offset; nothing, of a source that is not ours."""
    try:
        found = decode_json(text or "{}", dict[str, Any])
    except msgspec.DecodeError:
        return {}
    return found
