"""Which queue somebody should look at first, and why."""

from typing import Any

import pytest

from penstock.core.alert_levels import Level
from penstock.watch.alert import Alert, AlertState, Subject
from penstock.watch.rules import RULES
from penstock.web.dashboard.widgets.trouble import Trouble, by_trouble, troubles
from tests.unit.watch.made import queue


def alert(name: str, level: Level, rule: str = "depth") -> Alert:
    return Alert(
        key=f"{rule}:{name}",
        rule=rule,
        title=RULES[rule].title,
        level=level,
        state=AlertState.FIRING,
        subject=Subject(kind="queue", queue=name),
        value=1,
        threshold=0,
        unit="messages",
        message=f"{name} is deep",
        advice="",
        runbook="",
        since_ms=0,
    )


def test_a_queue_that_is_fine() -> None:
    assert troubles(queue(ready=5, consumers=1)) == []
    assert troubles(queue()) == []


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"dead_letters": 1_200, "ready": 1, "consumers": 1}, Trouble("critical", "1,200 dead")),
        ({"paused": True, "ready": 3}, Trouble("attention", "paused")),
        ({"paused": True}, Trouble("", "paused")),
        ({"dead_letters": 1}, Trouble("attention", "1 dead")),
        ({"dead_letters": 101}, Trouble("warning", "101 dead")),
        ({"ready": 3, "silent_ms": 60_000}, Trouble("attention", "no consumers")),
        ({"ready": 3}, Trouble("attention", "no consumers")),
        ({"complete": False}, Trouble("warning", "partly unknown")),
        ({"dead_letters_of": ("a",), "ready": 3, "dead_letters": 3},
         Trouble("attention", "dead letters")),
    ],
)  # fmt: skip
def test_what_is_wrong(said: dict[str, Any], found: Trouble) -> None:
    assert troubles(queue(**said)) == [found]


def test_workers_may_be_between_two_messages() -> None:
    assert troubles(queue(ready=3, silent_ms=5_000)) == []


def test_one_fact_has_one_badge() -> None:
    idle = queue(ready=3, silent_ms=10**6)
    assert troubles(idle, [alert("jobs", Level.CRITICAL, "no_consumers")]) == [
        Trouble("critical", "no consumers")
    ]
    failed = queue(dead=3, dead_letters=3)
    assert troubles(failed, [alert("jobs", Level.ATTENTION, "dead_letters")]) == [
        Trouble("attention", "3 dead")
    ]


def test_dead_letters_come_first_then_alerts_then_what_waits() -> None:
    readings = [
        queue("fine"),
        queue("stuck", ready=9),
        queue("loud", ready=1, consumers=1),
        queue("few dead", dead_letters=1),
        queue("many dead", dead_letters=9),
        queue("busy", ready=50, consumers=1),
        queue("letters", ready=9, dead_letters=9, dead_letters_of=("many dead",)),
    ]
    rows = by_trouble(readings, {"loud": [alert("loud", Level.CRITICAL)]})
    assert [row.reading.queue for row in rows] == [
        "many dead", "few dead", "loud", "letters", "stuck", "busy", "fine",
    ]  # fmt: skip
    assert [row.tone for row in rows[:4]] == ["attention", "attention", "critical", "attention"]
    assert rows[-1].tone == ""
