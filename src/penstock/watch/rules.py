"""The rules: what somebody is told about, at which level, and from which number on.

One table, from which everything else is made: what the broker watches for, what its settings are by
default, the rules for Prometheus, and the pages about them.

    level       means
    attention   look at it when there is time
    warning     it gets worse if nobody does anything
    critical    messages are not processed, or soon will not be

A number counts when it is exceeded: a depth of exactly 10,000 alerts nobody. Only the processing
rate works the other way round. What must be so for a while before somebody is told, and for how
long it must be over, are settings; how long nobody asked is a duration itself and does not wait.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from penstock.core.alert_levels import Levels


class Unit(Enum):
    """What a rule counts."""

    MESSAGES = "messages"
    SHARE = "share"
    """0 to 1; people read percent."""
    DURATION = "ms"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    """Also the name of its setting in `[alerts]`, and of its runbook."""
    title: str
    about: str
    """queue, group or node."""
    unit: Unit
    levels: Levels
    """By default."""
    below: bool = False
    """It alerts below its numbers, not above."""
    target: float | None = None
    """A healthy cluster stays below; shown, and nobody is told."""
    waits: bool = True
    """It must be so for a while."""
    meaning: str
    advice: str
    """What to do first."""

    @property
    def page(self) -> str:
        """The file of its runbook."""
        return f"{self.name.replace('_', '-')}.md"

    @property
    def runbook(self) -> str:
        """Its place below the project."""
        return f"docs/runbooks/{self.page}"


_TABLE = (
    Rule(
        name="lag",
        title="Consumer lag",
        about="group",
        unit=Unit.MESSAGES,
        levels=Levels(attention=1_000, critical=10_000),
        target=1_000,
        meaning="A consumer group is so many messages behind the end of a topic.",
        advice="See whether its members are alive and keep up; add some, up to the partitions.",
    ),
    Rule(
        name="depth",
        title="Queue depth",
        about="queue",
        unit=Unit.MESSAGES,
        levels=Levels(attention=10_000, warning=50_000),
        target=10_000,
        meaning="So many messages of a queue are ready and nobody has them.",
        advice="Compare the rates of messages that come and that are done; add workers.",
    ),
    Rule(
        name="dead_letters",
        title="Dead letters",
        about="queue",
        unit=Unit.MESSAGES,
        levels=Levels(critical=1_000),
        target=100,
        meaning="So many messages failed for good and wait for somebody to look at them.",
        advice="Read why they died, repair the cause, then redrive them.",
    ),
    Rule(
        name="error_rate",
        title="Error rate",
        about="queue",
        unit=Unit.SHARE,
        levels=Levels(attention=0.01, warning=0.01),
        target=0.001,
        meaning="Such a share of the deliveries that ended in the last minute failed.",
        advice="Look at the workers' logs, and at what the failing messages have in common.",
    ),
    Rule(
        name="no_consumers",
        title="No consumers",
        about="queue",
        unit=Unit.DURATION,
        levels=Levels(critical=300_000),
        waits=False,
        meaning="Messages wait, and nobody has asked for any, or held one, for so long.",
        advice="Start the workers, or find out why they stopped.",
    ),
    Rule(
        name="disk",
        title="Disk usage",
        about="node",
        unit=Unit.SHARE,
        levels=Levels(warning=0.8),
        target=0.8,
        meaning="So much of the file system is taken that holds a node's data.",
        advice="Make room: shorten retention, delete what nobody needs, or add disk.",
    ),
    Rule(
        name="processing_rate",
        title="Processing rate",
        about="queue",
        unit=Unit.SHARE,
        levels=Levels(attention=0.5),
        below=True,
        meaning="Though messages wait, workers get done less than this share of what is expected.",
        advice="See whether workers are missing, or what they depend on has become slow.",
    ),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _TABLE}
"""Every rule, by name."""

BACKLOG_SECONDS = 10
"""The processing rate counts while more messages wait than these seconds of expected work: a queue
to which little comes is not slow."""
PROCESSING_TARGET_MS = 1_000
"""A healthy queue's processing time at the 99th percentile; shown, and nobody is told."""
