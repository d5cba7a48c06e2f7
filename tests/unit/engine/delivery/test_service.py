"""Queues on real nodes: leases that are committed, messages that are read, requests sent on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import InvalidReceipt, PenstockError, TooManyInFlight
from penstock.core.limits import KIB, MIB
from penstock.core.memory_budget import ANSWERS, MemoryBudget, MemoryDraw
from penstock.core.message import Message, NewMessage
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, LATEST, NodeId, Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery import service as queueing
from penstock.engine.delivery.acquisition import AcquireLimits
from penstock.engine.delivery.forwarded_requests import ForwardedReceive, QueueCall
from penstock.engine.delivery.requests import Delivery, ImmediateReceive, Receipt
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.replica.batcher import Answer, Promise
from penstock.machines.machine import Reply, Request
from tests.idle_connection import IdleConnection
from tests.unit.engine.nodes import Nodes, until

CONFIGS = {"queue.delete.acked": "true", "queue.message.headers": "true"}
Story = Callable[[Nodes, DeliveryService, Topic], Awaitable[None]]


def on_one_node(path: Path, story: Story, configs: dict[str, str] | None = None) -> None:
    """Play a story with a queue on a cluster of one."""

    async def play() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("orders", 1, CONFIGS | (configs or {}))
        await until(lambda: bool(engine.topics.catalog.secrets))
        await story(nodes, engine.delivery, topic)
        await nodes.stop()

    asyncio.run(play())


def texts(deliveries: list[Delivery]) -> list[bytes | None]:
    return [one.message.value for one in deliveries]


def numbered(count: int, *headers: tuple[str, bytes]) -> list[NewMessage]:
    return [NewMessage(b"%d" % number, headers=headers) for number in range(count)]


def acks(deliveries: list[Delivery]) -> list[tuple[Receipt, Verdict, int, str]]:
    return [(one.receipt, Verdict.ACK, -1, "") for one in deliveries]


def test_a_message_is_sent_leased_and_acked(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        sent = await queues.send(topic, numbered(3))
        assert [one.offset for one in sent] == [0, 1, 2]
        got = await queues.receive(topic, messages_max=10)
        assert texts(got) == [b"0", b"1", b"2"]
        assert [one.deliveries for one in got] == [1, 1, 1]
        assert await queues.receive(topic, messages_max=10) == []
        assert await queues.settle(topic, acks(got)) == [Outcome.DONE] * 3
        assert await queues.settle(topic, acks(got)) == [Outcome.GONE] * 3
        counts = await queues.counts(topic)
        assert (counts.sent, counts.acked, counts.ready, counts.leased) == (3, 3, 0, 0)

    on_one_node(tmp_path, story)


def test_receipts_signed_here_are_known_for_a_while_and_read_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        places = [Receipt(topic.partitions[0], "group", Offset(n), 1) for n in range(100)]
        signed = list(map(queues.sign, places))
        assert list(map(queues.read_receipt, signed)) == places
        checked: list[str] = []
        monkeypatch.setattr(queueing, "read_receipt", lambda text, _key: checked.append(text))
        for text in signed:
            queues.read_receipt(text)
        assert checked == signed[: len(checked)]
        assert 100 - 2 * 8 <= len(checked) < 100 - 8

    monkeypatch.setattr(queueing, "SIGNED_REMEMBERED", 8)
    on_one_node(tmp_path, story)


def test_several_who_receive_together_are_dealt_what_there_is(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        wanted = [
            ImmediateReceive(count, None, f"me (sqs, 127.0.0.1:{count})") for count in (2, 1, 3)
        ]
        assert not queues.can_receive_now(topic, 0)
        await queues.send(topic, numbered(4))
        assert queues.can_receive_now(topic, 0)
        first, second, third = await queues.receive_together(topic, 0, wanted)
        assert list(map(texts, (first, second, third))) == [[b"0", b"1"], [b"2"], [b"3"]]
        assert len({one.receipt.epoch for one in (*first, *second, *third)}) == 1
        assert not queues.can_receive_now(topic, 0), "nothing is left"
        queues.give_back(one.receipt.leased for one in (*first, *third))
        await until(lambda: queues.can_receive_now(topic, 0))
        again = await queues.receive(topic, messages_max=10)
        assert texts(again) == [b"0", b"1", b"3"]
        assert [one.deliveries for one in again] == [1, 1, 1]

    on_one_node(tmp_path, story)


def large(count: int) -> list[NewMessage]:
    return [NewMessage(bytes(64 * KIB)) for _ in range(count)]


def test_a_receive_acquires_nothing_that_there_is_no_memory_for(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        memory = MemoryBudget(8 * MIB)
        others = memory.open("kafka", "host-1", IdleConnection())
        others.take(ANSWERS, memory.bytes_max)
        draw = MemoryDraw(memory.open("sqs", "host-2", IdleConnection()))
        await queues.send(topic, large(1))
        assert await queues.receive(topic, draw=draw) == []
        wanted = ImmediateReceive(1, None, "me", draw.account)
        assert await queues.receive_together(topic, 0, [wanted]) == [[]]
        waiting = asyncio.create_task(queues.receive(topic, wait_ms=60_000, draw=draw))
        await until(lambda: memory.statistics().waiting == 1)
        assert (await queues.counts(topic)).leased == 0
        others.give_back(ANSWERS, memory.bytes_max)
        (got,) = await waiting
        assert got.deliveries == 1
        assert (memory.held, draw.held) == (64 * KIB, 64 * KIB)
        draw.close()
        assert memory.held == 0

    on_one_node(tmp_path, story)


def test_a_receive_hands_out_what_there_is_memory_for(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        memory = MemoryBudget(8 * MIB)
        others = memory.open("kafka", "host-1", IdleConnection())
        others.take(ANSWERS, memory.ordinary_max - 200 * KIB)
        draw = MemoryDraw(memory.open("sqs", "host-2", IdleConnection()))
        await queues.send(topic, large(10))
        got = await queues.receive(topic, messages_max=10, draw=draw)
        assert len(got) == 4, "the last one begins within the room"
        assert draw.held == 4 * 64 * KIB
        draw.close()
        others.close()
        await until(lambda: queues.can_receive_now(topic, 0))
        rest = await queues.receive(topic, messages_max=10, draw=draw)
        assert [one.deliveries for one in rest] == [1] * 6, "what was given back was not delivered"

    on_one_node(tmp_path, story)


def test_a_large_lease_is_read_as_far_as_it_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, [NewMessage(bytes(KIB)) for _ in range(200)])
        read: list[int] = []
        acquisitions = queues._leader._acquisitions
        plain = acquisitions.read

        def counted(
            topic: Topic, index: int, ranges: Iterable[tuple[Offset, Offset]]
        ) -> list[Message]:
            found = plain(topic, index, ranges)
            read.append(len(found))
            return found

        monkeypatch.setattr(acquisitions, "read", counted)
        account = MemoryBudget().open("peer", "node 2", IdleConnection())
        asked = ForwardedReceive(
            topic.topic_id, 0, "queue", 200, None, 0, "node 2", bytes_max=10 * KIB
        )
        got = await queues.serve(QueueCall(asked), account)
        assert isinstance(got, list)
        assert [one.message.offset for one in got] == list(range(11))
        assert sum(read) == 64
        assert account.held == 0
        rest = await queues.receive(topic, messages_max=200, wait_ms=60_000)
        assert [one.message.offset for one in rest] == list(range(11, 200))

    on_one_node(tmp_path, story)


@pytest.mark.parametrize("others", [0, 1])
def test_receives_begin_with_each_partition_in_turn(tmp_path: Path, others: int) -> None:
    """Of n partitions a message that is the first in its own waits for n - 1 receives at most,
    whatever is received from other queues."""

    async def story(nodes: Nodes, queues: DeliveryService, _topic: Topic) -> None:
        other = await nodes[1].engine.topics.create_topic("other", 4, CONFIGS)
        topic = await nodes[1].engine.topics.create_topic("four", 4, CONFIGS)
        for index in range(4):
            await queues.send(topic, numbered(3), index=index)
        found = []
        for _ in range(12):
            (got,) = await queues.receive(topic)
            found.append(got.receipt.partition)
            for _ in range(others):
                await queues.receive(other)
        assert all(set(found[at : at + 4]) == set(topic.partitions) for at in (0, 4, 8))

    on_one_node(tmp_path, story)


def test_one_stale_receipt_does_not_spoil_the_others(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(3))
        got = await queues.receive(topic, messages_max=3)
        release = [(got[1].receipt, Verdict.RELEASE, 0, "")]
        assert await queues.settle(topic, release) == [Outcome.DONE]
        outcomes = await queues.settle(topic, acks(got))
        assert outcomes == [Outcome.DONE, Outcome.STALE, Outcome.DONE]
        again = await queues.receive(topic, messages_max=3)
        assert texts(again) == [b"1"]
        assert again[0].deliveries == 2

    on_one_node(tmp_path, story)


def test_who_waits_gets_a_message_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        workers = [asyncio.create_task(queues.receive(topic, wait_ms=60_000)) for _ in range(3)]
        await queues.open(topic, "queue")
        for _ in range(10):
            await asyncio.sleep(0)
        for number in range(3):
            await queues.send(topic, [NewMessage(b"%d" % number)])
        got = [text for one in await asyncio.gather(*workers) for text in texts(one)]
        assert sorted(text or b"" for text in got) == [b"0", b"1", b"2"]

    on_one_node(tmp_path, story)


def test_an_id_that_was_seen_is_a_duplicate(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        message = NewMessage(b"x", headers=((delivery_headers.DEDUP_ID, b"1"),))
        first = await queues.send(topic, [message])
        second = await queues.send(topic, [message, NewMessage(b"y"), message])
        assert [(one.offset, one.duplicate) for one in first] == [(0, False)]
        assert [(one.offset, one.duplicate) for one in second] == [(0, True), (1, False), (0, True)]
        # At the same time, neither knows of the other: the log decides.
        other = NewMessage(b"z", headers=((delivery_headers.DEDUP_ID, b"2"),))
        both = await asyncio.gather(queues.send(topic, [other]), queues.send(topic, [other]))
        assert both[0][0].offset == both[1][0].offset
        assert [one[0].duplicate for one in both] == [False, True]
        assert texts(await queues.receive(topic, messages_max=10)) == [b"x", b"y", b"z"]

    on_one_node(tmp_path, story, {"queue.deduplication": "id"})


def test_who_does_not_wait_is_told_that_too_many_are_leased(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(3))
        got = await queues.receive(topic, messages_max=10)
        assert len(got) == 2
        with pytest.raises(TooManyInFlight):
            await queues.receive(topic)
        assert await queues.receive(topic, wait_ms=1) == []
        await queues.settle(topic, acks(got))
        assert texts(await queues.receive(topic)) == [b"2"]
        assert await queues.receive(topic) == []

    on_one_node(tmp_path, story, {"queue.in.flight.max": "2"})


def test_looking_touches_nothing(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(2))
        await queues.send(topic, numbered(1, (delivery_headers.DELAY, b"1000000")))
        got = await queues.receive(topic)
        await queues.settle(topic, [(got[0].receipt, Verdict.REJECT, -1, "torn")])
        before = await queues.counts(topic)
        seen = await queues.browse(topic)
        assert [(one.message.offset, one.state, one.reason) for one in seen] == [
            (0, "dead", "torn"),
            (1, "ready", ""),
            (2, "delayed", ""),
        ]
        assert await queues.counts(topic) == before
        only = await queues.browse(topic, states=frozenset({"delayed"}))
        assert [one.message.offset for one in only] == [2]
        assert [one.message.offset for one in await queues.browse(topic, start=1)] == [1, 2]

    on_one_node(tmp_path, story)


def test_what_is_dead_or_scheduled_can_be_called_back_or_off(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(1))
        await queues.send(topic, numbered(2, (delivery_headers.DELAY, b"1000000")))
        got = await queues.receive(topic)
        await queues.settle(topic, [(got[0].receipt, Verdict.REJECT, -1, "torn")])
        assert await queues.requeue_dead(topic) == 1
        again = await queues.receive(topic)
        assert [(one.message.offset, one.deliveries) for one in again] == [(0, 1)]
        assert await queues.cancel(topic, [(0, Offset(1)), (0, Offset(0))]) == 1
        assert await queues.purge(topic) == 2
        counts = await queues.counts(topic)
        assert (counts.purged, counts.ready, counts.delayed) == (3, 0, 0)

    on_one_node(tmp_path, story)


def test_a_work_group_of_its_own_sees_everything_again(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(3))
        assert queues.work(topic, 0, "audit") is None
        await queues.open(topic, "later", start=LATEST)
        got = await queues.receive(topic, group="audit", messages_max=10, wait_ms=60_000)
        assert len(got) == 3
        assert await queues.receive(topic, group="later", messages_max=10) == []
        assert len(await queues.receive(topic, messages_max=10)) == 3
        await queues.reset(topic, "later", start=1)
        got = await queues.receive(topic, group="later", messages_max=10, wait_ms=60_000)
        assert texts(got) == [b"1", b"2"]
        await queues.close(topic, "later")
        assert queues.work(topic, 0, "later") is None
        got = await queues.receive(topic, group="later", messages_max=10, wait_ms=60_000)
        assert len(got) == 3, "a group that was closed begins anew"

    on_one_node(tmp_path, story)


def test_leases_survive_a_restart(tmp_path: Path) -> None:
    async def play() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 1, CONFIGS)
        await nodes[1].engine.delivery.send(topic, numbered(2))
        got = await nodes[1].engine.delivery.receive(topic)
        await until(lambda: bool(nodes[1].engine.topics.catalog.secrets))
        text = nodes[1].engine.delivery.sign(got[0].receipt)
        await nodes.stop()
        await nodes.start(1)
        engine = nodes[1].engine
        await until(lambda: engine.topics.topic("orders") == topic)
        await until(lambda: engine.topics.led_shard(topic.partitions[0]) is not None)
        rest = await engine.delivery.receive(topic, messages_max=10)
        assert texts(rest) == [b"1"]
        receipt = engine.delivery.read_receipt(text)
        assert await engine.delivery.settle(topic, acks(got)) == [Outcome.DONE]
        assert receipt == got[0].receipt
        with pytest.raises(InvalidReceipt):
            engine.delivery.read_receipt(text[:-4] + "AAAA")
        await nodes.stop()

    asyncio.run(play())


def test_any_node_can_be_asked(tmp_path: Path) -> None:
    async def play() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 4, CONFIGS)
        catalogs = [nodes[node].engine.topics.catalog for node in (1, 2, 3)]
        await until(lambda: all(one.topic("orders") == topic for one in catalogs))
        for node in (1, 2, 3):
            sent = await nodes[node].engine.delivery.send(topic, numbered(4))
            assert sorted(one.index for one in sent) == [0, 1, 2, 3]
        got: list[Delivery] = []
        for node in (1, 2, 3):
            got += await nodes[node].engine.delivery.receive(topic, messages_max=4)
        assert sorted(text or b"" for text in texts(got)) == [
            b"0", b"0", b"0", b"1", b"1", b"1", b"2", b"2", b"2", b"3", b"3", b"3"
        ]  # fmt: skip
        counts = await nodes[2].engine.delivery.counts(topic)
        assert (counts.sent, counts.leased) == (12, 12)
        assert await nodes[3].engine.delivery.settle(topic, acks(got)) == [Outcome.DONE] * 12
        seen = [await nodes[NodeId(1)].engine.delivery.browse(topic, index=one) for one in range(4)]
        assert seen == [[], [], [], []]
        waiting = asyncio.create_task(nodes[2].engine.delivery.receive(topic, wait_ms=60_000))
        for _ in range(10):
            await asyncio.sleep(0)
        await nodes[3].engine.delivery.send(topic, [NewMessage(b"late")])
        assert texts(await waiting) == [b"late"]
        await nodes.stop()

    asyncio.run(play())


def test_a_group_that_begins_in_the_past_knows_what_its_messages_say(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(1, (delivery_headers.DELAY, b"1000000")))
        await queues.send(topic, numbered(1))
        await queues.send(topic, numbered(1, (delivery_headers.PRIORITY, b"9")))
        await queues.open(topic, "late", start=EARLIEST)
        got = await queues.receive(topic, group="late", messages_max=10, wait_ms=60_000)
        assert [one.message.offset for one in got] == [2, 1]
        assert (await queues.counts(topic, "late")).delayed == 1

    on_one_node(tmp_path, story, {"queue.priority": "strict"})


def test_lines_are_as_they_were_after_a_reset(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        keys = [b"a", b"a", b"b", b"a"]
        await queues.send(topic, [NewMessage(b"%d" % n, key) for n, key in enumerate(keys)])
        got = await queues.receive(topic, messages_max=10)
        assert texts(got) == [b"0", b"1", b"3", b"2"]
        await queues.settle(topic, acks(got))
        await queues.reset(topic, "queue", start=0)
        first = await queues.receive(topic, messages_max=1, wait_ms=60_000)
        second = await queues.receive(topic, messages_max=1)
        assert texts(first + second) == [b"0", b"2"]
        assert await queues.receive(topic, messages_max=1) == []

    on_one_node(tmp_path, story, {"queue.order": "fifo", "queue.delete.acked": "false"})


def test_a_queue_that_becomes_fifo_knows_the_lines_of_what_it_has(tmp_path: Path) -> None:
    async def story(nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        keys = [b"a", b"b", b"a", b"b", b"c"]
        await queues.send(topic, [NewMessage(b"%d" % n, key) for n, key in enumerate(keys)])
        failed, held = await queues.receive(topic, messages_max=2)
        await queues.settle(topic, [(failed.receipt, Verdict.RELEASE, 0, "")])
        topic = await nodes[1].engine.topics.configure_topic("orders", {"queue.order": "fifo"})
        got = await queues.receive(topic, messages_max=10, wait_ms=60_000)
        assert texts(got) == [b"4", b"0", b"2"], "3 waits for 1, which somebody has"
        await queues.settle(topic, acks([held]))
        assert texts(await queues.receive(topic, messages_max=10)) == [b"3"]

    on_one_node(tmp_path, story)


def test_what_was_leased_for_somebody_who_has_gone_goes_back(tmp_path: Path) -> None:
    async def story(_nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(2))
        asking = asyncio.create_task(queues.receive(topic, messages_max=2))
        await asyncio.sleep(0)  # The lease is on its way into the log…
        asking.cancel()  # …and nobody waits for it.
        await asyncio.gather(asking, return_exceptions=True)
        work = queues.work(topic, 0, "queue")
        assert work is not None
        await until(lambda: work.epoch == 1 and not work.leased)
        got = await queues.receive(topic, messages_max=2)
        assert [one.deliveries for one in got] == [1, 1]

    on_one_node(tmp_path, story)


def test_what_was_granted_in_the_moment_of_going_goes_back_too(tmp_path: Path) -> None:
    async def story(nodes: Nodes, queues: DeliveryService, topic: Topic) -> None:
        await queues.send(topic, numbered(3))
        await queues.receive(topic, messages_max=1)
        shard = nodes[1].engine.topics.led_shard(topic.partitions[0])
        submit = shard.submit

        def submit_and_go(request: Request, answer: Answer, promise: Promise) -> bool:
            """Whoever asked is cancelled in the very turn in which the answer comes."""

            def answer_and_go(reply: Reply | PenstockError) -> None:
                answer(reply)
                asking.cancel()

            return submit(request, answer_and_go, promise)

        shard.submit = submit_and_go  # type: ignore[method-assign]
        acquisition = queues.acquisition(topic, "queue", AcquireLimits(2), "")
        asking = asyncio.create_task(acquisition.run())
        await asyncio.wait([asking])
        assert asking.cancelled()
        shard.submit = submit  # type: ignore[method-assign]
        work = queues.work(topic, 0, "queue")
        assert work is not None
        await until(lambda: work.leased == 1)
        again = await queues.receive(topic, messages_max=3)
        assert [one.deliveries for one in again] == [1, 1]

    on_one_node(tmp_path, story)
