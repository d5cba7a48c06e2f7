"""Requests and messages are counted by the request, whatever is in it."""

from collections import Counter
from typing import Any

import pytest

from penstock.engine.topics.traffic import Flow, FlowReading
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.test_api_01_fetch import filled, part, request


def traffic(ask: Asker, topic: str) -> FlowReading:
    return ask.broker.node.engine.topics.traffic.statistics()["kafka"][topic]


def test_a_fetch_counts_what_it_hands_out_from_its_offset_on(ask: Asker) -> None:
    filled(ask, "counted", 3)
    assert traffic(ask, "counted").produced == 9
    for offset, messages in ((0, 9), (4, 5), (8, 1), (9, 0)):
        before = traffic(ask, "counted").delivered
        ask(1, 12, request(("counted", [part(0, offset)])))
        assert traffic(ask, "counted").delivered - before == messages
    before = traffic(ask, "counted").delivered
    ask(1, 12, request(("counted", [part(0, 0, partition_max_bytes=1)])))
    assert traffic(ask, "counted").delivered - before == 3, "one batch was handed out"


def test_errors_are_counted_by_api_and_name(ask: Asker) -> None:
    ask(1, 12, request(("nowhere", [part(0, 0)])))
    front_end = ask.broker.listener.front_end()
    assert front_end.protocol == "kafka"
    assert front_end.requests.errors["Fetch", "UNKNOWN_TOPIC_OR_PARTITION"] >= 1
    assert front_end.requests.times["Fetch"].count >= 1
    assert front_end.connections >= 1
    assert front_end.bytes_in > 0 < front_end.bytes_out


@pytest.mark.parametrize("count", [1, 1_000])
def test_a_thousand_messages_cost_no_more_counting_than_one(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    calls: Counter[str] = Counter()

    def counted(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def call(self: Any, *given: Any) -> None:
            calls[f"{kind.__name__}.{name}"] += 1
            original(self, *given)

        monkeypatch.setattr(kind, name, call)

    topic = f"counted-{count}"
    ask.create_topic(topic)
    counted(Flow, "produced")
    counted(Flow, "delivered")
    ask.produce(topic, 0, count)
    ask(1, 12, request((topic, [part(0, 0)])))
    assert calls == {"Flow.produced": 1, "Flow.delivered": 1}
    assert traffic(ask, topic) == FlowReading(count, traffic(ask, topic).produced_bytes, count, 1)
