"""Messages are counted by batch, and no sum ever falls."""

from pathlib import Path

import pytest

from penstock.core.limits import COUNTED_TOPICS_MAX
from penstock.core.message import NewMessage
from penstock.core.request_times import OTHER
from penstock.engine.topics.topics import Acks
from penstock.engine.topics.traffic import INTERNAL, Flow, FlowReading, Traffic
from tests.batches import build_batch
from tests.kafka_broker import open_broker


def test_each_protocol_and_topic_has_its_own_counts() -> None:
    traffic = Traffic()
    traffic.of("kafka").produced("orders", 10, 1_000)
    traffic.of("kafka").produced("orders", 1, 100)
    traffic.of("kafka").delivered("orders", 5)
    traffic.of("sqs").produced("orders", 2, 50)
    assert traffic.statistics() == {
        "kafka": {"orders": FlowReading(11, 1_100, 5, 2)},
        "sqs": {"orders": FlowReading(2, 50, 0, 1)},
    }


def test_what_a_deleted_topic_had_is_counted_among_the_others() -> None:
    flow = Flow()
    flow.produced("gone", 3, 30)
    flow.produced("there", 1, 10)
    flow.delivered("gone", 2)
    assert flow.read(lambda topic: topic == "there") == {
        "there": FlowReading(1, 10, 0, 1),
        OTHER: FlowReading(3, 30, 2, 1),
    }
    flow.produced("gone", 1, 1)
    assert flow.read(lambda topic: topic == "there")[OTHER] == FlowReading(4, 31, 2, 2)


def test_the_number_of_topics_has_a_bound_and_nothing_is_lost() -> None:
    flow = Flow()
    for number in range(COUNTED_TOPICS_MAX + 100):
        flow.produced(f"topic-{number}", 1, 10)
    found = flow.read(lambda _topic: True)
    assert len(found) == COUNTED_TOPICS_MAX + 1
    assert sum(one.produced for one in found.values()) == COUNTED_TOPICS_MAX + 100
    assert found[OTHER].produced == 100


@pytest.mark.asyncio
async def test_the_engine_counts_batches_and_not_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int, int]] = []
    original = Flow.produced

    def produced(self: Flow, topic: str, messages: int, size: int) -> None:
        calls.append((topic, messages, size))
        original(self, topic, messages, size)

    monkeypatch.setattr(Flow, "produced", produced)
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        topic = await engine.topics.create_topic("orders", 1, {})
        calls.clear()
        batch = build_batch(1_000)
        await engine.topics.produce(topic, 0, batch, Acks.ALL, engine.topics.traffic.of("kafka"))
        assert calls == [("orders", 1_000, len(batch))]
        await engine.delivery.send(topic, [NewMessage(b"one")] * 50, protocol="sqs")
        assert [(name, count) for name, count, _ in calls[1:]] == [("orders", 50)]
        await engine.delivery.send(topic, [NewMessage(b"one")])
        found = engine.topics.traffic.statistics()
        assert found["kafka"]["orders"].produced == 1_000
        assert found["sqs"]["orders"].produced == 50
        assert found[INTERNAL]["orders"].produced == 1


@pytest.mark.asyncio
async def test_what_is_refused_is_not_counted(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        topic = await engine.topics.create_topic("small", 1, {"max.message.bytes": "100"})
        future = engine.topics.produce(
            topic, 0, build_batch(100), Acks.ALL, engine.topics.traffic.of("kafka")
        )
        assert future.exception() is not None
        assert engine.topics.traffic.statistics().get("kafka", {}) == {}


@pytest.mark.asyncio
async def test_a_stretch_says_how_far_it_reaches(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        topic = await engine.topics.create_topic("orders", 1, {})
        for count in (10, 20, 30):
            await engine.topics.produce(topic, 0, build_batch(count), Acks.ALL)
        data, end = engine.topics.read_stretch(
            topic, 0, engine.topics.bounds(topic, 0).log_start, 1 << 20
        )
        assert end == 60
        assert len(data) == engine.topics.partition_bytes(topic, 0)
        _, end = engine.topics.read_stretch(topic, 0, engine.topics.bounds(topic, 0).log_start, 1)
        assert end == 10, "one batch, whatever room there is"
        _, end = engine.topics.read_stretch(
            topic, 0, engine.topics.bounds(topic, 0).high_watermark, 1 << 20
        )
        assert end == 60
