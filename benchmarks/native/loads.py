"""The native client at work on a queue: what a user's program would do, and nothing cleverer.

These functions run in a client process, with uvloop as `penstock serve` has it. Everything is the
public interface of `penstock` with its defaults.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

import penstock
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder
from benchmarks.peers.pace import ArrivalBook, SentBook

_WAIT_SECONDS = 0.1
_LONG_WAIT_SECONDS = 10.0
_CHUNK = 100


def prepare(place: str, queue: str) -> None:
    """An empty queue."""

    async def run() -> None:
        async with penstock.connect(place) as client:
            await client.create_queue(queue)

    uvloop.run(run())


def send(order: QueueOrder) -> Moved:
    """A `send_many` for each batch, each waited for."""
    bodies = order.bodies()

    async def run() -> Moved:
        async with _queue(order.place, order.queue) as queue:
            sent, began, cpu = 0, time.perf_counter(), time.process_time()
            while sent < order.messages_max and time.perf_counter() - began < order.seconds:
                sent += len(await queue.send_many(bodies))
            return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


def receive(order: QueueOrder) -> Moved:
    """A batch is received, looked at and acknowledged while the next one is on its way, until
    there is none."""

    async def run() -> Moved:
        async with _queue(order.place, order.queue) as queue:
            done, seen, began, cpu = 0, 0, time.perf_counter(), time.process_time()
            messages = await queue.receive(order.batch)
            while messages:
                seen += sum([len(message.raw) for message in messages])
                if time.perf_counter() - began >= order.seconds:
                    done += await queue.ack(messages)
                    break
                count, messages = await asyncio.gather(
                    queue.ack(messages), queue.receive(order.batch)
                )
                done += count
            if seen != done * order.body_bytes:
                raise ClientFailed(f"{seen} bytes came in {done} messages")
            return Moved(done, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


def one_by_one(order: QueueOrder) -> Moved:
    """A message is sent, received and acknowledged, then the next: as they go through a queue that
    has little to do, but without a pause."""
    (body,) = order.bodies()

    async def run() -> Moved:
        async with _queue(order.place, order.queue) as queue:
            done, began, cpu = 0, time.perf_counter(), time.process_time()
            while done < order.messages_max and time.perf_counter() - began < order.seconds:
                received, _ = await asyncio.gather(
                    queue.receive(1, wait=_LONG_WAIT_SECONDS), queue.send(body)
                )
                done += await queue.ack(received)
            return Moved(done, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due, its acknowledgement waited for. Between two messages nothing is
    under way, so that this process may as well sleep and spin as the others' clients do."""

    async def run() -> Sent:
        async with _queue(schedule.target.bootstrap, schedule.target.topic) as queue:
            book = SentBook(schedule)
            for body in book.due():
                await queue.send(body)
                book.acknowledged()
            return book.sent

    return uvloop.run(run())


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives."""

    async def run() -> Arrivals:
        async with _queue(schedule.target.bootstrap, schedule.target.topic) as queue:
            return await _receive_paced(queue, schedule)

    return uvloop.run(run())


def both_on_schedule(schedule: Schedule) -> tuple[Sent, Arrivals]:
    """Send and receive in one process, for an engine that lives in it."""

    async def run() -> tuple[Sent, Arrivals]:
        async with _queue(schedule.target.bootstrap, schedule.target.topic) as queue:
            return await asyncio.gather(
                _send_ticked(queue, schedule), _receive_paced(queue, schedule)
            )

    return uvloop.run(run())


async def _send_ticked(queue: penstock.Queue[bytes], schedule: Schedule) -> Sent:
    """The engine needs the loop meanwhile and its timers are a millisecond late, so a thread says
    when it is time; it only ever sleeps, since one that spins would keep the interpreter busy."""
    loop = asyncio.get_running_loop()
    ticks: asyncio.Queue[int] = asyncio.Queue(schedule.count)
    book = SentBook(schedule)

    def tick() -> None:
        for number in range(schedule.count):
            time.sleep(max(0, book.wait_ns(number)) / 1e9)
            loop.call_soon_threadsafe(ticks.put_nowait, number)

    ticking = asyncio.create_task(asyncio.to_thread(tick))
    for _ in range(schedule.count):
        body = book.begin(await ticks.get())
        await queue.send(body)
        book.acknowledged()
    await ticking
    return book.sent


async def _receive_paced(queue: penstock.Queue[bytes], schedule: Schedule) -> Arrivals:
    """What came is acknowledged while the next is waited for, as workers do it."""
    book = ArrivalBook(schedule)
    acking: asyncio.Future[int] | None = None
    while book.is_open:
        messages = await queue.receive(_CHUNK, wait=_WAIT_SECONDS)
        for message in messages:
            book.arrived(message.raw)
        if acking is not None:
            await acking
        acking = asyncio.ensure_future(queue.ack(messages)) if messages else None
    if acking is not None:
        await acking
    return book.arrivals


@asynccontextmanager
async def _queue(place: str, name: str) -> AsyncIterator[penstock.Queue[bytes]]:
    """A queue that has answered once: connecting is not what is measured."""
    async with penstock.connect(place) as client:
        queue: penstock.Queue[bytes] = client.queue(name, codec=bytes)
        await queue.stats()
        yield queue
