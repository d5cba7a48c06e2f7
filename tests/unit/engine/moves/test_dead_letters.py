"""Dead letters on real nodes: nothing is lost, nothing is there twice, one bad one stops nobody."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import OutcomeUnknown, Unavailable
from penstock.core.message import NewMessage
from penstock.core.message_id import message_id
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset
from penstock.engine.delivery.requests import Sent
from penstock.engine.moves.dead_letters import dead_letter_configs
from tests.unit.engine.letters import DEAD_LETTERS, counts_until, kill, letters, one_node, values
from tests.unit.engine.nodes import Nodes, until

pytestmark = pytest.mark.slow


def test_a_dead_message_is_moved(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 2, DEAD_LETTERS)
            now_ms = node.engine.topics.clock.wall_ms()
            headers = (
                ("trace", b"t"),
                (delivery_headers.DEDUP_ID, b"d"),
                (delivery_headers.DELAY, b"1"),
            )
            [sent] = await node.delivery.send(
                topic, [NewMessage(b"value", b"key", headers, now_ms)]
            )
            await kill(node, topic, count=1, reason="no such customer")
            counts = await counts_until(node, topic, lambda counts: counts.moved == 1)
            assert (counts.sent, counts.dead, counts.acked) == (1, 0, 0)
            [letter] = await letters(node)
            assert (letter.key, letter.value, letter.timestamp_ms) == (b"key", b"value", now_ms)
            said = dict(letter.headers)
            place = (topic.topic_id, sent.index, sent.offset)
            assert said[delivery_headers.MESSAGE_ID] == message_id(*place).encode()
            assert said[delivery_headers.DEAD_TOPIC] == b"orders"
            assert said[delivery_headers.DEAD_PARTITION] == str(sent.index).encode()
            assert said[delivery_headers.DEAD_REASON] == b"no such customer"
            assert said[delivery_headers.DEAD_DELIVERIES] == b"1"
            assert said[delivery_headers.SENT_MS] == str(now_ms).encode()
            assert said["trace"] == b"t"
            assert delivery_headers.DEDUP_ID not in said
            assert any("made orders_dlq" in line for line in nodes.lines)

    asyncio.run(story())


def test_what_was_sent_and_not_answered_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is durable and the answer is lost; so is the answer to the burial."""

    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            send, remove_dead = node.delivery.send, node.delivery.remove_dead
            lost = {"send": 2, "bury": 1}

            async def send_unheard(
                target: Topic, messages: Sequence[NewMessage], *, index: int | None = None
            ) -> list[Sent]:
                sent = await send(target, messages, index=index)
                if target.name == "orders_dlq" and lost["send"]:
                    lost["send"] -= 1
                    raise OutcomeUnknown("the answer got lost")
                return sent

            async def bury_unheard(
                target: Topic, index: int, offsets: Sequence[Offset], *rest: Any, **more: Any
            ) -> int:
                count = await remove_dead(target, index, offsets, *rest, **more)
                if lost["bury"]:
                    lost["bury"] -= 1
                    raise OutcomeUnknown("the answer got lost")
                return count

            await send(topic, [NewMessage(b"%d" % number) for number in range(5)])
            monkeypatch.setattr(node.delivery, "send", send_unheard)
            monkeypatch.setattr(node.delivery, "remove_dead", bury_unheard)
            await kill(node, topic, count=5)
            counts = await counts_until(node, topic, lambda counts: counts.moved == 5)
            assert counts.dead == 0
            assert await values(node) == [b"0", b"1", b"2", b"3", b"4"]
            dlq = await node.delivery.counts(node.engine.topics.topic("orders_dlq"))
            assert (dlq.ready, dlq.duplicates) == (5, 10), "each was sent three times"

    asyncio.run(story())


def test_who_dies_between_sending_and_burying_leaves_one_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        dlq = await nodes[1].engine.topics.create_topic("orders_dlq", 1, {})
        topic = await nodes[1].engine.topics.create_topic("orders", 1, DEAD_LETTERS)

        async def bury_never(*_: Any, **__: Any) -> int:
            raise Unavailable("not now")

        monkeypatch.setattr(nodes[1].delivery, "remove_dead", bury_never)
        await nodes[1].delivery.send(topic, [NewMessage(b"only")])
        await kill(nodes[1], topic, count=1)
        await counts_until(nodes[1], dlq, lambda counts: counts.ready == 1)
        assert (await nodes[1].delivery.counts(topic)).dead == 1
        await nodes.stop()
        await nodes.start()
        counts = await counts_until(nodes[1], topic, lambda counts: counts.moved == 1)
        assert counts.dead == 0
        assert await values(nodes[1]) == [b"only"]
        assert (await nodes[1].delivery.counts(dlq)).duplicates >= 1
        await nodes.stop()

    asyncio.run(story())


def test_one_that_cannot_be_moved_stays_and_stops_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            await node.engine.topics.create_topic("orders_dlq", 1, {"max.message.bytes": "2000"})
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            bodies = [b"a", b"b" * 3_000, b"c"]
            await node.delivery.send(topic, list(map(NewMessage, bodies)))
            await kill(node, topic, count=3)
            await counts_until(node, topic, lambda counts: counts.moved == 2)
            assert await values(node) == [b"a", b"c"]
            await node.delivery.send(topic, [NewMessage(b"d")])
            await kill(node, topic, count=1)
            counts = await counts_until(node, topic, lambda counts: counts.moved == 3)
            assert counts.dead == 1, "the large one is still where it died"
            assert sum("at offset 1 cannot be moved" in line for line in nodes.lines) == 1
            await node.engine.topics.configure_topic("orders_dlq", {"max.message.bytes": "10000"})
            await counts_until(node, topic, lambda counts: counts.moved == 4)
            assert await values(node) == [b"a", b"c", b"d", bodies[1]]

    asyncio.run(story())


def test_a_full_dead_letter_queue_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            dlq = await node.engine.topics.create_topic("orders_dlq", 1, {"queue.length.max": "1"})
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            await node.delivery.send(dlq, [NewMessage(b"in the way")])
            await node.delivery.send(topic, [NewMessage(b"one")])
            await kill(node, topic, count=1)
            await until(lambda: any("stay there" in line for line in nodes.lines))
            assert (await node.delivery.counts(topic)).dead == 1
            await node.delivery.purge(dlq)
            await counts_until(node, topic, lambda counts: counts.moved == 1)
            assert await values(node) == [b"one"]

    asyncio.run(story())


def test_a_message_that_is_tried_anew_and_dies_again_is_another_letter(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 1, DEAD_LETTERS)
            await node.delivery.send(topic, [NewMessage(b"one")])
            for deaths in (1, 2):
                await kill(node, topic, count=1)
                await counts_until(node, topic, lambda counts: counts.moved == 1)
                assert await values(node) == [b"one"] * deaths
                await node.delivery.reset(topic, "queue", start=0)

    asyncio.run(story())


def test_a_line_stays_in_order_among_the_dead(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            configs = DEAD_LETTERS | {"queue.order": "fifo"}
            topic = await node.engine.topics.create_topic("orders", 1, configs)
            bodies = [b"%d" % number for number in range(250)]
            await node.delivery.send(topic, [NewMessage(body, b"g") for body in bodies])
            await kill(node, topic, count=250)
            await counts_until(node, topic, lambda counts: counts.moved == 250)
            assert await values(node) == bodies
            assert node.engine.topics.topic("orders_dlq").settings.queue.fifo

    asyncio.run(story())


def test_a_queue_that_keeps_for_ever_is_followed_by_one_that_does() -> None:
    topic = Topic("a", NO_TOPIC_ID, (), {"retention.ms": "-1"}, 0)
    assert dead_letter_configs(topic)["retention.ms"] == "-1"
    topic = Topic("a", NO_TOPIC_ID, (), {"retention.ms": "60000"}, 0)
    assert dead_letter_configs(topic)["retention.ms"] == str(14 * 24 * 60 * 60 * 1000)
