"""Work groups of equal rank: whichever way a group is opened, it goes by its queue's settings.

A queue has a lease of ten seconds, three deliveries a second apart and a dead-letter queue. A
message that no worker finishes is delivered three times, then it is a dead letter that says where
it came from, in which group it died, why, and after how many deliveries. Time is moved by hand.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import boto3
import pytest

import penstock
from penstock.client.blocking.client import BlockingClient
from penstock.client.dead_letter import DeadLetter
from penstock.kafka.codec import Message
from penstock.patterns.fan_out import FanOut
from penstock.testing.clock import ManualClock
from penstock.testing.server import PenstockServer
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.share_member import ShareMember
from tests.unit.kafka.wire import wire_client
from tests.web_broker import ask

LOOKS_MAX = 100_000
LEASE_MS, RETRY_MS = 10_000, 1_000
QUEUE, LETTERS = "orders", "failed"


class Door(Protocol):
    """One way to receive messages of a queue in a group of its own."""

    group: str

    def receive(self) -> int | None:
        """Lease a message and do nothing with it: which delivery it is, None if there is none."""


class Place:
    """A broker with a queue, and a clock to move."""

    def __init__(self, clock: ManualClock, broker: PenstockServer) -> None:
        self.clock = clock
        self.broker = broker
        self.closing = contextlib.ExitStack()
        self.client: BlockingClient = penstock.blocking.connect(broker.url)
        self.closing.callback(self.client.close)


class NativeDoor:
    def __init__(self, place: Place, group: str = "emails") -> None:
        self.group = group
        self._queue = place.client.queue(QUEUE, group=group, codec=bytes)

    def receive(self) -> int | None:
        found = self._queue.receive(1)
        return found[0].deliveries if found else None


class HttpDoor:
    group = "over-http"

    def __init__(self, place: Place) -> None:
        self._address = place.broker.places.http

    def receive(self) -> int | None:
        path = f"/v1/queues/{QUEUE}/receive"
        status, found = ask(self._address, "POST", path, {"group": self.group, "wait_ms": 0})
        assert status == 200, found
        deliveries = [int(one["deliveries"]) for one in found["messages"]]
        return deliveries[0] if deliveries else None


class SqsDoor:
    group = "queue"

    def __init__(self, place: Place) -> None:
        self._client: Any = boto3.client(
            "sqs",
            endpoint_url=place.broker.sqs_url,
            region_name="eu-west-1",
            aws_access_key_id="anybody",
            aws_secret_access_key="secret",
        )
        place.closing.callback(self._client.close)
        self._url = self._client.get_queue_url(QueueName=QUEUE)["QueueUrl"]

    def receive(self) -> int | None:
        answer = self._client.receive_message(
            QueueUrl=self._url, MessageSystemAttributeNames=["ApproximateReceiveCount"]
        )
        for one in answer.get("Messages", []):
            return int(one["Attributes"]["ApproximateReceiveCount"])
        return None


class KafkaDoor:
    """A share group: it begins at the end of the topic when it first fetches."""

    group = "shared"

    def __init__(self, place: Place) -> None:
        runner = place.closing.enter_context(asyncio.Runner())
        host, _, port = place.broker.kafka.rpartition(":")
        connecting = wire_client(host, int(port))
        client = runner.run(connecting.__aenter__())
        place.closing.callback(lambda: runner.run(connecting.__aexit__(None, None, None)))
        topic_id = bytes.fromhex(place.client.describe_queue(QUEUE).id)

        def call(key: int, version: int, fields: Any) -> Message:
            return runner.run(client.call(key, version, fields))

        self._place = (topic_id, 0)
        self._member = ShareMember(cast(Asker, call), self.group)
        self._member.heartbeat(QUEUE)

    def receive(self) -> int | None:
        answer = self._member.fetch(self._place, records=1)
        assert answer.error_code == 0, answer
        for topic in answer.responses:
            for partition in topic.partitions:
                assert partition.error_code == 0, partition
                for one in partition.acquired_records:
                    assert answer.acquisition_lock_timeout == LEASE_MS
                    return int(one.delivery_count)
        return None


class FanOutDoor:
    group = "mailing"

    def __init__(self, place: Place) -> None:
        async def open_groups() -> None:
            async with penstock.connect(place.broker.url) as client:
                await FanOut[bytes](client, QUEUE, groups=["billing", self.group]).open()

        asyncio.run(open_groups())
        self._door = NativeDoor(place, self.group)

    def receive(self) -> int | None:
        return self._door.receive()


DOORS: dict[str, Callable[[Place], Door]] = {
    "native": NativeDoor,
    "default group": lambda place: NativeDoor(place, "queue"),
    "http": HttpDoor,
    "sqs": SqsDoor,
    "kafka": KafkaDoor,
    "fan-out": FanOutDoor,
}


@contextlib.contextmanager
def serving(clock: ManualClock, data: Path | None = None) -> Iterator[Place]:
    with PenstockServer(data, clock=clock) as broker:
        place = Place(clock, broker)
        try:
            yield place
        finally:
            place.closing.close()


def make_queue(place: Place, **more: Any) -> None:
    options: dict[str, Any] = {
        "lease": LEASE_MS / 1_000, "deliveries_max": 3, "retry": "fixed",
        "retry_delay": RETRY_MS / 1_000, "dead_letter": LETTERS, **more,
    }  # fmt: skip
    place.client.create_queue(QUEUE, **options)


def fail(place: Place, door: Door, delivery: int) -> None:
    """The lease ends, and the next delivery is not before the retry delay has passed."""
    assert door.receive() == delivery
    assert door.receive() is None, "it is leased"
    place.clock.advance(LEASE_MS - 1)
    assert door.receive() is None, "the lease is the queue's"
    place.clock.advance(1)
    assert door.receive() is None, "a retry waits"
    place.clock.advance(RETRY_MS - 1)
    assert door.receive() is None, "the retry delay is the queue's"
    place.clock.advance(1)


def letters(place: Place, name: str = LETTERS) -> list[DeadLetter]:
    found = place.client.queue(name, codec=bytes).peek(100)
    assert all(one.body == b"body" for one in found)
    return [one.dead_letter for one in found if one.dead_letter is not None]


def wait_moved(place: Place, group: str, count: int = 1) -> None:
    """Return when so many messages of a group are in the dead-letter queue."""
    for _ in range(LOOKS_MAX):
        if place.client.queue(QUEUE, group=group).stats().moved >= count:
            return
        place.clock.advance(100)  # What could not be moved is tried again after a pause.
    raise AssertionError(f"there are not {count} dead letters of {group}")


@pytest.mark.parametrize("door", DOORS)
def test_a_group_delivers_and_buries_as_its_queue_is_set(door: str) -> None:
    with serving(ManualClock()) as place:
        make_queue(place)
        chosen = DOORS[door](place)
        assert chosen.receive() is None, "the group is open from now on"
        sent = place.client.queue(QUEUE, codec=bytes).send(b"body")
        for delivery in (1, 2, 3):
            fail(place, chosen, delivery)
        assert chosen.receive() is None, "three deliveries are all"
        wait_moved(place, chosen.group)
        (letter,) = letters(place)
        assert (letter.queue, letter.partition, letter.offset) == (QUEUE, 0, sent.offset)
        assert (letter.group, letter.deliveries) == (chosen.group, 3)
        assert letter.reason == "too many deliveries"
        stats = place.client.queue(QUEUE, group=chosen.group).stats()
        assert (stats.moved, stats.purged, stats.dead, stats.dead_lettered) == (1, 0, 1, 1)


def test_two_groups_bury_the_same_message_and_each_says_so() -> None:
    with serving(ManualClock()) as place:
        make_queue(place)
        doors = [
            NativeDoor(place, "emails"),
            NativeDoor(place, "search"),
            NativeDoor(place, "done"),
        ]
        assert [door.receive() for door in doors] == [None] * 3
        sent = place.client.queue(QUEUE, codec=bytes).send(b"body")
        (finished,) = place.client.queue(QUEUE, group="done").receive(1)
        assert finished.ack()
        for delivery in (1, 2, 3):
            assert [door.receive() for door in doors] == [delivery, delivery, None]
            place.clock.advance(LEASE_MS)
            place.clock.advance(RETRY_MS)
        wait_moved(place, "emails")
        wait_moved(place, "search")
        found = letters(place)
        assert sorted(one.group for one in found) == ["emails", "search"]
        assert {(one.queue, one.partition, one.offset) for one in found} == {
            (QUEUE, 0, sent.offset)
        }
        stats = place.client.queue(QUEUE, group="done").stats()
        assert (stats.acked, stats.moved) == (1, 0)


def test_a_group_goes_on_by_its_queues_settings_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    with serving(clock, tmp_path) as place:
        make_queue(place)
        door = NativeDoor(place)
        assert door.receive() is None
        place.client.queue(QUEUE, codec=bytes).send(b"body")
        fail(place, door, 1)
        assert door.receive() == 2
    with serving(clock, tmp_path) as place:
        door = NativeDoor(place)
        assert door.receive() is None, "it is leased"
        clock.advance(LEASE_MS)
        assert door.receive() is None, "a retry waits"
        clock.advance(RETRY_MS)
        fail(place, door, 3)
        wait_moved(place, door.group)
        (letter,) = letters(place)
        assert (letter.group, letter.deliveries) == (door.group, 3)


def test_a_change_of_the_queue_reaches_the_groups_that_inherit() -> None:
    with serving(ManualClock()) as place:
        make_queue(place)
        door = NativeDoor(place)
        assert door.receive() is None
        place.client.queue(QUEUE).configure(
            {"queue.deliveries.max": "1", "queue.dead.letter.topic": "elsewhere"}
        )
        place.client.queue(QUEUE, codec=bytes).send(b"body")
        assert door.receive() == 1
        place.clock.advance(LEASE_MS)
        wait_moved(place, door.group)
        assert [one.deliveries for one in letters(place, "elsewhere")] == [1]


def test_a_topic_that_is_no_queue_keeps_kafkas_defaults_for_share_groups() -> None:
    with serving(ManualClock()) as place:
        place.client.create_topic(QUEUE, partitions=1)
        door = NativeDoor(place)
        assert door.receive() is None
        place.client.topic(QUEUE, codec=bytes).send(b"body")
        for delivery in range(1, 6):
            assert door.receive() == delivery
            place.clock.advance(29_999)
            assert door.receive() is None
            place.clock.advance(1)
        assert door.receive() is None, "five deliveries are all"
        stats = place.client.queue(QUEUE, group=door.group).stats()
        assert (stats.purged, stats.dead, stats.moved) == (1, 0, 0), "as Kafka archives it"
        (part,) = place.client.describe_topic(QUEUE).partitions
        assert (part.start, part.end) == (0, 1), "the log still has it"
