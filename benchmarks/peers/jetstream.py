"""NATS JetStream by way of nats-py: a stream that is a work queue, batches published and fetched.

A batch is published at once and its acknowledgements are counted as they come to one inbox; a
batch is received by asking a durable consumer for it, with an inbox as well, and each message is
acknowledged, which is how a work queue is emptied. The last acknowledgement of a batch is waited
for, the others are only sent. All this is by the client's public calls; its `publish_async` and
`fetch` do the same with a task for each message, which makes them a few times slower.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvloop

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, library
from benchmarks.peers.pace import ArrivalBook, SentBook

CONSUMER = "benchmark"
UNACKNOWLEDGED_MAX = 20_000
_ANSWER_WITHIN_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.02
_ACKNOWLEDGED = b"+ACK"
_LOOK_WITHIN_SECONDS = 0.2


def prepare(place: str, queue: str) -> None:
    """An empty stream that forgets what was acknowledged."""

    async def run() -> None:
        api = library("nats.js.api")
        async with _connection(place) as connection:
            await connection.jetstream().add_stream(
                name=queue, subjects=[queue], retention=api.RetentionPolicy.WORK_QUEUE
            )

    uvloop.run(run())


class _Acknowledgements:
    """Counts what comes to an inbox, until a batch is complete."""

    def __init__(self) -> None:
        self._missing = 0
        self._complete = asyncio.Event()
        self._fault = ""

    def expect(self, count: int) -> None:
        self._missing = count
        self._complete.clear()

    async def arrived(self, message: Any) -> None:
        if b'"error"' in message.data or not message.data:
            self._fault = self._fault or repr(message.data[:100])
        self._missing -= 1
        if not self._missing:
            self._complete.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._complete.wait(), _ANSWER_WITHIN_SECONDS)
        if self._fault:
            raise ClientFailed(f"JetStream refused a message: {self._fault}")


def send(order: QueueOrder) -> Moved:
    """A batch at a time, each waited for."""
    bodies = order.bodies()

    async def run() -> Moved:
        async with _connection(order.place) as connection:
            book = _Acknowledgements()
            inbox = connection.new_inbox()
            await connection.subscribe(inbox, cb=book.arrived)
            await connection.flush()
            publish = connection.publish
            sent, began, cpu = 0, time.perf_counter(), time.process_time()
            while sent < order.messages_max and time.perf_counter() - began < order.seconds:
                book.expect(len(bodies))
                for body in bodies:
                    await publish(order.queue, body, reply=inbox)
                await book.wait()
                sent += len(bodies)
            return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


class _Batch:
    """Messages as they come to an inbox."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self._wanted = 0
        self._complete = asyncio.Event()
        self._fault = ""

    async def arrived(self, message: Any) -> None:
        if message.headers is not None and "Status" in message.headers:
            self._fault = repr(message.headers)
            self._complete.set()
            return
        self.messages.append(message)
        if len(self.messages) >= self._wanted:
            self._complete.set()

    async def ask(self, connection: Any, subject: str, inbox: str, count: int) -> None:
        """Begin anew, with so many."""
        self.messages, self._wanted = [], count
        self._complete.clear()
        expires_ns = int(_ANSWER_WITHIN_SECONDS * 1e9)
        request = f'{{"batch": {count}, "expires": {expires_ns}}}'
        await connection.publish(subject, request.encode(), reply=inbox)

    async def wait(self) -> list[Any]:
        await asyncio.wait_for(self._complete.wait(), _ANSWER_WITHIN_SECONDS)
        if self._fault:
            raise ClientFailed(f"JetStream handed out no messages: {self._fault}")
        return self.messages


def receive(order: QueueOrder) -> Moved:
    """A batch is asked for, looked at and acknowledged while the next one is on its way, until all
    have come."""
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{order.queue}.{CONSUMER}"

    async def run() -> Moved:
        async with _connection(order.place) as connection:
            await _make_consumer(connection, order.queue)
            batch, inbox = _Batch(), connection.new_inbox()
            await connection.subscribe(inbox, cb=batch.arrived)
            done, seen, began, cpu = 0, 0, time.perf_counter(), time.process_time()
            await batch.ask(connection, subject, inbox, min(order.batch, order.messages_max))
            while True:
                found = await batch.wait()
                left = order.messages_max - done - len(found)
                over = left <= 0 or time.perf_counter() - began >= order.seconds
                if not over:
                    await batch.ask(connection, subject, inbox, min(order.batch, left))
                seen += sum([len(one.data) for one in found])
                for one in found[:-1]:
                    await connection.publish(one.reply, _ACKNOWLEDGED)
                await connection.request(found[-1].reply, _ACKNOWLEDGED, _ANSWER_WITHIN_SECONDS)
                done += len(found)
                if over:
                    break
            took = Moved(done, time.perf_counter() - began, time.process_time() - cpu)
            if seen != done * order.body_bytes:
                raise ClientFailed(f"{seen} bytes came in {done} messages")
            return took

    return uvloop.run(run())


async def _make_consumer(connection: Any, queue: str) -> None:
    api = library("nats.js.api")
    consumer = api.ConsumerConfig(
        durable_name=CONSUMER,
        ack_policy=api.AckPolicy.EXPLICIT,
        max_ack_pending=UNACKNOWLEDGED_MAX,
    )
    await connection.jetstream().add_consumer(queue, consumer)


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due."""

    async def run() -> Sent:
        async with _connection(schedule.target.bootstrap) as connection:
            publish = connection.jetstream(timeout=_ANSWER_WITHIN_SECONDS).publish
            book = SentBook(schedule)
            for body in book.due():
                await publish(schedule.target.topic, body)
                book.acknowledged()
            return book.sent

    return uvloop.run(run())


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives: they are pushed."""
    book = ArrivalBook(schedule)

    async def arrived(message: Any) -> None:
        book.arrived(message.data)
        await message.ack()

    async def run() -> None:
        async with _connection(schedule.target.bootstrap) as connection:
            await connection.jetstream().subscribe(
                schedule.target.topic, durable=CONSUMER, cb=arrived, manual_ack=True
            )
            while book.is_open:  # noqa: ASYNC110 - time ends it as well
                await asyncio.sleep(_LOOK_EVERY_SECONDS)

    uvloop.run(run())
    return book.arrivals


def answers(place: str) -> bool:
    """Whether JetStream is there."""

    async def run() -> bool:
        nats = library("nats")
        try:
            async with _connection(place, _LOOK_WITHIN_SECONDS) as connection:
                await connection.jetstream(timeout=_LOOK_WITHIN_SECONDS).account_info()
        except (OSError, TimeoutError, nats.errors.Error):
            return False
        return True

    return uvloop.run(run())


@asynccontextmanager
async def _connection(
    place: str, within_seconds: float = _ANSWER_WITHIN_SECONDS
) -> AsyncIterator[Any]:
    async def quiet(_: Exception) -> None:
        """What matters is raised; the default writes the rest to stderr."""

    connection = await library("nats").connect(
        f"nats://{place}",
        allow_reconnect=False,
        max_reconnect_attempts=1,
        reconnect_time_wait=0.01,
        connect_timeout=within_seconds,
        error_cb=quiet,
    )
    try:
        yield connection
        await connection.flush()
    finally:
        await connection.close()
