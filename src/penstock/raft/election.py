"""The record of a failover: how a leader was elected, and why it stopped leading.

Each node keeps it for logs, metrics and the dashboard. No decision depends on it.
"""

from collections.abc import Mapping

import msgspec

from penstock.core.types import NO_NODE, NodeId, Term
from penstock.raft.roles import Event

_RESIGNED = {
    Event.HIGHER_TERM: "another node is in a later term",
    Event.QUORUM_LOST: "no majority was heard in time",
    Event.REMOVED: "it is no member any more",
}


class Election(msgspec.Struct, frozen=True, kw_only=True):
    """An election that this node has won."""

    term: Term
    before: NodeId
    """The leader before, as far as this node knew; perhaps itself."""
    handed_over: bool
    votes: tuple[NodeId, ...]
    voters: tuple[NodeId, ...]
    attempts: int
    """How often it asked for votes since it last heard a leader."""
    quiet_ticks: int
    """For how long it had heard none."""

    def describe(self) -> str:
        """`node 1 was not heard any more; votes of 2 3, of 1 2 3`."""
        if len(self.voters) == 1:
            return "it is the only voter"
        if self.handed_over:
            why = f"node {self.before} handed over" if self.before else "it was handed over"
        elif self.before:
            why = f"node {self.before} was not heard any more"
        else:
            why = "no leader"
        text = f"{why}; votes of {_list(self.votes)}, of {_list(self.voters)}"
        return text + (f", at attempt {self.attempts}" if self.attempts > 1 else "")


class ElectionNotes:
    """What is noted while a node follows, stands and leads."""

    def __init__(self) -> None:
        self.won: Election | None = None
        """The last one that this node has won."""
        self.resigned = ""
        """Why it last stopped leading."""
        self.quiet_ticks = 0
        """For how many ticks no leader was heard; 0 for one that leads."""
        self._before = NO_NODE
        self._attempts = 0

    def hear(self, leader: NodeId) -> None:
        """A leader was heard."""
        self._before = leader
        self.quiet_ticks = self._attempts = 0

    def ask(self) -> None:
        """Votes are asked for."""
        self._attempts += 1

    def win(
        self,
        term: Term,
        *,
        me: NodeId,
        votes: Mapping[NodeId, bool],
        voters: tuple[NodeId, ...],
        handed_over: bool,
    ) -> None:
        """This node leads."""
        self.won = Election(
            term=term,
            before=self._before,
            handed_over=handed_over,
            votes=tuple(sorted(node for node, granted in votes.items() if granted)),
            voters=voters,
            attempts=self._attempts,
            quiet_ticks=self.quiet_ticks,
        )
        self.hear(me)

    def resign(self, event: Event) -> None:
        """This node no longer leads."""
        self.resigned = _RESIGNED.get(event, event.value)


def _list(nodes: tuple[NodeId, ...]) -> str:
    return " ".join(map(str, nodes)) or "none"
