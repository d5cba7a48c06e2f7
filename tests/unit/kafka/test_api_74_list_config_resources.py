"""ListConfigResources: topics, brokers and groups."""

from tests.unit.kafka.asking import Asker

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


def test_what_has_configurations(ask: Asker) -> None:
    ask.create_topic("resource")

    def listed(*kinds: int) -> list[tuple[int, str]]:
        answer = ask(74, 1, {"resource_types": list(kinds)})
        assert answer.error_code == 0
        return [(row.resource_type, row.resource_name) for row in answer.config_resources]

    topics = [(TOPIC, name) for name in sorted(ask.broker.node.engine.topics.catalog.topics)]
    assert listed(GROUP) == []
    ask.configure_group("configured", {"share.delivery.count.limit": "3"})
    assert listed(GROUP) == [(GROUP, "configured")]
    assert listed() == [*topics, (BROKER, "1"), (GROUP, "configured")]
    assert listed(BROKER) == [(BROKER, "1")]
    assert listed(TOPIC, TOPIC) == topics
    assert listed(CLIENT_METRICS) == []
    assert ask(74, 0, {}).config_resources == ()


def test_types_that_nobody_knows(ask: Asker) -> None:
    answer = ask(74, 1, {"resource_types": [3]})
    assert (answer.error_code, answer.config_resources) == (35, ())
