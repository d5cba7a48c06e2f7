"""OffsetDelete: offsets are forgotten unless somebody reads on from them."""

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker


def forget(ask: Asker, group: str, topics: dict[str, list[int]]) -> Message:
    rows = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in topics.items()
    ]
    return ask(47, 0, {"group_id": group, "topics": rows})


def codes(answer: Message) -> dict[tuple[str, int], int]:
    return {
        (topic.name, row.partition_index): row.error_code
        for topic in answer.topics
        for row in topic.partitions
    }


def test_offsets_are_forgotten_one_by_one(ask: Asker) -> None:
    ask.create_topic("forgotten", 3)
    ask.commit("forgetful", "forgotten", {0: 0, 1: 0})
    answer = forget(ask, "forgetful", {"forgotten": [0, 2, 3, -1], "missing": [0]})
    assert answer.error_code == 0
    assert codes(answer) == {
        ("forgotten", 0): 0,
        ("forgotten", 2): 0,
        ("forgotten", 3): 3,
        ("forgotten", -1): 3,
        ("missing", 0): 3,
    }
    assert ask.committed("forgetful", "forgotten", [0, 1]) == {0: -1, 1: 0}


def test_what_a_member_reads_stays(ask: Asker) -> None:
    ask.create_topic("being-read")
    ask.create_topic("not-read")
    ask.commit("reader", "being-read", {0: 0})
    ask.commit("reader", "not-read", {0: 0})
    ask.join("reader", "being-read")
    answer = forget(ask, "reader", {"being-read": [0], "not-read": [0]})
    assert (answer.error_code, codes(answer)) == (0, {("being-read", 0): 86, ("not-read", 0): 0})
    assert ask.committed("reader", "being-read", [0]) == {0: 0}
    assert ask.committed("reader", "not-read", [0]) == {0: -1}


def test_a_group_that_is_not_there_is_said_at_the_top(ask: Asker) -> None:
    ask.create_topic("unread")
    answer = forget(ask, "never-was", {"unread": [0]})
    assert (answer.error_code, answer.topics) == (69, ())
