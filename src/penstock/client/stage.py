"""A stage, the first half of a transaction: messages are stored at the broker, invisible until they
are published.

    stage = client.open_stage()
    await stage.send_many("orders", bodies)
    await client.publish("nightly import", 7, [await stage.close()])

Each batch goes to the leader of the partition it is meant for, several at a time. What was staged
twice, because an answer got lost, is named once and does no harm; what is never published expires.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Unpack

from penstock.client.call_options import SendManyOptions
from penstock.client.codecs import AUTO
from penstock.client.connection.byte_budget import ByteBudget
from penstock.client.connection.channel import Buffer
from penstock.client.connection.core import ClientCore
from penstock.client.connection.request_router import NOTHING, QUEUE
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.producer.partition_sender import pack_entries
from penstock.client.producer.partitioners import partitioner_for
from penstock.client.producer.sender import Sender
from penstock.client.seconds import to_milliseconds
from penstock.client.staged_message import Publication, Staged, join_parts
from penstock.core.errors import ClientClosed, InvalidRequest
from penstock.core.message_batches import frame_records
from penstock.wire.publish_requests import (
    NOTHING_PUBLISHED,
    AskPublished,
    LastPublished,
    Publish,
    Published,
    StagedAt,
    StagedPart,
)
from penstock.wire.publish_requests import Stage as StageRequest
from penstock.wire.requests import TopicInfo

UNDER_WAY_BYTES_MAX = 16 << 20
BATCH_MAX = (1 << 63) - 1


@dataclass
class _Waiting:
    """A batch that was given to the stage, in the order in which they were given."""

    topic: str
    index: int
    topic_id: bytes = b""
    place: StagedAt | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class Stage:
    """Messages that are stored at the broker and invisible until they are published, in all their
    partitions or in none; made by `Client.open_stage`. What is never published expires.

        stage = client.open_stage()
        await stage.send_many("orders", bodies)
        await client.publish("nightly import", 7, [await stage.close()])
    """

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._room = ByteBudget(min(UNDER_WAY_BYTES_MAX, core.settings.buffer_bytes_max))
        self._waiting: list[_Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._closed = False

    async def send_many(
        self,
        topic: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> None:
        """Stage messages for a queue or topic, with the options of `Queue.send_many`. Ids
        (`dedup_id`) do not count here: a publication is not repeated anyway."""
        timeout = options.pop("timeout", None)
        seconds = None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
        router = self._core.router
        template: Outgoing[Any] = Outgoing(None, **options)  # type: ignore[misc]
        partitioner = partitioner_for(None, random=router.random)
        sender: Sender[Any] = Sender(topic, AUTO, partitioner, self._core.senders, QUEUE)
        deadline = router.deadline(seconds)
        info = await router.find(topic, QUEUE, deadline)
        given = bodies if isinstance(bodies, list | tuple) else list(bodies)
        for _, index, entry in sender.divide(given, template, info, deadline):
            records, count, base_ms, max_ms = pack_entries([entry], self._core.clock.wall_ms())
            codec, packed = self._core.settings.compression.compress(records, count)
            batch = frame_records(packed, count, base_ms=base_ms, max_ms=max_ms, attributes=codec)
            await self.append(topic, index, batch)

    async def append(self, topic: str, partition: int, batch: Buffer) -> None:
        """Stage one record batch of Kafka's format for a partition; returns when there is room for
        the next, which may be before this one has arrived. The buffer is given away."""
        if self._closed:
            raise ClientClosed("the stage was closed; open another")
        if self._failure is not None:
            raise self._failure
        if partition < 0:
            raise InvalidRequest(f"partition is {partition}; partitions are numbered from 0 up.")
        size = len(batch)
        await self._room.enter(size)
        waiting = _Waiting(topic, partition)
        self._waiting.append(waiting)
        payload = memoryview(batch)
        if payload.readonly:  # The broker stamps what it is given, in this process or another.
            payload = memoryview(bytearray(batch))
        waiting.task = asyncio.create_task(self._send(waiting, payload, size))
        self._tasks.add(waiting.task)
        waiting.task.add_done_callback(self._tasks.discard)

    async def _send(self, waiting: _Waiting, payload: memoryview, size: int) -> None:
        router = self._core.router

        def make(info: TopicInfo) -> tuple[StageRequest, memoryview]:
            waiting.topic_id = info.topic_id
            return StageRequest(info.topic_id, waiting.index), payload

        try:
            waiting.place, _ = await router.ask_leader(
                waiting.topic,
                waiting.index,
                make,
                StagedAt,
                deadline=router.deadline(None),
                create=NOTHING,
            )
        except Exception as error:  # noqa: BLE001 - raised when the stage is closed.
            self._failure = self._failure or error
        finally:
            self._room.leave(size)

    async def close(self) -> Staged:
        """Wait until everything is stored; return the messages to publish."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._failure is not None:
            raise self._failure
        return Staged(join_parts(Staged((_part(waiting),)) for waiting in self._waiting))


def _part(waiting: _Waiting) -> StagedPart:
    place = waiting.place
    if place is None:
        raise ClientClosed("the client was closed while messages were being staged")
    ranges = ((place.first, place.end),)
    return StagedPart(waiting.topic_id, place.partition, place.staging, ranges)


async def publish(
    core: ClientCore,
    application: str,
    batch: int,
    staged: Iterable[Staged],
    *,
    owner: str,
    timeout: float | None,
) -> Publication:
    """Publish staged messages: see `Client.publish`."""
    if type(batch) is not int or not 0 <= batch <= BATCH_MAX:
        raise InvalidRequest(f"batch is {batch!r}; batches are numbered from 0 up.")
    router = core.router
    deadline = router.deadline(timeout)
    request = Publish(application, batch, owner, join_parts(staged))
    answer = await router.ask(request, Published, deadline=deadline)
    return Publication(application, batch, answer.is_new)


async def last_published(core: ClientCore, application: str) -> int | None:
    """Return the last published batch: see `Client.last_published`."""
    answer = await core.router.ask(AskPublished(application), LastPublished)
    return None if answer.batch == NOTHING_PUBLISHED else answer.batch
