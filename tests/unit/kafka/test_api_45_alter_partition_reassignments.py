"""AlterPartitionReassignments: what is so already is granted, the rest explained."""

from tests.unit.kafka.asking import Asker


def test_partitions_stay_where_the_cluster_puts_them(ask: Asker) -> None:
    ask.create_topic("moved")
    wishes: list[tuple[int, list[int] | None]] = [(0, [1]), (0, [2]), (0, []), (0, None), (7, [1])]
    for version in (0, 1):
        for (index, replicas), code in zip(wishes, (0, 39, 39, 85, 3), strict=True):
            row = {"partition_index": index, "replicas": replicas}
            answer = ask(45, version, {"topics": [{"name": "moved", "partitions": [row]}]})
            assert (answer.error_code, answer.error_message) == (0, None)
            (topic,) = answer.responses
            (one,) = topic.partitions
            assert (topic.name, one.partition_index, one.error_code) == ("moved", index, code)
            assert (one.error_message is None) == (code == 0)


def test_topics_that_are_not_there(ask: Asker) -> None:
    row = {"partition_index": 0, "replicas": [1]}
    (topic,) = ask(45, 0, {"topics": [{"name": "unmoved", "partitions": [row]}]}).responses
    assert topic.partitions[0].error_code == 3
