"""ListGroups: what this broker coordinates, by state and type."""

from tests.unit.kafka.asking import Asker


def names(ask: Asker, version: int, **fields: object) -> list[str]:
    answer = ask(16, version, fields)
    assert answer.error_code == 0
    return [group.group_id for group in answer.groups if group.group_id.startswith("listed-")]


def test_groups_are_listed_by_state_and_type(ask: Asker) -> None:
    ask.create_topic("listed-topic")
    ask.commit("listed-empty", "listed-topic", {0: 0})
    ask.join("listed-stable", "listed-topic")
    everyone = ["listed-empty", "listed-stable"]
    assert names(ask, 0) == everyone
    assert names(ask, 5, states_filter=[], types_filter=[]) == everyone
    assert names(ask, 4, states_filter=["Stable"]) == ["listed-stable"]
    assert names(ask, 4, states_filter=["empty", "STABLE"]) == everyone
    assert names(ask, 4, states_filter=["Sleeping"]) == []
    assert names(ask, 5, states_filter=[], types_filter=["Classic"]) == everyone
    assert names(ask, 5, states_filter=[], types_filter=["share"]) == []
    row = next(group for group in ask(16, 5, {}).groups if group.group_id == "listed-stable")
    assert (row.protocol_type, row.group_state, row.group_type) == ("consumer", "Stable", "classic")
