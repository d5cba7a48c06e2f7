"""A program that uses the native client, of whichever version its `PYTHONPATH` names.

    python -m tests.upgrade.native_load --url penstock://… --name old --directory DIR

It is a process of its own, so that the client of 0.1.0 can work beside the present one, and uses
only what both offer. It sends to a queue, leases and settles messages; sends to a topic, and reads
it both alone and as a member of a consumer group; and writes histories of queue and topic that the
checkers of `tests.cluster` judge. What it is asked on standard input it answers on standard output,
in JSON, one line each:

    status      how much was acknowledged, received, read, and which errors were met
    stop        send nothing more
    drain       work off the queue, read the topic to its end; answers when that is done
    end         end
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import penstock
from penstock import Client, ClientSettings, errors
from tests.cluster.history import Completion, Operation, Recorder, key_of
from tests.cluster.payloads import name_in, payload_of
from tests.cluster.queue_facts import Delivered, Promises, QueueFacts, Verdict

PARTITIONS = 2
LEASE_SECONDS = 4
WAIT_SECONDS = 1
RECEIVE_MAX = 10
BATCH_SIZES = (1, 1, 1, 5, 20)
PAUSE_SECONDS = 0.05
"""Between two sends of a sender, and after an error."""
TIMEOUT_SECONDS = 60.0
RETRIES_MAX = 3
"""So many attempts of a receive, besides the last one, may have leased something."""
DRAIN_SECONDS_MAX = 120.0
_FATES = ("ack", "release", "extend", "forget")
_WEIGHTS = (88, 6, 3, 3)


class NativeLoad:
    """All that one client does."""

    def __init__(self, client: Client, name: str, directory: Path, seed: int) -> None:
        self.errors: Counter[str] = Counter()
        """What calls raised, by name."""
        self.fatal: list[str] = []
        """Errors that say: the same call will fail again."""
        self.acked = 0
        self.received = 0
        self.read = 0
        self.group_read: Counter[str] = Counter()
        """How often the consumer group was handed out each value."""
        self.sent: set[str] = set()
        """Values that the topic has acknowledged."""
        self._client = client
        self._random = Random(seed)
        self._name = name
        self._queue_name, self._topic_name = f"jobs-{name}", f"log-{name}"
        self._queue = client.queue(self._queue_name, codec=bytes)
        self._queue_history = Recorder(directory / f"native-{name}-queue.jsonl")
        self._topic_history = Recorder(directory / f"native-{name}-topic.jsonl")
        self._sending = True
        self._draining = False
        self._receipts = 0
        self._reached: Counter[int] = Counter()
        self._senders: list[asyncio.Task[None]] = []
        self._others: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        """Make queue and topic."""
        await self._client.create_queue(
            self._queue_name, lease=LEASE_SECONDS, deliveries_max=0, retry="none", exist_ok=True
        )
        await self._client.create_topic(self._topic_name, partitions=PARTITIONS, exist_ok=True)
        facts = QueueFacts(self._queue_name, promises=Promises())
        self._queue_history.invoke("maker", "queue", queue=facts).complete("ok", queue=facts)

    def start(self) -> None:
        """Everything at once."""
        self._senders = [asyncio.create_task(work()) for work in (self._send_jobs, self._send_log)]
        works = (self._work, self._work, self._read, self._follow)
        self._others = [asyncio.create_task(work()) for work in works]

    def check(self) -> None:
        """Raise what went wrong in a task: none of them ends by itself, but senders."""
        for task in (*self._senders, *self._others):
            if task.done():
                task.result()

    async def close(self) -> None:
        """End all tasks."""
        for task in (*self._senders, *self._others):
            task.cancel()
        await asyncio.gather(*self._senders, *self._others, return_exceptions=True)
        self._queue_history.close()
        self._topic_history.close()

    # The queue.

    async def _send_jobs(self) -> None:
        process = self._queue_history.new_process(f"{self._name}-sender")
        count = 0
        while self._sending:
            values = [f"{process}-{count + number}" for number in range(self._size())]
            count += len(values)
            operations = [
                self._queue_history.invoke(
                    process,
                    "send",
                    sends=[(key_of(self._queue_name, 0), None, value)],
                    queue=QueueFacts(self._queue_name),
                )
                for value in values
            ]
            outcome, told = await self._ask(self._send_to_queue, values)
            for number, (operation, value) in enumerate(zip(operations, values, strict=True)):
                identity = told[number].id if outcome == "ok" else ""
                operation.complete(
                    outcome,
                    sends=[(key_of(self._queue_name, 0), None, value)],
                    queue=QueueFacts(self._queue_name, identity=identity),
                )
            self.acked += len(values) * (outcome == "ok")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send_to_queue(self, values: list[str]) -> Any:
        if len(values) == 1:
            return [await self._queue.send(payload_of(values[0]))]
        return await self._queue.send_many([payload_of(value) for value in values])

    async def _work(self) -> None:
        process = self._queue_history.new_process(f"{self._name}-worker")
        while True:
            facts = QueueFacts(self._queue_name, lease_ms=1_000 * LEASE_SECONDS)
            # The client asks again when an answer is lost; what that attempt has leased is seen by
            # nobody until the lease is over. So each attempt that there may be is an operation.
            attempts = [
                self._queue_history.invoke(process, "receive", queue=facts)
                for _ in range(1 + RETRIES_MAX)
            ]
            retries = self._client.statistics().retries
            outcome, messages = await self._ask(
                self._queue.receive, RECEIVE_MAX, wait=WAIT_SECONDS, lease=LEASE_SECONDS
            )
            delivered = [self._delivered(process, one) for one in messages or ()]
            told = QueueFacts(self._queue_name, delivered=tuple(delivered))
            attempts[0].complete(outcome, queue=told)
            retries = self._client.statistics().retries - retries
            for number, attempt in enumerate(attempts[1:]):
                attempt.complete("info" if number < retries else "fail", queue=facts)
            self.received += len(delivered)
            if messages:
                await self._settle_some(process, messages, [one.receipt for one in delivered])

    def _delivered(self, process: str, message: Any) -> Delivered:
        self._receipts += 1
        receipt = f"{process}-{self._receipts}"
        return Delivered(name_in(message.raw), receipt, message.deliveries, message.id)

    async def _settle_some(self, process: str, messages: list[Any], receipts: list[str]) -> None:
        fates: dict[str, list[tuple[Any, str]]] = {}
        for message, receipt in zip(messages, receipts, strict=True):
            (fate,) = ["ack"] if self._draining else self._random.choices(_FATES, _WEIGHTS)
            fates.setdefault(fate, []).append((message, receipt))
        await self._settle(process, fates.get("ack", []), "ack", self._queue.ack)
        await self._settle(process, fates.get("release", []), "release", self._queue.release)
        await self._settle(process, fates.get("extend", []), "extend", self._extend)
        await self._settle(process, fates.get("extend", []), "ack", self._queue.ack)

    async def _extend(self, messages: list[Any]) -> int:
        return await self._queue.extend(messages, lease=LEASE_SECONDS)

    async def _settle(
        self,
        process: str,
        leased: list[tuple[Any, str]],
        verdict: Verdict,
        settle: Callable[[list[Any]], Awaitable[int]],
    ) -> None:
        if not leased:
            return
        delay_ms = 1_000 * LEASE_SECONDS if verdict == "extend" else 0
        facts = [
            QueueFacts(self._queue_name, receipt=receipt, verdict=verdict, delay_ms=delay_ms)
            for _, receipt in leased
        ]
        operations = [self._queue_history.invoke(process, "settle", queue=one) for one in facts]
        outcome, counted = await self._ask(settle, [message for message, _ in leased])
        # Which of them did not count is not said; and the client may have asked a second time,
        # after the answer to an ack that counted was lost.
        if outcome == "ok" and counted != len(leased):
            outcome = "info"
        for operation, one in zip(operations, facts, strict=True):
            operation.complete(outcome, queue=one)

    # The topic.

    async def _send_log(self) -> None:
        topic = self._client.topic(self._topic_name, codec=bytes)
        process = self._topic_history.new_process(f"{self._name}-producer")
        count = 0
        while self._sending:
            partition = self._random.randrange(PARTITIONS)
            key = key_of(self._topic_name, partition)
            values = [f"{process}-{count + number}" for number in range(self._size())]
            count += len(values)
            operations: list[Operation] = [
                self._topic_history.invoke(process, "send", sends=[(key, None, value)])
                for value in values
            ]
            outcome, told = await self._ask(
                topic.send_many, [payload_of(value) for value in values], partition=partition
            )
            for number, (operation, value) in enumerate(zip(operations, values, strict=True)):
                offset = told[number].offset if outcome == "ok" else None
                operation.complete(outcome, sends=[(key, offset, value)])
            if outcome == "ok":
                self.sent.update(values)
                self.acked += len(values)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self) -> None:
        """Read along alone, from the beginning."""
        process = self._topic_history.new_process(f"{self._name}-reader")
        positions = {key_of(self._topic_name, partition): 0 for partition in range(PARTITIONS)}
        self._topic_history.invoke(process, "assign", positions=positions).complete(
            "ok", positions=positions
        )
        async with self._client.subscribe(self._topic_name, codec=bytes) as subscription:
            while True:
                operation = self._topic_history.invoke(process, "poll")
                outcome, records = await self._ask(subscription.fetch, wait=WAIT_SECONDS)
                polls: dict[str, list[tuple[int, str]]] = {}
                for one in records or ():
                    polls.setdefault(key_of(one.topic, one.partition), []).append(
                        (one.offset, name_in(one.raw))
                    )
                    self._reached[one.partition] = one.offset + 1
                    self.read += 1
                operation.complete("ok" if outcome == "ok" else "info", polls=polls)

    async def _follow(self) -> None:
        """Read along as the only member of a consumer group, whose offsets are committed."""
        async with self._client.subscribe(
            self._topic_name, codec=bytes, group=f"followers-{self._name}"
        ) as subscription:
            while True:
                _, records = await self._ask(subscription.fetch, wait=WAIT_SECONDS)
                self.group_read.update(name_in(one.raw) for one in records or ())

    # What it is asked.

    def status(self) -> dict[str, Any]:
        """Figures so far."""
        return {
            "version": penstock.__file__,
            "acked": self.acked,
            "received": self.received,
            "read": self.read,
            "group_read": len(self.group_read),
            "errors": self.errors,
            "fatal": self.fatal,
        }

    def stop(self) -> None:
        """Send nothing more."""
        self._sending = False

    async def drain(self) -> dict[str, Any]:
        """Wait until the queue is empty and the topic read to its end."""
        self._draining = True
        await asyncio.gather(*self._senders)
        operation = self._queue_history.invoke("drain", "drain")
        drain = self._topic_history.invoke("drain", "drain")
        left = "nothing was looked at"
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            while left:
                await asyncio.sleep(PAUSE_SECONDS)
                self.check()
                left = await self._left()
        operation.complete("ok")
        drain.complete("ok")
        for history in (self._queue_history, self._topic_history):
            history.history()  # It writes down what it has.
        return self.status()

    async def _left(self) -> str:
        outcome, depth = await self._ask(self._depth)
        if outcome != "ok" or depth:
            return f"{depth} messages in the queue"
        described = await self._client.describe_topic(self._topic_name)
        for one in described.partitions:
            if self._reached[one.index] < one.end:
                return f"partition {one.index} from {self._reached[one.index]} to {one.end}"
        unread = self.sent - self.group_read.keys()
        return f"{len(unread)} messages that the group has not read" if unread else ""

    async def _depth(self) -> int:
        return (await self._queue.stats()).depth

    # Both.

    def _size(self) -> int:
        return self._random.choice(BATCH_SIZES)

    async def _ask(
        self, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any
    ) -> tuple[Completion, Any]:
        """What came of a call: `info` if it may have been carried out."""
        try:
            return "ok", await call(*arguments, **options)
        except errors.LocalError as error:
            self.fatal.append(f"{type(error).__name__}: {error}")
        except penstock.PenstockError as error:
            self.errors[type(error).__name__] += 1
        await asyncio.sleep(PAUSE_SECONDS)
        return "info", None


async def main() -> None:
    """Until the end is asked for, or standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = ClientSettings(timeout=TIMEOUT_SECONDS)
    async with penstock.connect(options.url, settings=settings) as client:
        load = NativeLoad(client, options.name, options.directory, options.seed)
        await load.prepare()
        load.start()
        try:
            while (asked := await asyncio.to_thread(sys.stdin.readline)) not in ("", "end\n"):
                load.check()
                if asked == "stop\n":
                    load.stop()
                answer = await load.drain() if asked == "drain\n" else load.status()
                print(json.dumps(answer), flush=True)
        finally:
            await load.close()


if __name__ == "__main__":
    asyncio.run(main())
