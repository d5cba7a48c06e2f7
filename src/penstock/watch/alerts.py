"""The life of an alert: found, pending, announced, over.

A rule finds that something exceeds a number; that may be over in a moment. So each level of each
alert is watched for itself:

    not found ──found──▶ pending ──for `hold`──▶ firing ──not found for `clear`──▶ resolved
                           │                        ▲
                           └──not found──▶ gone     └── found again before `clear` is over

An alert fires at the worst of its levels that does. A change is recorded and announced once: it
fires, its level goes up or down, it is resolved.

What could not be looked at stays as it was: a queue whose leader is just being elected has not
recovered. What has been deleted is resolved.
"""

from collections import deque
from collections.abc import Iterable
from operator import attrgetter

import msgspec

from penstock.core.alert_levels import Level
from penstock.core.limits import ALERTS_MAX, ALERTS_RESOLVED_MAX
from penstock.watch.alert import Alert, AlertState, Subject
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that a rule found, with its severity."""

    rule: str
    subject: Subject
    level: Level
    value: float
    threshold: float
    """The threshold of that level."""
    message: str

    @property
    def key(self) -> str:
        return f"{self.rule}:{self.subject.key}"


class _Spell:
    """One level of one alert: the time since which it holds, and the time when it last held."""

    __slots__ = ("fires", "last_ms", "since_ms")

    def __init__(self) -> None:
        self.since_ms: int | None = None
        self.last_ms = 0
        self.fires = False

    def note(self, *, found: bool, now_ms: int, hold_ms: int, clear_ms: int) -> None:
        if found:
            if self.since_ms is None:
                self.since_ms = now_ms
            self.last_ms = now_ms
            self.fires = self.fires or now_ms - self.since_ms >= hold_ms
        else:
            self.since_ms = None
            self.fires = self.fires and now_ms - self.last_ms < clear_ms

    @property
    def is_quiet(self) -> bool:
        return self.since_ms is None and not self.fires


class _Life:
    """An alert that is not over, level by level."""

    __slots__ = ("alert", "spells")

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.spells = {level: _Spell() for level in Level}

    @property
    def firing(self) -> Level | None:
        """The worst level that fires."""
        return max(
            (level for level, spell in self.spells.items() if spell.fires),
            key=attrgetter("rank"),
            default=None,
        )

    @property
    def is_over(self) -> bool:
        return all(spell.is_quiet for spell in self.spells.values())


class Alerts:
    """All alerts of the cluster, as this node sees them."""

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self._lives: dict[str, _Life] = {}
        self._resolved: deque[Alert] = deque(maxlen=ALERTS_RESOLVED_MAX)

    @property
    def settings(self) -> AlertSettings:
        """The settings of all rules."""
        return self._settings

    def active(self) -> tuple[Alert, ...]:
        """The alerts that fire, the worst and the oldest first, then the pending ones."""
        return tuple(sorted((life.alert for life in self._lives.values()), key=_order))

    def firing(self) -> tuple[Alert, ...]:
        """Return the alerts that fire."""
        return tuple(one for one in self.active() if one.state is AlertState.FIRING)

    def resolved(self) -> tuple[Alert, ...]:
        """The alerts that are over, the latest first."""
        return tuple(reversed(self._resolved))

    def note(
        self,
        findings: Iterable[Finding],
        *,
        now_ms: int,
        wall_ms: int,
        unknown: frozenset[str] = frozenset(),
        blind: bool = False,
    ) -> list[Alert]:
        """Take in what the rules found just now; returns what changed. `unknown` are the keys of
        what could not be looked at; `blind`: what is missing may be there all the same."""
        seen: set[str] = set()
        changes: list[Alert] = []
        for finding in findings:
            key = finding.key
            seen.add(key)
            life = self._lives.get(key)
            if life is None:
                if len(self._lives) >= ALERTS_MAX:
                    continue
                life = self._lives[key] = _Life(self._begin(finding, wall_ms))
            changes += self._step(life, finding, now_ms, wall_ms)
        for key, life in list(self._lives.items()):
            if key not in seen and key not in unknown and not blind:
                changes += self._step(life, None, now_ms, wall_ms)
        return changes

    def adopt(self, alert: Alert, now_ms: int) -> bool:
        """Let an alert fire that another node announces, until findings of this node resolve it;
        False if it fires here already, or cannot."""
        life = self._lives.get(alert.key)
        if life is None:
            if len(self._lives) >= ALERTS_MAX or alert.rule not in RULES:
                return False
            life = self._lives[alert.key] = _Life(alert)
        elif life.firing is not None:
            return False
        life.alert = alert
        for level, spell in life.spells.items():
            if level.rank <= alert.level.rank:
                spell.fires = True
                spell.last_ms = now_ms
        return True

    def _begin(self, finding: Finding, wall_ms: int) -> Alert:
        rule = RULES[finding.rule]
        base = self._settings.runbooks
        return Alert(
            key=finding.key,
            rule=rule.name,
            title=rule.title,
            level=finding.level,
            state=AlertState.PENDING,
            subject=finding.subject,
            value=finding.value,
            threshold=finding.threshold,
            unit=rule.unit.value,
            message=finding.message,
            advice=rule.advice,
            runbook=f"{base.rstrip('/')}/{rule.page}" if base else rule.runbook,
            since_ms=wall_ms,
        )

    def _step(self, life: _Life, finding: Finding | None, now_ms: int, wall_ms: int) -> list[Alert]:
        level = None if finding is None else finding.level
        hold_ms = self._settings.hold_ms if RULES[life.alert.rule].waits else 0
        for each, spell in life.spells.items():
            spell.note(
                found=level is not None and level.rank >= each.rank,
                now_ms=now_ms,
                hold_ms=hold_ms,
                clear_ms=self._settings.clear_ms,
            )
        before = life.alert
        life.alert = after = _told(before, finding, life.firing, wall_ms)
        if life.is_over:
            del self._lives[before.key]
            if before.state is not AlertState.FIRING:
                return []  # It was pending and was never announced.
            gone = msgspec.structs.replace(
                after, state=AlertState.RESOLVED, level=before.level, resolved_ms=wall_ms
            )
            self._resolved.append(gone)
            return [gone]
        changed = after.state is not before.state or (
            after.state is AlertState.FIRING and after.level is not before.level
        )
        return [after] if changed else []


def _told(alert: Alert, finding: Finding | None, firing: Level | None, wall_ms: int) -> Alert:
    """The alert with its current values."""
    changes: dict[str, object] = {}
    if finding is not None:
        changes |= {
            "value": finding.value,
            "message": finding.message,
            "threshold": finding.threshold,
        }
    if firing is not None:
        if alert.state is not AlertState.FIRING:
            changes |= {"state": AlertState.FIRING, "fired_ms": wall_ms}
        elif firing is not alert.level:
            changes["raised_ms"] = wall_ms
        changes["level"] = firing
    elif finding is not None:
        changes["level"] = finding.level
    return msgspec.structs.replace(alert, **changes)


def _order(alert: Alert) -> tuple[bool, int, int, str]:
    return (
        alert.state is not AlertState.FIRING, -alert.level.rank, alert.since_ms, alert.key
    )  # fmt: skip
