"""The states of a message in a work group: ready, leased, delayed, dead.

    ready      may be received now                       SQS: visible
    leased     received, its lease has not ended         SQS: in flight, not visible
    delayed    its delay or retry delay has not ended    SQS: delayed
    dead       failed for good                           SQS: in the dead-letter queue

Release 0.1 called the first two "visible" and "in flight". Commands, query parameters and
`Queue.peek` still accept the old words. Browse requests and answers between nodes, and between a
native client and a broker, still carry them (`old_state`), because a peer of release 0.1 knows no
others.
"""

from collections.abc import Iterable
from typing import Protocol

READY = "ready"
LEASED = "leased"
DELAYED = "delayed"
DEAD = "dead"

STATES = (READY, LEASED, DELAYED, DEAD)
ALL_STATES = frozenset(STATES)
LIVING_STATES = frozenset({READY, LEASED, DELAYED})
"""The states of a message that is still to be done."""

_OLD = {READY: "visible", LEASED: "in flight"}
_NEW = {"visible": READY, "in flight": LEASED, "in_flight": LEASED, "in-flight": LEASED}


class StateCounts(Protocol):
    """The number of messages of a work group in each state."""

    @property
    def ready(self) -> int: ...
    @property
    def leased(self) -> int: ...
    @property
    def delayed(self) -> int: ...
    @property
    def dead(self) -> int: ...


def lying(counts: StateCounts) -> int:
    """Return the number of messages that a queue holds, in any state. In a dead-letter queue these
    are the dead letters of the queues that use it: all front-ends count them this way."""
    return counts.ready + counts.leased + counts.delayed + counts.dead


def current_state(word: str) -> str:
    """The present name of a state, of which the old one may be given. Other words stay."""
    return _NEW.get(word, word)


def old_state(state: str) -> str:
    """The name that release 0.1 has for a state."""
    return _OLD.get(state, state)


def parse_states(words: Iterable[str]) -> frozenset[str]:
    """States by their present or old names. Raises `ValueError` for any other word."""
    states = frozenset(current_state(word.strip()) for word in words)
    if not states <= ALL_STATES:
        raise ValueError(f"no state {', '.join(sorted(states - ALL_STATES))}")
    return states
