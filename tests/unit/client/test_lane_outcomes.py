"""What a sender makes of answers that contradict each other: never a second copy of a message."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.client.channel import Buffer, Late
from penstock.client.client import Client
from penstock.client.settings import ClientSettings
from penstock.core.errors import OutcomeUnknown, OutOfOrderSequence, PenstockError
from penstock.core.records import read_header
from penstock.wire.requests import (
    Answer,
    Append,
    Appended,
    AskCluster,
    AskProducer,
    AskTopic,
    ClusterInfo,
    NodeInfo,
    ProducerInfo,
    Request,
    TopicInfo,
)


class ScriptedBroker:
    """A channel to a broker that answers batches by a script, one line for each."""

    def __init__(self, *script: PenstockError | None) -> None:
        self.on_late: Late = lambda _node, _request, _answer: None
        self._script = list(script)
        self.batches: list[tuple[int, int]] = []
        """Producer and sequence number of every batch that came."""

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """There is one."""

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        match request:
            case AskCluster():
                return ClusterInfo("c", 1, 1, "1", (NodeInfo(1, "h:1", True),)), b""
            case AskTopic(name=name):
                return TopicInfo(
                    name, b"t" * 16, (1,), True, False, True, True, 1 << 20, {}, 0
                ), b""
            case AskProducer():
                return ProducerInfo(len(self.batches) + 1), b""
            case Append():
                header = read_header(payload)
                self.batches.append((header.producer_id, header.base_sequence))
                problem = self._script.pop(0)
                if problem is not None:
                    raise problem
                return Appended(7, -1), b""
        raise AssertionError(f"{request} is not in the script")

    async def close(self) -> None:
        """Nothing is open."""


def send(broker: ScriptedBroker, count: int = 1) -> list[int]:
    async def scene() -> list[int]:
        async def opened() -> ScriptedBroker:
            return broker

        async with Client(opened, url="scripted", settings=ClientSettings(seed=1)) as client:
            return [(await client.send("orders", b"x")).offset for _ in range(count)]

    return asyncio.run(scene())


def test_a_lost_answer_is_asked_for_again_under_the_same_number() -> None:
    broker = ScriptedBroker(OutcomeUnknown("lost"), None)
    assert send(broker) == [7]
    assert broker.batches == [(1, 0), (1, 0)]


def test_numbers_go_on() -> None:
    broker = ScriptedBroker(None, None)
    assert send(broker, 2) == [7, 7]
    assert broker.batches == [(1, 0), (1, 1)]


def test_a_broker_that_forgot_the_producer_gets_a_new_one() -> None:
    broker = ScriptedBroker(OutOfOrderSequence("who are you?"), None)
    assert send(broker) == [7]
    assert broker.batches == [(1, 0), (2, 0)]


def test_what_may_be_stored_is_not_sent_under_another_number() -> None:
    broker = ScriptedBroker(OutcomeUnknown("lost"), OutOfOrderSequence("too late"))
    with pytest.raises(OutcomeUnknown):
        send(broker)
    assert broker.batches == [(1, 0), (1, 0)]
