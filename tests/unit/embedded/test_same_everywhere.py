"""`memory:` and `file:` refuse, deliver and lose exactly as a broker behind TCP does.

One story is played on each of the three, by a clock that is moved by hand, and written down line by
line: what was asked and what came back, errors with their class and sentence. The three accounts
must be the same, word by word.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Client, Message, PenstockError
from penstock.testing.clock import ManualClock
from penstock.testing.server import PenstockServer

pytestmark = pytest.mark.slow

SETTINGS = penstock.ClientSettings(auto_create=False, timeout=60)


class Account:
    """What happened, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def note(self, name: str, call: Awaitable[object]) -> Any:
        try:
            result = await call
        except PenstockError as error:
            self.lines.append(f"{name}: {type(error).__name__}: {error}")
            return None
        self.lines.append(f"{name}: {_show(result)}")
        return result


def _show(result: object) -> str:
    if isinstance(result, Message):
        return (
            f"{result.body!r} at {result.partition}/{result.offset}, delivery {result.deliveries},"
            f" priority {result.priority}, sent {result.sent_at:%H:%M:%S},"
            f" leased until {result.lease_until:%H:%M:%S}"
        )
    if isinstance(result, penstock.Sent):
        return f"{result.partition}/{result.offset}" + (" known" if result.duplicate else "")
    if isinstance(result, list):
        return "[" + ", ".join(map(_show, result)) + "]"
    if isinstance(result, penstock.QueueStats):
        shown = (f"{name}={getattr(result, name)}" for name in result.__slots__)
        return " ".join(shown)
    if isinstance(result, penstock.TopicDescription):
        return f"{result.name} {result.configs}"
    return repr(result)


async def story(client: Client, clock: ManualClock, note: "Note") -> None:
    """Everything that can be refused, delivered or lost."""
    await _refusals(client, note)
    await _delivery(client, clock, note)
    await _loss(client, clock, note)
    await _logs(client, note)


Note = Callable[[str, Awaitable[object]], Awaitable[Any]]


async def _refusals(client: Client, note: Note) -> None:
    await note("send to nothing", client.send("nothing", b"x"))
    await note("receive of nothing", client.receive("nothing"))
    await note("describe nothing", client.describe_queue("nothing"))
    await note("delete nothing", client.delete_queue("nothing"))
    await note("a bad name", client.create_queue("no spaces, please"))
    await note("a bad config", client.create_topic("bad", configs={"retention.ms": "soon"}))
    await note("create", client.create_queue("small", partitions=1, length_max=2))
    await note("create again", client.create_queue("small"))
    await note("create if need be", client.create_queue("small", exist_ok=True))
    await note("configure badly", client.configure("small", {"queue.lease.ms": "-5"}))
    await note("a message too large", client.send("small", bytes(40 << 20)))
    for number in range(4):
        await note(f"fill {number}", client.send("small", number))
    await note("which are left", client.queue("small").stats())
    await note("no such partition", client.send("small", b"x", partition=7))
    await note("delete", client.delete_queue("small"))
    await note("it is gone", client.send("small", b"x"))


async def _delivery(client: Client, clock: ManualClock, note: Note) -> None:
    await note(
        "create",
        client.create_queue(
            "work", lease=30, retry="none", priorities="strict", deduplication="id", ttl=3600
        ),
    )
    queue = client.queue("work")
    await note("send", queue.send({"n": 1}))
    await note("send urgently", queue.send({"n": 2}, priority=9))
    await note("send with an id", queue.send({"n": 3}, dedup_id="three"))
    await note("send it again", queue.send({"n": 3}, dedup_id="three"))
    await note("send for later", queue.send({"n": 4}, delay=60))
    await note("peek", _bodies(queue.peek()))
    leased = await note("receive", queue.receive(10))
    await note("nothing is left", queue.receive(10))
    await note("ack", leased[0].ack())
    await note("ack again", leased[0].ack())
    await note("release", leased[1].release())
    again = await note("it comes again", queue.receive(10))
    await note("extend", again[0].extend(100))
    clock.advance(seconds=31)
    late = await note("the lease that was not extended is over", queue.receive(10))
    await note("too late to ack", leased[2].ack())
    await note("but in time", late[0].ack())
    clock.advance(seconds=29)
    await note("the delay is over", queue.receive(10))
    await note("how it stands", queue.stats())
    waiting = asyncio.create_task(queue.receive(wait=60))
    await asyncio.sleep(0)
    await note("while somebody waits", queue.send({"n": 5}))
    await note("he has it", waiting)


async def _loss(client: Client, clock: ManualClock, note: Note) -> None:
    await note("dead letters", client.create_queue("dead", partitions=1))
    made = client.create_queue(
        "risky", lease=10, deliveries_max=2, retry="none", dead_letter="dead"
    )
    await note("create", made)
    queue = client.queue("risky")
    await note("send", queue.send("poison"))
    await note("send", queue.send("hopeless"))
    first = await note("receive", queue.receive(10))
    await note("reject", first[1].reject("cannot be read"))
    clock.advance(seconds=11)
    await note("the second time", queue.receive(10))
    clock.advance(seconds=11)
    await note("not a third", queue.receive(10))
    dead: list[Message[Any]] = []
    while len(dead) < 2:
        dead += await client.receive("dead", 10, wait=60)
    await note("the dead", _bodies(_soon(sorted(dead, key=lambda one: str(one.body)))))
    await note("short-lived", queue.send("stale", ttl=5))
    clock.advance(seconds=6)
    await note("it has expired", queue.receive(10))
    await note("how it stands", queue.stats())
    await note("send", queue.send("unwanted"))
    await note("purge", queue.purge())
    await note("empty", queue.receive(10))


async def _logs(client: Client, note: Note) -> None:
    await note("create", client.create_topic("events", partitions=2))
    topic = client.topic("events")
    for number in range(6):
        await note(f"send {number}", topic.send(f"event {number}", key=f"key-{number % 3}"))
    records = [record async for record in client.read("events")]
    shown = sorted((one.partition, one.offset, one.body) for one in records)
    await note("replay", _soon(shown))
    async with client.subscribe("events", group="readers") as subscription:
        found = await subscription.fetch(10, wait=60)
        while len(found) < 6:
            found += await subscription.fetch(10, wait=60)
        shown = sorted((one.partition, one.offset, one.body) for one in found)
        await note("subscribe", _soon(shown))


async def _soon(value: object) -> object:
    return value


async def _bodies(messages: Awaitable[Any]) -> list[object]:
    found: Iterable[Any] = await messages
    return [one.body for one in found]


def play(url: str, clock: ManualClock) -> list[str]:
    account = Account()

    async def run() -> None:
        async with penstock.connect(url, settings=SETTINGS, clock=clock) as client:
            await story(client, clock, account.note)

    asyncio.run(run())
    return account.lines


def test_one_story_three_places(tmp_path: Path) -> None:
    accounts: dict[str, list[str]] = {}
    accounts["memory"] = play("memory:", ManualClock())
    accounts["file"] = play(f"file:{tmp_path}/data", ManualClock())
    clock = ManualClock()
    with PenstockServer(clock=clock) as broker:
        accounts["tcp"] = play(broker.url, clock)
    assert len(accounts["memory"]) > 60
    assert accounts["file"] == accounts["memory"]
    assert accounts["tcp"] == accounts["memory"]
