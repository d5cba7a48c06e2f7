"""Alerts in their lives, by a clock that is moved."""

import msgspec

from penstock.core.alert_levels import Level
from penstock.core.limits import ALERTS_MAX, ALERTS_RESOLVED_MAX
from penstock.watch.alert import Alert, AlertState, Subject
from penstock.watch.alerts import Alerts, Finding
from penstock.watch.settings import AlertSettings
from tests.unit.watch.made import WALL_MS

PENDING, FIRING, RESOLVED = AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVED
ATTENTION, WARNING, CRITICAL = Level.ATTENTION, Level.WARNING, Level.CRITICAL


def finding(level: Level, *, rule: str = "depth", queue: str = "jobs") -> Finding:
    return Finding(
        rule=rule,
        subject=Subject(kind="queue", queue=queue, group="queue"),
        level=level,
        value=20_000,
        threshold=10_000,
        message=f"{queue} is {level.value}",
    )


class Told:
    """Alerts, and a clock for them; notes what is told."""

    def __init__(self, **settings: object) -> None:
        self.alerts = Alerts(AlertSettings(**settings))  # type: ignore[arg-type]
        self.now_ms = 0

    def after(self, seconds: float, *findings: Finding, **said: object) -> list[str]:
        """Let time pass, then look."""
        self.now_ms += int(1_000 * seconds)
        changes = self.alerts.note(
            findings,
            now_ms=self.now_ms,
            wall_ms=WALL_MS + self.now_ms,
            **said,  # type: ignore[arg-type]
        )
        return [f"{one.state.value} {one.level.value}" for one in changes]

    @property
    def one(self) -> Alert:
        (alert,) = self.alerts.active()
        return alert


def test_it_is_pending_for_ten_seconds_and_then_fires() -> None:
    told = Told()
    assert told.after(0, finding(ATTENTION)) == []
    assert told.one.state is PENDING
    assert told.after(9.999, finding(ATTENTION)) == []
    assert told.after(0.001, finding(ATTENTION)) == ["firing attention"]
    assert told.one.since_ms == WALL_MS
    assert told.one.fired_ms == WALL_MS + 10_000
    assert told.after(60, finding(ATTENTION)) == []


def test_what_another_node_announces_fires_here_until_it_is_over() -> None:
    leader, follower = Told(), Told()
    leader.after(0, finding(WARNING))
    leader.after(10, finding(WARNING))
    assert follower.alerts.adopt(leader.one, follower.now_ms)
    assert follower.one == leader.one
    assert not follower.alerts.adopt(leader.one, follower.now_ms)
    assert follower.after(5, unknown=frozenset({leader.one.key})) == []
    assert follower.after(10, finding(WARNING)) == []
    assert follower.after(29.999) == []
    assert follower.after(0.001) == ["resolved warning"]


def test_what_is_pending_here_and_fires_elsewhere_is_announced_when_it_is_over() -> None:
    leader, follower = Told(), Told()
    leader.after(0, finding(ATTENTION))
    follower.after(0, finding(ATTENTION))
    leader.after(10, finding(ATTENTION))
    assert follower.alerts.adopt(leader.one, follower.now_ms)
    assert follower.one.state is FIRING
    assert follower.after(30) == ["resolved attention"]


def test_alerts_of_others_are_bounded_and_must_follow_a_known_rule() -> None:
    leader, follower = Told(hold_ms=0), Told(hold_ms=0)
    leader.after(0, finding(ATTENTION))
    stranger = msgspec.structs.replace(leader.one, key="unheard:of", rule="unheard")
    assert not follower.alerts.adopt(stranger, 0)
    follower.after(0, *(finding(ATTENTION, queue=str(one)) for one in range(ALERTS_MAX)))
    assert not follower.alerts.adopt(leader.one, 0)


def test_what_was_pending_and_is_over_was_never_there() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    assert told.after(5) == []
    assert told.alerts.active() == ()
    assert told.alerts.resolved() == ()
    told.after(5, finding(ATTENTION))
    assert told.one.state is PENDING


def test_it_is_resolved_when_it_is_over_for_long_enough() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    told.after(10, finding(ATTENTION))
    assert told.after(29.999) == []
    assert told.one.state is FIRING
    assert told.after(0.001) == ["resolved attention"]
    (gone,) = told.alerts.resolved()
    assert gone.state is RESOLVED
    assert gone.resolved_ms == WALL_MS + 40_000
    assert told.alerts.active() == ()


def test_what_comes_and_goes_is_told_once() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    told.after(10, finding(ATTENTION))
    for _ in range(20):
        assert told.after(5) == []
        assert told.after(5, finding(ATTENTION)) == []


def test_its_level_goes_up_and_down() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    assert told.after(10, finding(ATTENTION)) == ["firing attention"]
    assert told.after(2, finding(CRITICAL)) == []
    assert told.after(10, finding(CRITICAL)) == ["firing critical"]
    assert told.one.raised_ms == WALL_MS + 22_000
    assert told.after(10, finding(ATTENTION)) == []
    assert told.after(30, finding(ATTENTION)) == ["firing attention"]
    assert told.after(40) == ["resolved attention"]


def test_a_number_that_wavers_between_levels_fires_all_the_same() -> None:
    told = Told()
    said = []
    for number in range(8):
        said += told.after(2, finding(WARNING if number % 2 else ATTENTION))
    assert said == ["firing attention"]


def test_what_could_not_be_looked_at_stays_as_it_is() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    told.after(10, finding(ATTENTION))
    key = told.one.key
    assert told.after(100, unknown=frozenset({key})) == []
    assert told.after(100, blind=True) == []
    assert told.after(1, finding(ATTENTION)) == []
    assert told.one.state is FIRING
    assert told.after(31) == ["resolved attention"]


def test_silence_does_not_wait() -> None:
    told = Told()
    assert told.after(0, finding(CRITICAL, rule="no_consumers")) == ["firing critical"]


def test_waits_are_settings() -> None:
    told = Told(hold_ms=0, clear_ms=0)
    assert told.after(0, finding(WARNING)) == ["firing warning"]
    assert told.after(0.001) == ["resolved warning"]


def test_the_worst_comes_first() -> None:
    told = Told(hold_ms=0)
    told.after(0, finding(ATTENTION, queue="a"))
    told.after(
        1,
        finding(ATTENTION, queue="a"),
        finding(CRITICAL, queue="b"),
        finding(ATTENTION, queue="c"),
    )
    assert [one.subject.queue for one in told.alerts.firing()] == ["b", "a", "c"]


def test_an_alert_says_what_to_do_and_where_to_read_on() -> None:
    told = Told()
    told.after(0, finding(ATTENTION))
    assert told.one.runbook == "docs/runbooks/depth.md"
    assert told.one.advice
    elsewhere = Told(runbooks="https://wiki.example/penstock/")
    elsewhere.after(0, finding(ATTENTION))
    assert elsewhere.one.runbook == "https://wiki.example/penstock/depth.md"


def test_there_are_only_so_many() -> None:
    told = Told(hold_ms=0)
    told.after(0, *(finding(ATTENTION, queue=f"q-{one}") for one in range(ALERTS_MAX + 5)))
    assert len(told.alerts.active()) == ALERTS_MAX
    told.after(60)
    assert len(told.alerts.resolved()) == ALERTS_RESOLVED_MAX


def test_names_are_quoted_in_addresses() -> None:
    assert Subject(kind="queue", queue="a/b?c").path == "/queues/a%2Fb%3Fc"
    assert Subject(kind="group", group="x/y", topic="t").path == "/groups/x%2Fy"
