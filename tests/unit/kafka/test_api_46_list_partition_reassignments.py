"""ListPartitionReassignments: there is never anything to list."""

from tests.unit.kafka.asking import Asker


def test_nothing_is_being_moved(ask: Asker) -> None:
    ask.create_topic("still")
    asked = [{"name": "still", "partition_indexes": [0]}]
    for topics in (None, asked):
        answer = ask(46, 0, {"topics": topics})
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, ())
