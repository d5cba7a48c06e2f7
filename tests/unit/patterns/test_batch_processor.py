"""Batches: one call, one acknowledgement, and the bad message is found."""

import asyncio

from penstock.client.client import Client
from penstock.patterns.batch_processor import Batch, BatchProcessor
from tests.unit.patterns.runs import on_memory


class Recorder:
    """Remembers batches, and fails on those with a bad number."""

    def __init__(self, *bad: int) -> None:
        self.batches: list[list[int]] = []
        self.done: list[int] = []
        self.bad = bad

    async def process(self, batch: Batch[int]) -> None:
        numbers = [message.body for message in batch.messages]
        self.batches.append(numbers)
        if any(number in self.bad for number in numbers):
            raise ValueError("a bad number")
        self.done += numbers


@on_memory
async def test_one_call_for_many(client: Client) -> None:
    recorder = Recorder()
    queue = client.queue("numbers", codec=int)
    await queue.send_many(list(range(25)))
    processor = BatchProcessor(queue, recorder.process, size=10, wait=0.0)
    while await processor.process_once(wait=0):
        pass
    assert [len(batch) for batch in recorder.batches] == [10, 10, 5]
    assert sorted(recorder.done) == list(range(25))
    assert processor.statistics.done == 25
    assert (await queue.stats()).depth == 0


@on_memory
async def test_the_bad_one_is_found_and_the_others_are_done(client: Client) -> None:
    recorder = Recorder(5)
    queue = client.queue("numbers", codec=int)
    await queue.send_many(list(range(16)))
    processor = BatchProcessor(queue, recorder.process, size=16, wait=0.0, delay=0)
    assert await processor.process_once(wait=0) == 16
    assert sorted(recorder.done) == [number for number in range(16) if number != 5]
    assert len(recorder.batches) <= 9, "halving finds it in 2·log₂(16) calls and one"
    assert processor.statistics.released == 1
    [left] = await queue.receive(10)
    assert (left.body, left.deliveries) == (5, 2)


@on_memory
async def test_all_come_again_where_halving_is_not_wanted(client: Client) -> None:
    recorder = Recorder(5)
    queue = client.queue("numbers", codec=int)
    await queue.send_many(list(range(8)))
    processor = BatchProcessor(queue, recorder.process, size=8, wait=0.0, halve=False, delay=0)
    await processor.process_once(wait=0)
    assert recorder.batches == [list(range(8))]
    assert (await queue.stats()).ready == 8


@on_memory
async def test_the_function_names_those_that_failed(client: Client) -> None:
    async def process(batch: Batch[int]) -> None:
        for message in batch.messages:
            if message.body % 2:
                batch.fail(message, delay=3_600)

    queue = client.queue("numbers", codec=int)
    await queue.send_many(list(range(10)))
    processor = BatchProcessor(queue, process, size=10, wait=0.0)
    await processor.process_once(wait=0)
    stats = await queue.stats()
    assert (stats.ready, stats.delayed) == (0, 5)


@on_memory
async def test_a_batch_that_does_not_fill_goes_after_a_while(client: Client) -> None:
    recorder = Recorder()
    queue = client.queue("numbers", codec=int)
    await queue.send_many([1, 2, 3])
    processor = BatchProcessor(queue, recorder.process, size=100, wait=0.01)
    assert await processor.process_once() == 3


@on_memory
async def test_what_was_gathered_goes_back(client: Client) -> None:
    recorder = Recorder()
    queue = client.queue("numbers", codec=int)
    await queue.send_many([1, 2, 3])
    running = asyncio.create_task(BatchProcessor(queue, recorder.process, wait=600).run())
    while (await queue.stats()).leased < 3:  # noqa: ASYNC110 - it is asked
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    messages = await queue.receive(10, wait=60)
    assert sorted(message.body for message in messages) == [1, 2, 3]
    assert recorder.batches == []


@on_memory
async def test_it_runs_until_it_is_stopped(client: Client) -> None:
    recorder = Recorder()
    queue = client.queue("numbers", codec=int)
    processor = BatchProcessor(queue, recorder.process, size=10, wait=0.001)
    running = asyncio.create_task(processor.run())
    await queue.send_many(list(range(30)))
    while len(recorder.done) < 30:  # noqa: ASYNC110
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sorted(recorder.done) == list(range(30))
    assert all(len(batch) <= 10 for batch in recorder.batches)
