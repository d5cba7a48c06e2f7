"""OffsetForLeaderEpoch: nothing that was read is ever taken back."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker


def end(
    ask: Asker, topic: str, epoch: int, *, version: int = 4, index: int = 0, believed: int = -1
) -> Message:
    row = {"partition": index, "current_leader_epoch": believed, "leader_epoch": epoch}
    (answer,) = ask(23, version, {"topics": [{"topic": topic, "partitions": [row]}]}).topics
    assert answer.topic == topic
    one: Message = answer.partitions[0]
    assert one.partition == index
    return one


def term(ask: Asker, topic: str) -> int:
    engine = ask.broker.node.engine
    return engine.topics.leader(
        engine.topics.shard_of(engine.topics.topic(topic).partitions[0])
    ).term


@pytest.mark.parametrize("version", [2, 4])
def test_an_epoch_ends_at_the_high_watermark(ask: Asker, version: int) -> None:
    name = f"epochs-{version}"
    ask.create_topic(name)
    ask.produce(name, count=7)
    now = term(ask, name)
    for epoch in (now, 0):
        row = end(ask, name, epoch, version=version)
        assert (row.error_code, row.leader_epoch, row.end_offset) == (0, epoch, 7)
    assert end(ask, name, now, believed=now).end_offset == 7


def test_epochs_that_do_not_fit(ask: Asker) -> None:
    ask.create_topic("misfits")
    now = term(ask, "misfits")
    assert end(ask, "misfits", now + 1).error_code == 75
    assert end(ask, "misfits", now, believed=now + 1).error_code == 75
    assert end(ask, "misfits", 0, believed=now - 1).error_code == 74
    row = end(ask, "misfits", -1)
    assert (row.error_code, row.leader_epoch, row.end_offset) == (0, -1, -1)


def test_partitions_that_are_not_there(ask: Asker) -> None:
    ask.create_topic("alone")
    assert end(ask, "alone", 1, index=1).error_code == 3
    assert end(ask, "alone", 1, index=-1).error_code == 3
    row = end(ask, "missing", 1)
    assert (row.error_code, row.leader_epoch, row.end_offset) == (3, -1, -1)
