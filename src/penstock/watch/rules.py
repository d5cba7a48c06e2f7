"""The alert rules: what is watched, at which level it alerts, and from which number on.

One table, from which everything else is derived: the conditions the broker watches, the defaults of
its settings, the rules for Prometheus, and the reference pages.

    level       means
    attention   look at it when there is time
    warning     it gets worse unless an operator acts
    critical    messages are not processed, or soon will not be

A threshold must be exceeded: a depth of exactly 10,000 does not alert. Only the processing rate
works the other way round. A share is judged only where enough was counted (`counted_min`): one
failure of one delivery is no rate. How long a condition must hold before its alert fires, and how
long it must be over before the alert ends, are settings. `no_consumers` is a duration itself and
has no hold time.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from penstock.core.alert_levels import Levels


class Unit(Enum):
    """The unit of a rule's thresholds."""

    MESSAGES = "messages"
    SHARE = "share"
    """A share of 0 to 1, shown in percent."""
    DURATION = "ms"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """An alert rule."""

    name: str
    """Also the name of its setting in `[alerts]`, and of its runbook."""
    title: str
    about: str
    """The kind of its subject: `queue`, `group` or `node`."""
    unit: Unit
    levels: Levels
    """The default thresholds."""
    below: bool = False
    """True if it alerts below its thresholds instead of above."""
    target: float | None = None
    """A healthy cluster stays below. It is displayed and never alerts."""
    waits: bool = True
    """The condition must hold for a while before the alert fires."""
    counted_min: int = 0
    """A share of fewer than this many is not judged."""
    meaning: str
    advice: str
    """The first thing an operator should do."""

    @property
    def page(self) -> str:
        """The file name of its runbook."""
        return f"{self.name.replace('_', '-')}.md"

    @property
    def runbook(self) -> str:
        """The path of its runbook in the repository."""
        return f"docs/runbooks/{self.page}"


_TABLE = (
    Rule(
        name="lag",
        title="Consumer lag",
        about="group",
        unit=Unit.MESSAGES,
        levels=Levels(attention=1_000, critical=10_000),
        target=1_000,
        meaning="The consumer group is this many messages behind the end of a topic.",
        advice="Check that its members are alive and keep up; add some, up to one per partition.",
    ),
    Rule(
        name="depth",
        title="Queue depth",
        about="queue",
        unit=Unit.MESSAGES,
        levels=Levels(attention=10_000, warning=50_000),
        target=10_000,
        meaning="The queue has this many ready messages that no consumer has leased.",
        advice="Compare the rates of sent and acked messages; add workers.",
    ),
    Rule(
        name="dead_letters",
        title="Dead letters",
        about="queue",
        unit=Unit.MESSAGES,
        levels=Levels(attention=0, warning=100, critical=1_000),
        target=100,
        meaning="This many messages failed for good and wait for an operator.",
        advice="Read why they died, repair the cause, then redrive them.",
    ),
    Rule(
        name="error_rate",
        title="Error rate",
        about="queue",
        unit=Unit.SHARE,
        levels=Levels(attention=0.01, warning=0.01),
        target=0.001,
        counted_min=20,
        meaning="This share of the deliveries that ended in the last minute failed, of 20 or more.",
        advice="Read the workers' logs, and look for what the failing messages have in common.",
    ),
    Rule(
        name="no_consumers",
        title="No consumers",
        about="queue",
        unit=Unit.DURATION,
        levels=Levels(critical=300_000),
        waits=False,
        meaning="Messages wait, and no consumer has received or held one for this long.",
        advice="Start the workers, or find out why they stopped.",
    ),
    Rule(
        name="disk",
        title="Disk usage",
        about="node",
        unit=Unit.SHARE,
        levels=Levels(warning=0.8),
        target=0.8,
        meaning="This share of the file system that holds the node's data is in use.",
        advice="Make room: shorten retention, delete data that is not needed, or add disk.",
    ),
    Rule(
        name="state",
        title="Shard state",
        about="node",
        unit=Unit.SHARE,
        levels=Levels(warning=0.7, critical=0.95),
        target=0.5,
        meaning="So much of what one kind of a shard's state may take is taken: groups and offsets,"
        " producers, deduplication ids, leased messages, work groups, moves, publications or the"
        " catalog.",
        advice="See which kind it is, remove what is not needed, or raise storage.state_size_max.",
    ),
    Rule(
        name="processing_rate",
        title="Processing rate",
        about="queue",
        unit=Unit.SHARE,
        levels=Levels(attention=0.5),
        below=True,
        meaning="Messages wait, and workers process less than this share of the expected rate.",
        advice="Check whether workers are missing, or whether a dependency of theirs is slow.",
    ),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _TABLE}
"""All rules, by name."""

BACKLOG_SECONDS = 10
"""The processing rate is judged while more messages wait than this many seconds of expected work: a
queue that receives little is not slow."""
