"""Copies of messages: where they go, how many go at once, and what is refused for good."""

import asyncio
from pathlib import Path

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import BatchTooLarge, UnknownPartition
from penstock.core.message import NewMessage
from penstock.core.murmur2 import murmur2
from penstock.core.types import Offset
from penstock.engine.cluster.node import Node
from penstock.engine.moves.message_copier import SENT_BYTES_MAX, Copy, MessageCopier
from penstock.machines.queue_commands import CopyPlace
from tests.unit.engine.letters import one_node
from tests.unit.engine.nodes import until

pytestmark = pytest.mark.slow


def courier_of(node: Node) -> MessageCopier:
    return MessageCopier(node.topics, node.delivery, node.topics._forwarder.change)


def copy(offset: int, partition: int, key: bytes | None, *, fixed: bool = False) -> Copy:
    headers = ((delivery_headers.ORIGIN, b"%d" % offset),)
    return Copy(Offset(offset), partition, NewMessage(b"v", key, headers), fixed)


def test_copies_go_the_same_way_every_time_and_count_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 3, {})
            copies = [
                copy(0, 0, None),
                copy(1, 4, None),
                copy(2, 0, b"k"),
                copy(3, 2, b"k", fixed=True),
            ]
            for _ in range(2):
                # Whoever comes next knows nothing of the first.
                sent = await courier_of(node).deliver(node.engine.topics.topic("orders"), copies)
                assert (sorted(sent.places), sent.refused) == ([0, 1, 2, 3], {})
            counts = await node.delivery.counts(topic)
            assert (counts.ready, counts.duplicates) == (4, 4)
            keyed = (murmur2(b"k") & 0x7FFFFFFF) % 3
            for index in range(3):
                page = await node.delivery.browse(topic, index=index)
                found = {int(one.message.header(delivery_headers.ORIGIN) or b"") for one in page}
                wanted = {0: 0, 1: 1, 2: keyed, 3: 2}
                assert found == {offset for offset, place in wanted.items() if place == index}
            assert node.engine.topics.topic("orders").settings.queue.queue_rules.delivery_headers

    asyncio.run(story())


def test_what_is_refused_is_told_apart(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic(
                "orders", 1, {"max.message.bytes": "1000"}
            )
            bodies = [b"a", b"b" * 2_000, b"c"]
            copies = [
                Copy(Offset(offset), 0, NewMessage(body)) for offset, body in enumerate(bodies)
            ]
            places, refused = await courier_of(node).deliver(topic, copies)
            assert list(refused) == [1]
            assert isinstance(refused[Offset(1)], BatchTooLarge)
            page = await node.delivery.browse(topic)
            last = {one.message.value: one.message.offset for one in page}
            assert places == {
                0: CopyPlace(topic.topic_id, 0, last.pop(b"a")),
                2: CopyPlace(topic.topic_id, 0, last.pop(b"c")),
            }
            assert not last

    asyncio.run(story())


def test_much_goes_in_several_batches_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic("orders", 1, {})
            bodies = [b"%d" % number * (SENT_BYTES_MAX // 3) for number in range(7)]
            copies = [
                Copy(Offset(offset), 0, NewMessage(body)) for offset, body in enumerate(bodies)
            ]
            assert not (await courier_of(node).deliver(topic, copies)).refused
            page = await node.delivery.browse(topic)
            assert [one.message.value for one in page] == bodies

    asyncio.run(story())


def test_a_queue_that_is_gone_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_node(tmp_path) as nodes:
            node = nodes[1]
            topic = await node.engine.topics.create_topic(
                "orders", 1, {"queue.message.headers": "true"}
            )
            await node.engine.topics.delete_topic("orders")
            shard = node.engine.topics.led_shard(topic.partitions[0])
            await until(lambda: not shard.machine.partitions.holds(topic.partitions[0]))
            with pytest.raises(UnknownPartition):
                await courier_of(node).deliver(topic, [copy(0, 0, None)])

    asyncio.run(story())
