"""Moves on real nodes: what is meant goes where it should, once, and nothing else is touched."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import InvalidRequest, MoveRunning, UnknownMove
from penstock.core.message import NewMessage
from penstock.core.message_id import message_id
from penstock.core.move_filter import MoveFilter
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset
from penstock.core.verdicts import Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import Receipt
from penstock.engine.moves import move_runner, moves
from penstock.engine.moves.move_runner import MoveRunner
from penstock.machines.move_commands import MoveState
from penstock.machines.moves import Move
from tests.unit.engine.letters import DEAD_LETTERS, counts_until, kill, letters, one_node, values
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until

pytestmark = pytest.mark.slow


async def ended(node: Node, source: Topic) -> Move:
    """The last move out of a queue, when it is over."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            move = (await node.engine.moves.list(source))[0]
            if not move.state.is_active:
                return move
            await asyncio.sleep(0)


async def with_letters(
    node: Node, bodies: list[bytes], *, partitions: int = 1
) -> tuple[Topic, Topic]:
    """A queue whose messages have died, and where they are now."""
    topic = await node.engine.topics.create_topic("orders", partitions, DEAD_LETTERS)
    dlq = await node.engine.topics.create_topic("orders_dlq", 1, {})
    await node.delivery.send(topic, [NewMessage(body, body[:1]) for body in bodies])
    await kill(node, topic, count=len(bodies))
    await counts_until(node, topic, lambda counts: counts.moved == len(bodies))
    return topic, dlq


def test_letters_go_back_to_where_they_died(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            bodies = [b"%d" % number for number in range(30)]
            topic, dlq = await with_letters(node, bodies, partitions=3)
            places = {letter.value: dict(letter.headers) for letter in await letters(node)}
            begun = await node.engine.moves.start(dlq)
            assert (begun.state, begun.to_move, begun.rate) == (MoveState.RUNNING, 30, 500)
            assert begun.destination == NO_TOPIC_ID
            move = await ended(node, dlq)
            assert (move.state, move.moved, move.failed) == (MoveState.COMPLETED, 30, 0)
            assert move.ended_ms >= move.started_ms > 0
            counts = await node.delivery.counts(dlq)
            assert (counts.ready, counts.leased, counts.acked) == (0, 0, 30)
            back = await node.delivery.receive(topic, messages_max=100, wait_ms=1_000)
            while len(back) < 30:
                back += await node.delivery.receive(topic, messages_max=100, wait_ms=1_000)
            assert sorted(one.message.value or b"" for one in back) == sorted(bodies)
            for one in back:
                assert one.deliveries == 1, "it counts from the beginning"
                assert [name for name, _ in one.message.headers] == [
                    delivery_headers.ORIGIN,
                    delivery_headers.FORMER_ID,
                ]
                said = places[one.message.value]
                assert said[delivery_headers.DEAD_PARTITION] == b"%d" % one.index

    asyncio.run(story())


def test_only_what_is_meant_is_moved_and_a_dry_run_moves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            _, dlq = await with_letters(node, [b"a1", b"b1", b"a2", b"b2", b"c"])
            other = await node.engine.topics.create_topic("other", 2, {})
            wanted = MoveFilter(body="1")
            found = await node.engine.moves.start(dlq, other, filter=wanted, dry_run=True)
            assert (found.to_move, found.move_id, found.moved) == (2, "", 0)
            assert await node.engine.moves.list(dlq) == []
            await node.engine.moves.start(dlq, other, filter=wanted)
            move = await ended(node, dlq)
            assert (move.moved, move.to_move) == (2, 5)
            assert sorted(await values(node, "other")) == [b"a1", b"b1"]
            left = await node.delivery.browse(dlq)
            assert [one.message.value for one in left] == [b"a2", b"b2", b"c"]
            assert {(one.state, one.deliveries) for one in left} == {("ready", 0)}
            ids = (dict(left[1].message.headers)[delivery_headers.MESSAGE_ID] or b"").decode()
            await node.engine.moves.start(dlq, other, filter=MoveFilter(ids=(ids,)))
            await ended(node, dlq)
            places = ((0, left[2].message.offset), (3, Offset(0)))
            await node.engine.moves.start(dlq, other, filter=MoveFilter(places=places))
            await ended(node, dlq)
            assert sorted(await values(node, "other")) == [b"a1", b"b1", b"b2", b"c"]
            assert await values(node) == [b"a2"]
            assert len(await node.engine.moves.list(dlq)) == 3

    asyncio.run(story())


def test_what_dies_again_is_not_moved_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic, dlq = await with_letters(node, [b"a", b"b", b"c"])
            await node.engine.moves.start(dlq, rate=20)
            await kill(node, topic, count=3)
            move = await ended(node, dlq)
            assert (move.state, move.moved) == (MoveState.COMPLETED, 3)
            await counts_until(node, topic, lambda counts: counts.moved == 6)
            assert sorted(await values(node)) == [b"a", b"b", b"c"]

    asyncio.run(story())


def test_a_move_can_be_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic, dlq = await with_letters(node, [b"%d" % number for number in range(9)])
            begun = await node.engine.moves.start(dlq, rate=1)
            with pytest.raises(MoveRunning):
                await node.engine.moves.start(dlq)
            await counts_until(node, topic, lambda counts: counts.ready == 1)
            stopping = await node.engine.moves.cancel(dlq, begun.move_id)
            assert stopping.state is MoveState.CANCELLING
            move = await ended(node, dlq)
            assert move.state is MoveState.CANCELLED
            assert 1 <= move.moved < 9
            counts = await node.delivery.counts(dlq)
            assert (counts.ready, counts.leased) == (9 - move.moved, 0)
            with pytest.raises(UnknownMove, match="CANCELLED"):
                await node.engine.moves.cancel(dlq, begun.move_id)
            with pytest.raises(UnknownMove):
                await node.engine.moves.cancel(dlq, "nothing")
            with pytest.raises(InvalidRequest):
                await node.engine.moves.start(dlq, dlq)
            with pytest.raises(InvalidRequest, match="each second"):
                await node.engine.moves.start(dlq, rate=0)

    asyncio.run(story())


def test_what_has_no_way_stays_and_is_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            _, dlq = await with_letters(node, [b"a", b"b"])
            nowhere = ((delivery_headers.DEAD_TOPIC, b"no such topic"),)
            itself = ((delivery_headers.DEAD_TOPIC, b"orders_dlq"),)
            await node.delivery.send(
                dlq,
                [NewMessage(b"c"), NewMessage(b"d", None, nowhere), NewMessage(b"e", None, itself)],
            )
            await node.engine.moves.start(dlq)
            move = await ended(node, dlq)
            assert (move.state, move.moved, move.failed) == (MoveState.COMPLETED, 2, 3)
            assert await values(node) == [b"c", b"d", b"e"]
            small = await node.engine.topics.create_topic("small", 1, {"max.message.bytes": "1000"})
            await node.delivery.send(dlq, [NewMessage(b"f" * 1_000)])
            await node.engine.moves.start(dlq, small)
            move = await ended(node, dlq)
            assert (move.moved, move.failed) == (3, 1)
            assert await values(node, "small") == [b"c", b"d", b"e"]
            counts = await node.delivery.counts(dlq)
            assert (counts.ready, counts.leased, counts.dead) == (1, 0, 0)

    asyncio.run(story())


def test_what_a_worker_has_is_his(tmp_path: Path) -> None:
    """The move waits for what is leased: one that comes back is moved, one that is done is not."""

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            _, dlq = await with_letters(node, [b"a", b"b", b"c"])
            leased = await node.delivery.receive(dlq, messages_max=2)
            assert [one.message.value for one in leased] == [b"a", b"b"]
            other = await node.engine.topics.create_topic("other", 1, {})
            await node.engine.moves.start(dlq, other)
            await counts_until(node, other, lambda counts: counts.ready == 1)
            done, not_done = (one.receipt for one in leased)
            await node.delivery.settle(
                dlq, [(done, Verdict.ACK, 0, ""), (not_done, Verdict.RELEASE, 0, "")]
            )
            move = await ended(node, dlq)
            assert (move.state, move.moved) == (MoveState.COMPLETED, 2)
            assert await values(node, "other") == [b"c", b"b"]

    asyncio.run(story())


def test_a_body_that_was_seen_lately_is_no_hindrance(tmp_path: Path) -> None:
    """The queue they go back to refuses what it has seen; they were seen there, and are meant."""

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            configs = DEAD_LETTERS | {"queue.order": "fifo", "queue.deduplication": "content"}
            topic = await node.engine.topics.create_topic("orders", 1, configs)
            bodies = [b"a", b"b", b"c"]
            await node.delivery.send(topic, [NewMessage(body, b"g") for body in bodies])
            await kill(node, topic, count=3)
            await counts_until(node, topic, lambda counts: counts.moved == 3)
            dlq = node.engine.topics.topic("orders_dlq")
            await node.engine.moves.start(dlq)
            assert (await ended(node, dlq)).moved == 3
            assert await values(node, "orders") == bodies

    asyncio.run(story())


def test_whoever_dies_on_the_way_leaves_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies are sent and not acknowledged; the next one waits for the leases, and goes on."""
    monkeypatch.setattr(move_runner, "LEASE_MS", 300)
    monkeypatch.setattr(move_runner, "HELD_PAUSE_MS", 10)
    monkeypatch.setattr(move_runner, "FINISH_SECONDS", 0)

    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        bodies = [b"%d" % number for number in range(25)]
        topic, dlq = await with_letters(nodes[1], bodies)
        settle = MoveRunner._settle
        pages = 0

        async def settle_once(runner: MoveRunner, *rest: Any) -> set[Offset]:
            nonlocal pages
            pages += 1
            if pages > 1:
                await asyncio.Event().wait()
            return await settle(runner, *rest)

        monkeypatch.setattr(MoveRunner, "_settle", settle_once)
        await nodes[1].engine.moves.start(dlq)
        await until(lambda: pages == 2)
        done = (await nodes[1].delivery.counts(dlq)).acked
        assert 0 < done < (await nodes[1].delivery.counts(topic)).ready, "some are there twice"
        monkeypatch.setattr(MoveRunner, "_settle", settle)
        await nodes.stop()
        await nodes.start()
        move = await ended(nodes[1], dlq)
        assert (move.state, move.moved) == (MoveState.COMPLETED, 25)
        assert sorted(await values(nodes[1], "orders")) == sorted(bodies)
        counts = await nodes[1].delivery.counts(topic)
        assert counts.duplicates > 0, "some were sent twice"
        assert (await nodes[1].delivery.counts(dlq)).acked == 25
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.parametrize("somebody", [False, True], ids=["nobody", "somebody"])
def test_copies_that_take_longer_than_the_lease_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, somebody: bool
) -> None:
    """What nobody took meanwhile is moved; what a worker took is moved when he gives it back."""
    monkeypatch.setattr(move_runner, "LEASE_MS", 1)
    monkeypatch.setattr(move_runner, "HELD_PAUSE_MS", 10)

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic, dlq = await with_letters(node, [b"a", b"b", b"c"])
            settle = MoveRunner._settle
            taken: list[Receipt] = []
            times = 0

            async def settle_late(runner: MoveRunner, *rest: Any) -> set[Offset]:
                nonlocal times
                times += 1
                if times == 1:
                    await counts_until(node, dlq, lambda counts: counts.ready == 3)
                    if somebody:
                        taken[:] = [one.receipt for one in await node.delivery.receive(dlq)]
                return await settle(runner, *rest)

            monkeypatch.setattr(MoveRunner, "_settle", settle_late)
            await node.engine.moves.start(dlq)
            if somebody:
                await counts_until(node, dlq, lambda counts: counts.acked == 2)
                await node.delivery.settle(dlq, [(taken[0], Verdict.RELEASE, 0, "")])
            move = await ended(node, dlq)
            assert (move.state, move.moved, move.failed) == (MoveState.COMPLETED, 3, 0)
            assert (await node.delivery.counts(dlq)).acked == 3
            assert (await node.delivery.counts(topic)).duplicates == int(somebody)
            assert sorted(await values(node, "orders")) == [b"a", b"b", b"c"]

    asyncio.run(story())


def test_a_queue_that_is_deleted_ends_its_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "UNKNOWN_MS_MAX", 100)
    monkeypatch.setattr(moves, "AGAIN_MS", 10)

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            _, dlq = await with_letters(node, [b"%d" % number for number in range(5)])
            other = await node.engine.topics.create_topic("other", 1, {})
            await node.engine.moves.start(dlq, other, rate=2)
            await counts_until(node, other, lambda counts: counts.ready > 0)
            await node.engine.topics.delete_topic("other")
            move = await ended(node, dlq)
            assert move.state is MoveState.FAILED
            assert "should go to" in move.failure
            assert (await node.delivery.counts(dlq)).leased == 0
            await node.engine.moves.start(dlq, rate=2)
            await node.engine.topics.delete_topic("orders_dlq")
            move = await ended(node, dlq)
            assert move.state is MoveState.FAILED
            assert "deleted" in move.failure

    asyncio.run(story())


def test_dead_messages_that_stayed_are_decided_about_where_they_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            configs = {"queue.deliveries.max": "1"}
            topic = await node.engine.topics.create_topic("orders", 2, configs)
            for reason in ("too heavy", "too light", "too late"):
                await node.delivery.send(topic, [NewMessage(reason.encode()) for _ in range(2)])
                await kill(node, topic, count=2, reason=reason)
            assert (await node.delivery.counts(topic)).dead == 6
            redrive = node.engine.moves.redrive_in_place
            discard = node.engine.moves.discard_in_place
            assert await redrive(topic, filter=MoveFilter(reason="heavy")) == 2
            assert await discard(topic, filter=MoveFilter(body="light")) == 2
            assert await redrive(topic, filter=MoveFilter(topic="bills")) == 0
            counts = await node.delivery.counts(topic)
            assert (counts.ready, counts.dead, counts.purged) == (2, 2, 2)
            now_ms = node.engine.topics.clock.wall_ms()
            assert await discard(topic, filter=MoveFilter(until_ms=1)) == 0
            late = MoveFilter(from_ms=now_ms - 3_600_000, topic="orders", group="queue")
            assert await redrive(topic, filter=late) == 2
            await kill(node, topic, count=4)
            assert await redrive(topic) == 4
            assert (await node.delivery.counts(topic)).ready == 4

    asyncio.run(story())


def test_a_move_outlives_the_node_that_carries_it_out(tmp_path: Path) -> None:
    """Three nodes; any is asked; the one that works on it is stopped; each message arrives once."""

    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        bodies = [b"%d" % number for number in range(60)]
        _, dlq = await with_letters(nodes[2], bodies, partitions=4)
        home = nodes[2].engine.topics.shard_of(dlq.partitions[0])
        worker = nodes[2].engine.topics.leader(home).node
        asked = next(node for number, node in nodes.running.items() if number != worker)
        begun = await asked.engine.moves.start(dlq, rate=60)
        for node in nodes.running.values():
            assert (await node.engine.moves.list(dlq))[0].move_id == begun.move_id
        await counts_until(asked, dlq, lambda counts: counts.acked >= 5)
        await nodes.stop(worker, hand_over=True)
        move = await ended(asked, dlq)
        assert move.state is MoveState.COMPLETED
        assert move.moved <= 60
        topic = asked.engine.topics.topic("orders")
        assert Counter(await values(asked, "orders")) == Counter(bodies)
        assert (await asked.delivery.counts(topic)).ready == 60
        assert (await asked.delivery.counts(dlq)).acked == 60
        await asyncio.gather(*map(nodes.stop, list(nodes.running)))

    asyncio.run(story())


def test_who_is_told_a_place_finds_the_message(tmp_path: Path) -> None:
    """The id of a letter is that of the message that died."""

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic, dlq = await with_letters(node, [b"a", b"b"])
            wanted = MoveFilter(ids=(message_id(topic.topic_id, 0, Offset(1)),))
            await node.engine.moves.start(dlq, filter=wanted)
            await ended(node, dlq)
            assert await values(node, "orders") == [b"b"]

    asyncio.run(story())
