"""DeleteRecords: the oldest messages go, and only what is there can."""

from tests.unit.kafka.asking import Asker


def trim(
    ask: Asker, version: int, topic: str, offsets: dict[int, int]
) -> dict[int, tuple[int, int]]:
    """Low watermark and error code by partition."""
    rows = [{"partition_index": index, "offset": offset} for index, offset in offsets.items()]
    fields = {"topics": [{"name": topic, "partitions": rows}], "timeout": 1_000}
    (answer,) = ask(21, version, fields).topics
    assert answer.name == topic
    return {row.partition_index: (row.low_watermark, row.error_code) for row in answer.partitions}


def test_what_is_before_an_offset_goes(ask: Asker) -> None:
    ask.create_topic("trimmed", 3)
    for index in range(3):
        ask.produce("trimmed", index, count=10)
    assert trim(ask, 0, "trimmed", {0: 4, 1: -1}) == {0: (4, 0), 1: (10, 0)}
    assert trim(ask, 2, "trimmed", {0: 2, 2: 0}) == {0: (4, 0), 2: (0, 0)}
    engine = ask.broker.node.engine
    assert engine.topics.bounds(engine.topics.topic("trimmed"), 0).log_start == 4


def test_what_is_not_there_cannot_go(ask: Asker) -> None:
    ask.create_topic("short")
    ask.produce("short", count=3)
    assert trim(ask, 2, "short", {0: 4}) == {0: (-1, 1)}
    assert trim(ask, 2, "short", {0: -2}) == {0: (-1, 1)}
    assert trim(ask, 2, "short", {1: 0, -1: 0}) == {1: (-1, 3), -1: (-1, 3)}
    assert trim(ask, 2, "missing", {0: 0}) == {0: (-1, 3)}
    assert trim(ask, 2, "short", {0: 3}) == {0: (3, 0)}


def test_a_compacted_topic_keeps_its_keys(ask: Asker) -> None:
    ask.create_topic("latest", configs={"cleanup.policy": "compact"})
    assert trim(ask, 2, "latest", {0: -1}) == {0: (-1, 44)}
    ask.create_topic("both", configs={"cleanup.policy": "compact,delete"})
    assert trim(ask, 2, "both", {0: -1}) == {0: (0, 0)}
