"""The loads of `penstock bench`: what clients do with a queue, and what is noted of it.

A load is driven by the public client, as a user's program would be. It ends by its count of
messages; every call has the client's own deadline. Latencies are kept one by one up to a bound and
after that every second one, every fourth and so on, so that a long run takes no more memory.
"""

import asyncio
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.client.queue import Queue

SAMPLES_MAX = 1 << 16
BODIES_MAX = 1_000
"""So many different bodies are made; further ones repeat them."""
RECEIVE_WAIT_SECONDS = 1.0
_STAMP = struct.Struct("<d")
STAMP_BYTES = _STAMP.size

Progress = Callable[[int], None]
"""Told of so many messages more."""
Now = Callable[[], float]
"""Seconds, by a clock that is finer than a loop's, which may count in milliseconds."""


@dataclass(slots=True)
class Samples:
    """Durations in seconds, thinned out evenly when they become many."""

    values: list[float] = field(default_factory=list)
    most: float = 0.0
    _stride: int = 1
    _seen: int = 0

    def add(self, seconds: float) -> None:
        """One more."""
        self.most = max(self.most, seconds)
        if self._seen % self._stride == 0:
            self.values.append(seconds)
            if len(self.values) >= SAMPLES_MAX:
                del self.values[1::2]
                self._stride *= 2
        self._seen += 1

    def quantile(self, share: float) -> float:
        """The value below which `share` of all lie, one that was really seen; 0 if none was."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a load did."""

    messages: int
    seconds: float
    calls: Samples


def make_bodies(count: int, size_bytes: int) -> list[bytes]:
    """Bodies that cannot be compressed, since nobody should gain by that."""
    kinds = [os.urandom(size_bytes) for _ in range(min(count, BODIES_MAX))]
    return [kinds[number % len(kinds)] for number in range(count)]


async def produce(
    queues: Sequence[Queue[bytes]],
    *,
    messages: int,
    batch: int,
    size_bytes: int,
    progress: Progress,
    now: Now = time.perf_counter,
) -> Outcome:
    """Each client sends a batch at a time and waits for it; together they send `messages`."""
    bodies = make_bodies(batch, size_bytes)
    calls = Samples()
    left = messages

    async def work(queue: Queue[bytes]) -> None:
        nonlocal left
        while left > 0:
            count = min(batch, left)
            left -= count
            began = now()
            await queue.send_many(bodies if count == batch else bodies[:count])
            calls.add(now() - began)
            progress(count)

    began = now()
    await asyncio.gather(*map(work, queues))
    return Outcome(messages=messages, seconds=now() - began, calls=calls)


async def consume(
    queues: Sequence[Queue[bytes]],
    *,
    messages: int,
    batch: int,
    progress: Progress,
    now: Now = time.perf_counter,
) -> Outcome:
    """Each client receives up to a batch and acknowledges it, until so many are done together or
    nothing comes any more. A call is noted from asking for messages to their acknowledgement."""
    calls = Samples()
    done = 0
    end = began = now()

    async def work(queue: Queue[bytes]) -> None:
        nonlocal done, end
        while done < messages:
            asked = now()
            found = await queue.receive(min(batch, messages - done), wait=RECEIVE_WAIT_SECONDS)
            if not found:
                return
            count = await queue.ack(found)
            end = now()
            calls.add(end - asked)
            done += count
            progress(count)

    waiting = {asyncio.create_task(work(queue)) for queue in queues}
    try:
        while waiting and done < messages:
            ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # Raises what went wrong.
    finally:
        # When all is done, those who still wait for messages wait for nothing.
        await _cancel(waiting)
    return Outcome(messages=done, seconds=end - began, calls=calls)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """How long messages took, from when they were due."""

    sent: Samples
    """To their acknowledgement by the broker."""
    received: Samples
    """To their receiver."""
    seconds: float


async def latency(
    sender: Queue[bytes],
    receiver: Queue[bytes],
    *,
    messages: int,
    rate: float,
    size_bytes: int,
    progress: Progress,
    now: Now = time.perf_counter,
) -> Latencies:
    """Send by a schedule that is fixed beforehand, one by one, and receive at the same time. What
    counts is from when a message was due, so that a stall is not hidden by a sender who waits."""
    sent, received = Samples(), Samples()
    filling = os.urandom(max(0, size_bytes - STAMP_BYTES))
    start = now()

    async def send() -> None:
        for number in range(messages):
            due = start + number / rate
            if (ahead := due - now()) > 0:
                await asyncio.sleep(ahead)
            await sender.send(_STAMP.pack(due) + filling)
            sent.add(now() - due)

    async def receive() -> None:
        missing = messages
        while missing > 0:
            found = await receiver.receive(100, wait=RECEIVE_WAIT_SECONDS)
            arrived = now()
            for message in found:
                (due,) = _STAMP.unpack_from(message.raw)
                received.add(arrived - due)
            missing -= len(found)
            await receiver.ack(found)
            progress(len(found))

    tasks = [asyncio.create_task(send()), asyncio.create_task(receive())]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)
    return Latencies(sent=sent, received=received, seconds=now() - start)
