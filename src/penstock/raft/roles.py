"""The roles of a node, and every way from one to another, as one table.

                                    ┌───────────── TIMED_OUT, LOST ──────────────┐
                                    ▼                                            │
    FOLLOWER ── TIMED_OUT ──▶ PRE_CANDIDATE ── WON ──▶ CANDIDATE ── WON ──▶ LEADER
        │                                                  ▲
        └───────────────── HANDED_LEADERSHIP ──────────────┘

and from everywhere back to FOLLOWER: on a higher term, on hearing the leader of this term, on
losing an election; a leader also when it loses touch with its majority or has been removed.

Rule: a change of role that is not in this table is a bug, and `after` says so.
"""

from enum import Enum


class Role(Enum):
    """What a node is to its shard at this moment."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    """Asks whether it would be elected, before it disturbs the others with a new term (§9.6)."""
    CANDIDATE = "candidate"
    LEADER = "leader"


class Event(Enum):
    """What happened that may change a role."""

    TIMED_OUT = "timed out"
    HANDED_LEADERSHIP = "handed leadership"
    """A TimeoutNow arrived: campaign without asking first."""
    WON = "won"
    LOST = "lost"
    HIGHER_TERM = "higher term"
    LEADER_FOUND = "leader found"
    QUORUM_LOST = "quorum lost"
    """A leader has not heard a majority for T ticks (§6.2)."""
    REMOVED = "removed"
    """A membership without this leader is committed (§4.2.2)."""


TRANSITIONS: dict[tuple[Role, Event], Role] = {
    (Role.FOLLOWER, Event.TIMED_OUT): Role.PRE_CANDIDATE,
    (Role.FOLLOWER, Event.HANDED_LEADERSHIP): Role.CANDIDATE,
    (Role.FOLLOWER, Event.HIGHER_TERM): Role.FOLLOWER,
    (Role.FOLLOWER, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, Event.TIMED_OUT): Role.PRE_CANDIDATE,
    (Role.PRE_CANDIDATE, Event.WON): Role.CANDIDATE,
    (Role.PRE_CANDIDATE, Event.LOST): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, Event.HIGHER_TERM): Role.FOLLOWER,
    (Role.PRE_CANDIDATE, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.CANDIDATE, Event.TIMED_OUT): Role.PRE_CANDIDATE,
    (Role.CANDIDATE, Event.WON): Role.LEADER,
    (Role.CANDIDATE, Event.LOST): Role.FOLLOWER,
    (Role.CANDIDATE, Event.HIGHER_TERM): Role.FOLLOWER,
    (Role.CANDIDATE, Event.LEADER_FOUND): Role.FOLLOWER,
    (Role.LEADER, Event.HIGHER_TERM): Role.FOLLOWER,
    (Role.LEADER, Event.QUORUM_LOST): Role.FOLLOWER,
    (Role.LEADER, Event.REMOVED): Role.FOLLOWER,
}


def after(role: Role, event: Event) -> Role:
    """The role that follows; no entry in the table means our own logic is broken."""
    following = TRANSITIONS.get((role, event))
    assert following is not None, f"a {role.value} cannot get '{event.value}'"
    return following
