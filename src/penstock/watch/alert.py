"""An alert: what is wrong with which thing, how badly, and since when."""

from enum import Enum
from urllib.parse import quote

import msgspec

from penstock.core.alert_levels import Level


class AlertState(Enum):
    """Where an alert is in its life."""

    PENDING = "pending"
    """It is so, but not for long enough yet."""
    FIRING = "firing"
    RESOLVED = "resolved"
    """It was, and is no longer."""


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What an alert is about: a queue, a group in a topic, or a node."""

    kind: str
    """queue, group or node."""
    queue: str = ""
    """For a queue, and a work group of it in `group`."""
    group: str = ""
    topic: str = ""
    """For a consumer group: where it is behind."""
    node: int = 0

    @property
    def key(self) -> str:
        """The same for the same thing, always."""
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
        """The page about it."""
        match self.kind:
            case "node":
                return "/cluster"
            case "group":
                return f"/groups/{quote(self.group, safe='')}"
            case _:
                return f"/queues/{quote(self.queue, safe='')}"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One alert, as it stands."""

    key: str
    """The same for the same rule and subject, on every node and for ever."""
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
    """What to do first."""
    runbook: str
    """Where to read on."""
    since_ms: int
    """When it began; wall time."""
    fired_ms: int | None = None
    resolved_ms: int | None = None
    raised_ms: int | None = None
    """When its level last went up or down while it fired."""
    silence: str = ""
    """In lists: the id of the acknowledgement or silence that covers it."""

    @property
    def sentence(self) -> str:
        """For a log: the level, or that it is over, and what is wrong."""
        word = "resolved" if self.state is AlertState.RESOLVED else self.level.value
        return f"{word}: {self.message} [{self.key}]"
