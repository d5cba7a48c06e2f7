"""DeleteGroups: only groups without members go."""

import pytest

from tests.unit.kafka.asking import Asker


@pytest.mark.parametrize("version", [0, 2])
def test_groups_without_members_go(ask: Asker, version: int) -> None:
    topic, empty, busy = (f"{word}-{version}" for word in ("deletable", "empty", "busy"))
    ask.create_topic(topic)
    ask.commit(empty, topic, {0: 0})
    ask.join(busy, topic)
    rows = ask(42, version, {"groups_names": [empty, busy, "never-was", empty]}).results
    assert [(row.group_id, row.error_code) for row in rows] == [
        (empty, 0),
        (busy, 68),
        ("never-was", 69),
    ]
    assert ask.committed(empty, topic, [0]) == {0: -1}
    (row,) = ask(42, version, {"groups_names": [empty]}).results
    assert row.error_code == 69
