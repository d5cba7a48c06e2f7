"""RabbitMQ's streams by way of rstream, which speaks their own protocol.

A stream is a log: nothing is deleted, and a reader acknowledges by storing how far it came. It is
the fastest way into RabbitMQ, and a confirm does not wait for the disk.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any

import uvloop

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, library, split_place
from benchmarks.peers.pace import ArrivalBook, SentBook

READER = "benchmark"
_ANSWER_WITHIN_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.02
_CREDIT = 10
"""Chunks under way, which is rstream's own choice."""


def prepare(place: str, queue: str) -> None:
    """An empty stream."""

    async def run() -> None:
        async with _producer(place) as producer:
            await producer.create_stream(queue)

    uvloop.run(run())


class _Confirms:
    """Counts confirms until a batch is complete."""

    def __init__(self) -> None:
        self._missing = 0
        self._complete = asyncio.Event()
        self._refused = 0

    def expect(self, count: int) -> None:
        self._missing = count
        self._complete.clear()

    def arrived(self, status: Any) -> None:
        self._refused += not status.is_confirmed
        self._missing -= 1
        if not self._missing:
            self._complete.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self._complete.wait(), _ANSWER_WITHIN_SECONDS)
        if self._refused:
            raise ClientFailed(f"RabbitMQ refused {self._refused} messages")


def send(order: QueueOrder) -> Moved:
    """A batch at a time, each confirmed."""
    bodies = order.bodies()

    async def run() -> Moved:
        async with _producer(order.place) as producer:
            confirms = _Confirms()
            arrived = confirms.arrived
            sent, began, cpu = 0, time.perf_counter(), time.process_time()
            while sent < order.messages_max and time.perf_counter() - began < order.seconds:
                confirms.expect(len(bodies))
                await producer.send_batch(order.queue, bodies, on_publish_confirm=arrived)
                await confirms.wait()
                sent += len(bodies)
            return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


class _Reader:
    """Looks at messages, and stores how far it came after each batch."""

    def __init__(self, consumer: Any, order: QueueOrder) -> None:
        self._consumer = consumer
        self._order = order
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._done = self._seen = 0
        self.moved: asyncio.Future[Moved] = asyncio.get_running_loop().create_future()

    def arrived(self, body: bytes, context: Any) -> Awaitable[None] | None:
        if self.moved.done():
            return None
        self._done += 1
        self._seen += len(body)
        if self._done % self._order.batch and self._done < self._order.messages_max:
            return None
        return self._store(context.offset)

    async def _store(self, offset: int) -> None:
        order = self._order
        await self._consumer.store_offset(order.queue, READER, offset)
        took = time.perf_counter() - self._began
        if self._done >= order.messages_max or took >= order.seconds:
            self.moved.set_result(Moved(self._done, took, time.process_time() - self._cpu))
            if self._seen != self._done * order.body_bytes:
                raise ClientFailed(f"{self._seen} bytes came in {self._done} messages")


def receive(order: QueueOrder) -> Moved:
    """From where the last one came to, until as many as there are have come."""

    async def run() -> Moved:
        async with _consumer(order.place) as consumer:
            place = await _next_place(consumer, order.queue)
            reader = _Reader(consumer, order)
            await consumer.subscribe(
                order.queue, reader.arrived, offset_specification=place, initial_credit=_CREDIT
            )
            within = order.seconds + _ANSWER_WITHIN_SECONDS
            return await asyncio.wait_for(reader.moved, within)

    return uvloop.run(run())


async def _next_place(consumer: Any, queue: str) -> Any:
    rstream = library("rstream")
    try:
        offset = await consumer.query_offset(queue, READER)
    except rstream.exceptions.OffsetNotFound:
        return rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST, None)
    return rstream.ConsumerOffsetSpecification(rstream.OffsetType.OFFSET, offset + 1)


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due."""

    async def run() -> Sent:
        async with _producer(schedule.target.bootstrap) as producer:
            book = SentBook(schedule)
            for body in book.due():
                await producer.send_wait(schedule.target.topic, body)
                book.acknowledged()
            return book.sent

    return uvloop.run(run())


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives; how far it came is stored with each."""
    book = ArrivalBook(schedule)
    queue = schedule.target.topic

    async def run() -> None:
        async with _consumer(schedule.target.bootstrap) as consumer:

            async def arrived(body: bytes, context: Any) -> None:
                book.arrived(body)
                await consumer.store_offset(queue, READER, context.offset)

            await consumer.subscribe(queue, arrived)
            while book.is_open:  # noqa: ASYNC110 - time ends it as well
                await asyncio.sleep(_LOOK_EVERY_SECONDS)

    uvloop.run(run())
    return book.arrivals


def answers(place: str) -> bool:
    """Whether a server is there."""
    # It tells of every attempt that failed.
    logging.getLogger("rstream").setLevel(logging.CRITICAL)

    exceptions = library("rstream").exceptions
    closed = library("rstream.connection").ConnectionClosed

    async def run() -> bool:
        try:
            async with asyncio.timeout(1.0), _producer(place) as producer:
                return not await producer.stream_exists("none")
        except (OSError, TimeoutError, exceptions.ServerError, exceptions.ClientError, closed):
            return False

    return uvloop.run(run())


def _producer(place: str) -> Any:
    host, port = split_place(place)
    return library("rstream").Producer(host, port, username="guest", password="guest")


def _consumer(place: str) -> Any:
    host, port = split_place(place)
    return library("rstream").Consumer(host, port, username="guest", password="guest")
