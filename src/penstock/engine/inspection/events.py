"""The events of each node: the last lines are kept, and any node can return those of all nodes.

A line is what the node says in its log: who leads, which links are lost, what is repaired. The
newest five hundred are kept in memory, which is enough to see what happened when something did;
what was before is in the log.
"""

from collections import deque
from collections.abc import Callable, Iterable
from types import NoneType

import msgspec

from penstock.core.clock import Clock
from penstock.core.limits import EVENT_CHARACTERS_MAX, EVENTS_MAX
from penstock.core.types import NodeId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls

_KINDS = (
    (
        "leadership",
        ("leads in term", "no longer leads", "keeps its leadership", "is handed over", "election"),
    ),
    ("trouble", ("halts", "damage", "cannot", "could not", "is lost", "failed", "refuses")),
    (
        "link",
        ("linked with", "lost the link", "no link with", "closes the connection", "ends a link"),
    ),
    ("repair", ("repaired", "snapshot")),
    ("placement", ("moved away", "is placed", "left the cluster", "voter", "learner", "member")),
)
"""A line is of the first kind of which it has one of these words."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event: one line of text."""

    at_ms: int
    """Wall time of the node that says it."""
    node: NodeId
    number: int
    """Counts up on each node; after a restart it begins again."""
    kind: str
    """leadership, trouble, link, repair, placement, alert or other."""
    line: str


EVENTS = RemoteCall("events", NoneType, list[Event])


class Events:
    """The lines of this node, and a way to ask for the others'."""

    def __init__(self, node: NodeId, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self.calls: RemoteCalls | None = None
        """The calls to other nodes, once there are any."""
        self._kept: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._number = 0
        self._listeners: list[Callable[[Event], None]] = []

    def overheard(self, announce: Callable[[str], None]) -> Callable[[str], None]:
        """Says what `announce` says, and notes it."""

        def say(line: str) -> None:
            self.note(line)
            announce(line)

        return say

    def note(self, line: str, kind: str = "") -> None:
        """Record an event."""
        self._number += 1
        event = Event(
            at_ms=self._clock.wall_ms(),
            node=self._node,
            number=self._number,
            kind=kind or kind_of(line),
            line=line[:EVENT_CHARACTERS_MAX],
        )
        self._kept.append(event)
        for listener in list(self._listeners):
            listener(event)

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call back with every line of this node from now on; calling the result ends that."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    def here(self) -> list[Event]:
        """The lines of this node, the oldest first."""
        return list(self._kept)

    async def everywhere(self, limit: int = EVENTS_MAX) -> list[Event]:
        """The newest lines of all nodes that can be reached, the oldest first."""
        if self.calls is None:
            return merge(self.here(), limit)
        answers = await self.calls.ask_all(EVENTS, None)
        return merge((one for reply in answers.replies.values() for one in reply), limit)

    async def events_here(self, _asked: None) -> list[Event]:
        """Return the events of this node to another node."""
        return self.here()


def merge(events: Iterable[Event], limit: int) -> list[Event]:
    """Lines of several nodes in one order: by time, and each node's own order kept."""
    ordered = sorted(events, key=lambda one: (one.at_ms, one.node, one.number))
    return ordered[-limit:] if limit > 0 else []


def kind_of(line: str) -> str:
    """The kind of an event, by its words."""
    for kind, words in _KINDS:
        if any(word in line for word in words):
            return kind
    return "other"
