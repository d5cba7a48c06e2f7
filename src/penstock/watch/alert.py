"""An alert: what is wrong with which thing, how badly, and since when."""

from enum import Enum
from urllib.parse import quote

import msgspec

from penstock.core.alert_levels import Level


class AlertState(Enum):
    PENDING = "pending"
    """The condition holds, but not for long enough yet."""
    FIRING = "firing"
    RESOLVED = "resolved"
    """The condition held and does no longer."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of an alert: a queue, a group in a topic, or a node."""

    kind: str
    """`queue`, `group` or `node`."""
    queue: str = ""
    """For a queue, and a work group of it in `group`."""
    group: str = ""
    topic: str = ""
    """For a consumer group: where it is behind."""
    node: int = 0

    @property
    def key(self) -> str:
        """A stable identifier of the subject."""
        match self.kind:
            case "node":
                return f"node/{self.node}"
            case "group":
                return f"group/{self.group}/{self.topic}"
            case _:
                return f"queue/{self.queue}/{self.group}"

    @property
    def text(self) -> str:
        """In a word or three, for people."""
        match self.kind:
            case "node":
                return f"node {self.node}"
            case "group":
                return f"group {self.group} in {self.topic}" if self.topic else self.group
            case _:
                return self.queue

    @property
    def path(self) -> str:
        """The path of the subject's page."""
        match self.kind:
            case "node":
                return "/cluster"
            case "group":
                return f"/groups/{quote(self.group, safe='')}"
            case _:
                return f"/queues/{quote(self.queue, safe='')}"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert in its current state."""

    key: str
    """An identifier of the rule and the subject that is the same on every node and does not
    change."""
    rule: str
    title: str
    level: Level
    state: AlertState
    subject: Subject
    value: float
    threshold: float
    unit: str
    """messages, share (0 to 1) or ms."""
    message: str
    """A sentence: what is wrong, and how much of it."""
    advice: str
    """The first thing to do."""
    runbook: str
    """The address of the runbook."""
    since_ms: int
    """The wall time when it began."""
    fired_ms: int | None = None
    resolved_ms: int | None = None
    raised_ms: int | None = None
    """The wall time when its level last changed while it fired."""
    silence: str = ""
    """In lists: the id of the acknowledgement or silence that covers it."""

    @property
    def sentence(self) -> str:
        """For a log: the level, or that it is over, and what is wrong."""
        word = "resolved" if self.state is AlertState.RESOLVED else self.level.value
        return f"{word}: {self.message} [{self.key}]"
