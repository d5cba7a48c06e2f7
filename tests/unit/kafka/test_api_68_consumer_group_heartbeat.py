"""ConsumerGroupHeartbeat: a protocol that is not served is refused, not passed over in silence."""

import pytest

from tests.unit.kafka.asking import Asker


@pytest.mark.parametrize("version", [0, 1])
def test_the_new_group_protocol_is_refused_in_words(ask: Asker, version: int) -> None:
    asked = {
        "group_id": "modern", "member_id": "m", "member_epoch": 0, "topic_partitions": [],
        "subscribed_topic_names": ["orders"],
    }  # fmt: skip
    answer = ask(68, version, asked)
    assert (answer.error_code, answer.assignment) == (35, None)
    assert "group.protocol=classic" in answer.error_message
    versions = {row.api_key: (row.min_version, row.max_version) for row in ask(18, 3, {}).api_keys}
    assert versions[68] == (0, 1)
