"""DescribeGroups: members, and groups that are not there."""

from tests.groups import subscription
from tests.unit.kafka.asking import Asker


def test_a_group_shows_its_members(ask: Asker) -> None:
    ask.create_topic("described-topic")
    member, _ = ask.join("described", "described-topic")
    for version in (0, 6):
        (row,) = ask(15, version, {"groups": ["described"]}).groups
        assert (row.error_code, row.group_id, row.group_state) == (0, "described", "Stable")
        assert (row.protocol_type, row.protocol_data) == ("consumer", "range")
        (one,) = row.members
        assert (one.member_id, one.client_id, one.client_host) == (member, "test", "/127.0.0.1")
        assert one.group_instance_id is None
        assert one.member_metadata == subscription("described-topic")
        assert one.member_assignment == b"work"
        assert row.authorized_operations == -(1 << 31)


def test_operations_are_told_when_asked(ask: Asker) -> None:
    fields = {"groups": ["described"], "include_authorized_operations": True}
    (row,) = ask(15, 6, fields).groups
    assert row.authorized_operations == (1 << 3) + (1 << 6) + (1 << 8)


def test_a_group_that_is_not_there_is_dead(ask: Asker) -> None:
    (row,) = ask(15, 5, {"groups": ["nobody"]}).groups
    assert (row.error_code, row.group_state, row.members) == (0, "Dead", ())
    (row,) = ask(15, 6, {"groups": ["nobody"]}).groups
    assert (row.error_code, row.group_state) == (69, "Dead")
    assert row.error_message == "there is no group nobody"


def test_a_group_needs_a_name(ask: Asker) -> None:
    nameless, named = ask(15, 6, {"groups": ["", "nobody"]}).groups
    assert (nameless.error_code in (24, 42), named.error_code) == (True, 69)
