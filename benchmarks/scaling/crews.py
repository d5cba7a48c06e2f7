"""Native clients at work on a queue: one that takes a thousand at a time, or a crew of workers.

These functions run in a client process. A crew has as many workers as are asked for in one process,
each with a connection of its own; a worker is as simple as can be: it receives, acknowledges, and
receives again. Several processes begin at the same moment.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import uvloop

import penstock
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved
from benchmarks.peers.orders import QueueOrder

_WAIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewOrder:
    """Work a queue off."""

    place: str
    queue: str
    workers: int
    batch: int
    begin_ns: int
    """By the monotonic clock, which all processes of a machine share."""


def take(order: QueueOrder) -> Moved:
    """Receive and acknowledge just so many: a batch is acknowledged while the next one is on its
    way. Whatever else is in the queue stays there."""

    async def run() -> Moved:
        async with penstock.connect(order.place) as client:
            queue: penstock.Queue[bytes] = client.queue(order.queue, codec=bytes)
            await queue.stats()
            left, done = order.messages_max, 0
            began, cpu = time.perf_counter(), time.process_time()
            messages = await queue.receive(min(order.batch, left), wait=_WAIT_SECONDS)
            while messages:
                left -= len(messages)
                if left <= 0:
                    done += await queue.ack(messages)
                    break
                count, messages = await asyncio.gather(
                    queue.ack(messages), queue.receive(min(order.batch, left), wait=_WAIT_SECONDS)
                )
                done += count
            if left > 0:
                raise ClientFailed(f"{done} of {order.messages_max} messages came")
            return Moved(done, time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


def work_off(order: CrewOrder) -> Moved:
    """All workers of this process, until a receive finds nothing."""

    async def run() -> Moved:
        async with AsyncExitStack() as stack:
            queues = []
            for _ in range(order.workers):
                client = await stack.enter_async_context(penstock.connect(order.place))
                queue: penstock.Queue[bytes] = client.queue(order.queue, codec=bytes)
                await queue.stats()
                queues.append(queue)
            if (ahead := order.begin_ns - time.monotonic_ns()) < 0:
                raise ClientFailed(f"connecting took {-ahead / 1e9:.1f} s too long")
            await asyncio.sleep(ahead / 1e9)
            began, cpu = time.perf_counter(), time.process_time()
            done = await asyncio.gather(*(_work(queue, order.batch) for queue in queues))
            return Moved(sum(done), time.perf_counter() - began, time.process_time() - cpu)

    return uvloop.run(run())


async def _work(queue: penstock.Queue[bytes], batch: int) -> int:
    done = 0
    while messages := await queue.receive(batch):
        done += await queue.ack(messages)
    return done
