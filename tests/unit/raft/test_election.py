"""What is told of an election."""

import pytest

from penstock.core.types import NO_NODE, NodeId, Term
from penstock.raft.election import ElectionNotes
from penstock.raft.roles import Event

ME, OTHER, THIRD = NodeId(1), NodeId(2), NodeId(3)
VOTERS = (ME, OTHER, THIRD)


def win(
    notes: ElectionNotes, *, handed_over: bool = False, voters: tuple[NodeId, ...] = VOTERS
) -> str:
    votes = {ME: True, THIRD: True, OTHER: False}
    notes.ask()
    notes.win(Term(7), me=ME, votes=votes, voters=voters, handed_over=handed_over)
    assert notes.won is not None
    return notes.won.describe()


def test_a_first_leader() -> None:
    assert win(ElectionNotes()) == "no leader; votes of 1 3, of 1 2 3"
    assert win(ElectionNotes(), voters=(ME,)) == "it is the only voter"


def test_a_leader_that_fell_silent() -> None:
    notes = ElectionNotes()
    notes.hear(OTHER)
    notes.quiet_ticks = 14
    notes.ask()
    assert win(notes) == "node 2 was not heard any more; votes of 1 3, of 1 2 3, at attempt 2"
    assert notes.won is not None
    assert notes.won.quiet_ticks == 14
    assert notes.quiet_ticks == 0, "it hears itself"


def test_a_leader_that_handed_over() -> None:
    notes = ElectionNotes()
    notes.hear(THIRD)
    assert win(notes, handed_over=True) == "node 3 handed over; votes of 1 3, of 1 2 3"
    assert NO_NODE not in (notes.won.votes if notes.won else ())


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Event.QUORUM_LOST, "no majority was heard in time"),
        (Event.HIGHER_TERM, "another node is in a later term"),
        (Event.REMOVED, "it is no member any more"),
    ],
)
def test_why_a_leader_stops(event: Event, told: str) -> None:
    notes = ElectionNotes()
    notes.resign(event)
    assert notes.resigned == told
