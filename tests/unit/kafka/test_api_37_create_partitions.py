"""CreatePartitions: topics grow and never shrink."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker


def grow(
    ask: Asker, name: str, count: int, assignments: object = None, *, validate_only: bool = False
) -> Message:
    row = {"name": name, "count": count, "assignments": assignments}
    fields = {"topics": [row], "timeout": 1_000, "validate_only": validate_only}
    rows: tuple[Message] = ask(37, 3, fields).results
    return rows[0]


def test_a_topic_grows_and_can_be_written_at_once(ask: Asker) -> None:
    ask.create_topic("grows", 2)
    ask.produce("grows", 1)
    row = grow(ask, "grows", 5)
    assert (row.name, row.error_code, row.error_message) == ("grows", 0, None)
    ask.produce("grows", 4)
    engine = ask.broker.node.engine
    assert engine.topics.bounds(engine.topics.topic("grows"), 1).high_watermark == 1


def test_validating_changes_nothing(ask: Asker) -> None:
    ask.create_topic("watched", 2)
    assert grow(ask, "watched", 5, validate_only=True).error_code == 0
    assert len(ask.broker.node.engine.topics.topic("watched").partitions) == 2


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "words"),
    [
        ("three", 3, None, 37, "only added"),
        ("three", 2, None, 37, "only added"),
        ("three", -1, None, 37, "only added"),
        ("none", 2, None, 3, "there is no topic"),
        ("three", 5, [[1]], 39, "2 partitions would be new and 1 are assigned"),
        ("three", 4, [[7]], 39, "there is no broker 7"),
    ],
)
def test_what_cannot_be_is_refused(
    ask: Asker, name: str, count: int, assignments: list[list[int]] | None, code: int, words: str
) -> None:
    if ask.broker.node.engine.topics.catalog.topic("three") is None:
        ask.create_topic("three", 3)
    rows = None if assignments is None else [{"broker_ids": row} for row in assignments]
    row = grow(ask, name, count, rows)
    assert (row.error_code, words in row.error_message) == (code, True)
    assert len(ask.broker.node.engine.topics.topic("three").partitions) == 3


def test_assignments_have_a_row_for_each_new_partition(ask: Asker) -> None:
    ask.create_topic("assigned-more", 1)
    assert grow(ask, "assigned-more", 3, [{"broker_ids": [1]}] * 2).error_code == 0


def test_the_oldest_version_has_rows_too(ask: Asker) -> None:
    ask.create_topic("grows-0", 1)
    rows = [{"name": name, "count": 2, "assignments": None} for name in ("grows-0", "none")]
    fields = {"topics": rows, "timeout": 1_000, "validate_only": False}
    answers = ask(37, 0, fields).results
    assert [(row.name, row.error_code) for row in answers] == [("grows-0", 0), ("none", 3)]
    (row,) = ask(37, 0, {**fields, "topics": rows[:1] * 2}).results
    assert (row.error_code, "more than once" in row.error_message) == (42, True)
