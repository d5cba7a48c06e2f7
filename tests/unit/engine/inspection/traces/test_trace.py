"""What nodes know of a message: who had it, when, and what became of it; also after a failover."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.core.message import NewMessage
from penstock.core.message_id import message_id
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.core.verdicts import Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.traces import message_search
from penstock.engine.inspection.traces import trace as traces
from penstock.wire.trace_requests import Place, Sighting
from tests.unit.engine.letters import DEAD_LETTERS, counts_until, one_node
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until


def whats(seen: Sighting) -> list[str]:
    return [one.what for one in seen.happenings]


async def send(node: Node, topic: Topic, *values: bytes) -> list[str]:
    """Their ids."""
    sent = await node.delivery.send(topic, [NewMessage(value) for value in values])
    return [message_id(topic.topic_id, one.index, one.offset) for one in sent]


async def settle(node: Node, topic: Topic, verdict: Verdict, receiver: str = "") -> None:
    """Receive one message and say something about it."""
    [one] = await node.delivery.receive(topic, wait_ms=5_000, receiver=receiver)
    await node.delivery.settle(topic, [(one.receipt, verdict, 0, "no good")])


async def held_by(node: Node, wanted: str, holders: set[int]) -> Sighting:
    """A message, when these nodes hold it: two of three are enough for an answer."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            [seen] = (await node.traces.trace(wanted)).sightings
            if seen.written is not None and set(seen.written.nodes) == holders:
                return seen


def test_the_story_of_a_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("jobs", 1, {"queue.lease.ms": "60000"})
            other, wanted = await send(node, topic, b"other", b"\xff")
            await settle(node, topic, Verdict.ACK, "somebody else")
            await settle(node, topic, Verdict.RELEASE, "first")
            await settle(node, topic, Verdict.RETURN, "second")
            await settle(node, topic, Verdict.ACK, "third")
            found = await node.traces.trace(wanted.upper())
            [seen] = found.sightings
            assert (seen.place, seen.id, seen.is_queue) == (Place("jobs", 0, 1), wanted, True)
            assert [(one.what, one.receiver, one.deliveries) for one in seen.happenings] == [
                ("delivered", "first", 1),
                ("released", "first", None),
                ("delivered", "second", 2),
                ("returned", "second", None),
                ("delivered", "third", 2),
                ("acked", "third", None),
            ]
            times = [one.time_ms for one in seen.happenings]
            assert times == sorted(times)
            assert seen.is_complete, "nothing has been forgotten"
            assert seen.written is not None
            assert (seen.written.nodes, seen.written.leader) == ((1,), 1)
            assert 0 < seen.written.time_ms <= times[0]
            assert seen.states[0].state == "over"
            [first] = (await node.traces.trace(other)).sightings
            assert [one.receiver for one in first.happenings] == ["somebody else"] * 2
            assert (await node.traces.trace("jobs:0:1")).sightings == found.sightings

    asyncio.run(story())


def test_what_is_said_too_late_and_leases_that_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("jobs", 1, {"queue.retry.policy": "none"})
            [wanted] = await send(node, topic, b"slow")
            [first] = await node.delivery.receive(topic, lease_ms=1, wait_ms=5_000, receiver="slow")
            [second] = await node.delivery.receive(topic, wait_ms=5_000, receiver="fast")
            for one, verdict in ((first, Verdict.ACK), (second, Verdict.EXTEND)):
                await node.delivery.settle(topic, [(one.receipt, verdict, 60_000, "")])
            [seen] = (await node.traces.trace(wanted)).sightings
            assert [(one.what, one.receiver) for one in seen.happenings] == [
                ("delivered", "slow"),
                ("lease ended", "slow"),
                ("delivered", "fast"),
                ("too late", "slow"),
                ("extended", "fast"),
            ]
            assert seen.happenings[1].time_ms == seen.happenings[0].until_ms
            assert seen.states[0].state == "leased"
            assert seen.states[0].until_ms == seen.happenings[-1].until_ms

    asyncio.run(story())


@pytest.mark.slow
def test_death_burial_and_coming_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            [wanted, _] = await send(node, topic, b"bad", b"other")
            await settle(node, topic, Verdict.RELEASE, "w")
            await counts_until(node, topic, lambda counts: counts.moved == 1)
            first, letter = (await node.traces.trace(wanted)).sightings
            assert whats(first) == ["delivered", "released", "buried"]
            assert letter.place.topic == "orders_dlq"
            assert (letter.id, letter.came_from) == (wanted, Place("orders", 0, 0))
            assert letter.died is not None
            assert letter.died.reason == "too many deliveries: no good"
            assert letter.died.deliveries == 1
            letters = node.engine.topics.topic("orders_dlq")
            await node.engine.moves.start(letters, None)
            await counts_until(node, letters, lambda counts: counts.acked == 1)
            [gone] = (await node.traces.trace("orders_dlq:0:0")).sightings[:1]
            assert whats(gone) == ["taken", "moved"]
            assert gone.happenings[0].receiver.startswith("move ")
            back = (await node.traces.trace(wanted)).sightings[-1]
            assert back.place == Place("orders", 0, 2)
            assert back.came_from == letter.place
            elsewhere = await node.engine.topics.create_topic("elsewhere", 2, {})
            await settle(node, topic, Verdict.ACK)
            await settle(node, topic, Verdict.RELEASE)
            await counts_until(node, topic, lambda counts: counts.moved == 2)
            await node.engine.moves.start(letters, elsewhere)
            await counts_until(node, letters, lambda counts: counts.acked == 2)
            seen = (await node.traces.trace(wanted)).sightings
            names = [one.place.topic for one in seen if one.place.topic != "orders_dlq"]
            assert names == ["orders", "orders", "elsewhere"], "letters that were moved may be gone"

    asyncio.run(story())


def test_the_story_goes_on_where_nothing_is_left_to_read(tmp_path: Path) -> None:
    """It died, was moved back and done; and all that was written of it has been deleted."""

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            await send(node, topic, b"bad")
            await settle(node, topic, Verdict.RELEASE, "first")
            await counts_until(node, topic, lambda counts: counts.moved == 1)
            letters = node.engine.topics.topic("orders_dlq")
            await node.engine.moves.start(letters, None)
            await counts_until(node, letters, lambda counts: counts.acked == 1)
            await settle(node, topic, Verdict.ACK, "second")
            await node.engine.topics.trim(topic, 0, Offset(2))
            await node.engine.topics.trim(letters, 0, Offset(1))
            first, letter, back = (await node.traces.trace("orders:0:0")).sightings
            assert not any(one.is_there for one in (first, letter, back))
            assert first.happenings[-1].copy == letter.place == Place("orders_dlq", 0, 0)
            assert letter.happenings[-1].copy == back.place == Place("orders", 0, 1)
            assert [whats(one) for one in (first, letter, back)] == [
                ["delivered", "released", "buried"],
                ["taken", "moved"],
                ["delivered", "acked"],
            ]
            assert back.happenings[-1].receiver == "second"

    asyncio.run(story())


@pytest.mark.slow
def test_the_next_leader_knows_what_the_last_one_knew(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("jobs", 1, {"queue.lease.ms": "60000"})
        await until(lambda: bool(engine.topics.catalog.secrets))
        [wanted] = await send(nodes[1], topic, b"one")
        await settle(nodes[1], topic, Verdict.RELEASE, "before")
        shard = engine.topics.shard_of(topic.partitions[0])
        leader = engine.topics.leader(shard).node
        seen = await held_by(nodes[1], wanted, {1, 2, 3})
        assert seen.written is not None
        assert seen.written.leader == leader
        await nodes.stop(leader)
        left = next(iter(nodes.running.values()))
        await until(lambda: left.engine.topics.leader(shard).node not in (0, leader))
        await settle(left, topic, Verdict.ACK, "after")
        for node in nodes.running.values():
            [seen] = (await node.traces.trace(wanted)).sightings
            assert [(one.what, one.receiver) for one in seen.happenings] == [
                ("delivered", "before"),
                ("released", "before"),
                ("delivered", "after"),
                ("acked", "after"),
            ]
            assert seen.written is not None
            assert leader not in seen.written.nodes
        # One that comes back replays its log, and knows it too.
        await nodes.start(leader)
        [again] = (await nodes[leader].traces.trace(wanted)).sightings
        assert again.happenings == seen.happenings
        await nodes.stop()

    asyncio.run(story())


def test_what_is_forgotten_is_said_to_be(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic(
            "jobs", 1, {"queue.delete.acked": "false"}
        )
        await until(lambda: bool(nodes[1].engine.topics.catalog.secrets))
        wanted, other = await send(nodes[1], topic, b"one", b"two")
        await settle(nodes[1], topic, Verdict.RELEASE, "before")
        await nodes.stop()  # It leaves a snapshot, and replays nothing when it comes back.
        await nodes.start()
        [seen] = (await nodes[1].traces.trace(wanted)).sightings
        assert (seen.happenings, seen.is_complete, seen.since_ms) == ((), False, None)
        assert seen.states[0].deliveries == 1, "what is, is known"
        assert seen.written is not None
        await settle(nodes[1], topic, Verdict.ACK, "after")
        await settle(nodes[1], topic, Verdict.ACK, "after")
        for message in (wanted, other):
            [seen] = (await nodes[1].traces.trace(message)).sightings
            assert whats(seen) == ["delivered", "acked"]
            assert not seen.is_complete
            assert seen.since_ms is not None
            assert seen.since_ms <= seen.happenings[0].time_ms
        [new] = await send(nodes[1], topic, b"three")
        [seen] = (await nodes[1].traces.trace(new)).sightings
        assert seen.is_complete
        await nodes.stop()

    asyncio.run(story())


def test_the_bounds_of_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("hay", 3, {})
            ids = await send(node, topic, *(b"%d" % number for number in range(50)))
            for wanted in (ids[0], ids[-1]):
                assert len((await node.traces.trace(wanted)).sightings) == 1
            nobody = "00000000-0000-8000-8000-000000000000"
            missing = await node.traces.trace(nobody, ["hay"])
            assert (missing.sightings, missing.gave_up) == ((), False)
            monkeypatch.setattr(traces, "PLACES_TRIED_MAX", 10)
            monkeypatch.setattr(message_search, "PLACES_AT_ONCE", 2)
            gave_up = await node.traces.trace(nobody)
            assert gave_up.gave_up
            [gone] = (await node.traces.trace("hay:0:999")).sightings
            assert not gone.is_there
            assert gone.written is None
            for wrong in ("needle", "hay:7:0"):
                with pytest.raises(InvalidRequest):
                    await node.traces.trace(wrong)
            with pytest.raises(UnknownTopic):
                await node.traces.trace("nowhere:0:0")

    asyncio.run(story())
