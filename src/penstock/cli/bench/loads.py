"""The loads of `penstock bench` that send or receive: what clients do with a queue.

A load is driven by the public client, as a user's program would be. Every call has the client's own
deadline. A load ends by its count of messages, by its time, or when it is stopped; a call that is
under way then gets a moment to end.
"""

import asyncio
import os
import struct
from collections.abc import Coroutine, Iterable, Sequence

from penstock.cli.bench.load import Load, Schedule, Tally, wait_until
from penstock.client.message import Message
from penstock.client.queue import Queue

BODIES_MAX = 1_000
"""The number of different bodies; further messages repeat them."""
RECEIVE_WAIT_SECONDS = 1.0
GRACE_SECONDS = 2.0
"""For calls in progress when a load is stopped."""
UNDER_WAY_MAX = 10_000
"""Messages that may be on their way to the broker, where senders do not wait for each other."""
LATENCY_RECEIVE = 1_000
ACKS_MAX = 100
"""Acknowledgements that may be under way while the next messages are received."""
SILENCE_SECONDS_MAX = 30.0
"""Without any arrival, messages that are missing are not waited for any more."""
FOREIGN_DELAY_SECONDS = 60.0
"""Messages of others are given back and not delivered again for so long."""
_STAMP = struct.Struct("<Id")
"""The load's token, and when the message was due."""
STAMP_BYTES = _STAMP.size

Queues = Sequence[Queue[bytes]]


def make_bodies(count: int, size_bytes: int) -> list[bytes]:
    """Bodies that cannot be compressed, so that no system gains by compression."""
    kinds = [os.urandom(size_bytes) for _ in range(min(count, BODIES_MAX))]
    return [kinds[number % len(kinds)] for number in range(count)]


async def produce(queues: Queues, load: Load, tally: Tally) -> None:
    """Each client sends a batch at a time and waits for it; together they send `messages`."""
    bodies = make_bodies(load.batch, load.size_bytes)
    left = load.messages

    async def work(number: int, queue: Queue[bytes]) -> None:
        nonlocal left
        schedule = Schedule(load, tally, number=number)
        while left is None or left > 0:
            began = await schedule.next()
            if began is None or (left is not None and left <= 0):
                return
            count = load.batch if left is None else min(load.batch, left)
            if left is not None and tally.counts(began):
                left -= count
            await queue.send_many(bodies if count == load.batch else bodies[:count])
            ended = tally.now()
            tally.time("call", began, ended)
            tally.done(began, ended, count)

    await drive([work(number, queue) for number, queue in enumerate(queues)], tally)


async def consume(queues: Queues, load: Load, tally: Tally) -> None:
    """Receive batches and acknowledge them, in each client, until enough messages are done or no
    more arrive. The latency of a call includes the acknowledgement."""

    def wanted() -> int:
        return load.batch if load.messages is None else load.messages - tally.counted

    async def work(number: int, queue: Queue[bytes]) -> None:
        schedule = Schedule(load, tally, number=number)
        while wanted() > 0:
            began = await schedule.next()
            if began is None or wanted() <= 0:
                return
            found = await queue.receive(min(load.batch, wanted()), wait=RECEIVE_WAIT_SECONDS)
            if not found:
                if load.seconds is None:
                    return
                continue
            count = await queue.ack(found)
            ended = tally.now()
            tally.time("call", began, ended)
            tally.done(began, ended, count)
            if wanted() <= 0:
                tally.finish()

    await drive([work(number, queue) for number, queue in enumerate(queues)], tally)


async def latency(queues: Queues, load: Load, tally: Tally) -> None:
    """Send one by one by a schedule that is fixed beforehand, and receive at the same time. No
    message waits for the acknowledgement of the one before, on neither side, and what counts is
    from when it was due: a stall is seen by all the messages it concerns."""
    sender, receiver = queues
    assert load.rate is not None, "a latency is measured at a rate"
    assert load.messages is not None, "a schedule has an end"
    rate = load.rate
    filling = os.urandom(max(0, load.size_bytes - STAMP_BYTES))
    missing = total = load.messages + round(rate * load.warm_up_seconds)

    async def send(due: float) -> None:
        await sender.send(_STAMP.pack(load.token, due) + filling)
        tally.time("send", due, tally.now())

    async def send_all() -> None:
        nonlocal missing
        async with _ManyClients(UNDER_WAY_MAX) as crowd:
            for number in range(total):
                due = tally.start + load.offset_seconds + number / rate
                await wait_until(due, tally.now)
                if tally.stopping.is_set():
                    missing -= total - number
                    return
                await crowd.add(send(due))

    async def receive() -> None:
        nonlocal missing
        silent_since = tally.now()
        async with _ManyClients(ACKS_MAX) as acks:
            while missing > 0:
                found = await receiver.receive(LATENCY_RECEIVE, wait=RECEIVE_WAIT_SECONDS)
                arrived = tally.now()
                own = [one for one in found if own_stamp(one, load.token)]
                if not own and arrived - silent_since > SILENCE_SECONDS_MAX:
                    return
                for message in own:
                    _, due = _STAMP.unpack_from(message.raw)
                    tally.time("receive", due, arrived)
                    tally.done(due, arrived, 1)
                silent_since = arrived if own else silent_since
                missing -= len(own)
                if own:
                    await acks.add(receiver.ack(own))
                if len(own) < len(found):
                    await put_off(receiver, [one for one in found if one not in own], tally)

    await drive([send_all(), receive()], tally)


def own_stamp(message: Message[bytes], token: int) -> bool:
    """True if the message belongs to this load; other programs may use the queue, too."""
    raw = message.raw
    return len(raw) >= STAMP_BYTES and _STAMP.unpack_from(raw)[0] == token


async def put_off(queue: Queue[bytes], foreign: Sequence[Message[bytes]], tally: Tally) -> None:
    """Messages of others are not ours to acknowledge: they come again, later."""
    if foreign:
        tally.foreign += len(foreign)
        await queue.release(foreign, FOREIGN_DELAY_SECONDS)


async def drive(work: Iterable[Coroutine[object, object, object]], tally: Tally) -> None:
    """Run all of it until it is done, fails, or is stopped; then none of it runs on."""
    every: list[asyncio.Task[object]] = [asyncio.create_task(one) for one in work]
    waiting = set(every)
    stopper: asyncio.Task[object] = asyncio.create_task(tally.stopping.wait())
    try:
        while waiting and not tally.stopping.is_set():
            ended, _ = await asyncio.wait({*waiting, stopper}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= ended
            for task in ended:
                task.result()  # Raises what went wrong.
        if waiting and not tally.is_finished:
            ended, waiting = await asyncio.wait(waiting, timeout=GRACE_SECONDS)
            for task in ended:
                task.result()
    finally:
        # All of them, ended ones too: several may have failed at once, and each is looked at.
        await _cancel([*every, stopper])


async def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)


class _ManyClients:
    """A bounded number of concurrent tasks; the first failure cancels all of them."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[object]] = set()
        self._problem: BaseException | None = None

    async def add(self, work: Coroutine[object, object, object]) -> None:
        """Begin one more, as soon as there is room."""
        await self._room.acquire()
        task: asyncio.Task[object] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self._problem is not None:
            raise self._problem

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled() and self._problem is None:
            self._problem = task.exception()

    async def __aenter__(self) -> "_ManyClients":
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            while self._tasks and self._problem is None:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        await _cancel(list(self._tasks))
        if kind is None and self._problem is not None:
            raise self._problem
