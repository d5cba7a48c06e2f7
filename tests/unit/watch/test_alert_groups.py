"""Many alerts of one kind are one line."""

from penstock.core.alert_levels import Level
from penstock.watch.alert_groups import group_alerts
from tests.unit.web.dashboard.widgets.test_trouble import alert


def test_a_few_alerts_stand_one_by_one() -> None:
    some = [alert(name, Level.CRITICAL, "no_consumers") for name in "abc"]
    found = group_alerts(some)
    assert [one.message for one in found] == [one.message for one in some]
    assert found[0].headline == "No consumers: a"


def test_many_of_one_rule_and_level_are_one_line() -> None:
    many = [alert(f"q{number}", Level.CRITICAL, "no_consumers") for number in range(23)]
    deep = alert("deep", Level.ATTENTION)
    one, other = group_alerts([*many, deep])
    assert one.message == "No consumers: 23 queues, among them q0, q1, q2"
    assert one.headline == "No consumers: 23 queues"
    assert one.alerts == many
    assert other.alerts == [deep]
