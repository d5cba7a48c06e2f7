"""Suggestions for each kind of failure: redrive, wait, or fix something first.

    fix       nearly all of its dead share a trait that hardly any living message has: the messages
              are at fault, or the worker for this kind of message, and would die again
    wait      the latest of them died just now: whatever was broken is still broken
    redrive   none has died for a while: what was broken seems mended

A suggestion carries the SQL predicate that chooses its messages. Nothing is done by suggesting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from penstock.spark.jobs.traits import Pattern

POISON_SHARE: Final = 0.8
POISON_LIFT: Final = 5.0
LIVING_SHARE_MAX: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureKind:
    """Dead letters of one queue with one kind of reason."""

    queue: str
    kind: str
    messages: int
    keys: int
    """About how many different keys."""
    deliveries_mean: float
    first_died: datetime
    last_died: datetime
    example: str
    """The reason of one of them, in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A suggestion for one kind of failure."""

    action: Literal["redrive", "wait", "fix"]
    queue: str
    kind: str
    messages: int
    why: str
    predicate: str


def suggest(
    failure: FailureKind, patterns: Sequence[Pattern], *, now: datetime, quiet: timedelta
) -> Suggestion:
    """`patterns` are those of this kind's dead against the living of its queue."""
    since = now - failure.last_died
    poison = next((one for one in patterns if _is_poison(one)), None)
    if poison is not None:
        action: Literal["redrive", "wait", "fix"] = "fix"
        why = (
            f"{poison.dead_share:.0%} of them have in common: {poison.trait}"
            f" ({poison.living_share:.2%} of the living do)"
        )
    elif since < quiet:
        action, why = "wait", f"the last one died {tell_time(since)} ago"
    else:
        action, why = "redrive", f"the last one died {tell_time(since)} ago, none since"
    return Suggestion(
        action=action,
        queue=failure.queue,
        kind=failure.kind,
        messages=failure.messages,
        why=why,
        predicate=f"queue = {_quoted(failure.queue)} and kind = {_quoted(failure.kind)}",
    )


def tell_time(span: timedelta) -> str:
    """A span of time in its largest unit."""
    seconds = max(0.0, span.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _is_poison(pattern: Pattern) -> bool:
    return (
        pattern.dead_share >= POISON_SHARE
        and pattern.lift >= POISON_LIFT
        and pattern.living_share <= LIVING_SHARE_MAX
    )


def _quoted(text: str) -> str:
    """Quote a text for Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
