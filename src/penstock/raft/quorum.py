"""The arithmetic of majorities: what more than half of the voters have reached, or decided.

One function serves three questions. The commit index is the largest index that a majority holds,
the confirmed read round is the largest round that a majority has answered, and a leader is in touch
when the same is true of "heard lately". Learners are not in the sequences handed in here.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from penstock.core.types import NodeId


class Outcome(Enum):
    """How an election stands."""

    OPEN = "open"
    WON = "won"
    LOST = "lost"


def majority(voter_count: int) -> int:
    """The smallest number of voters that is more than half."""
    return voter_count // 2 + 1


def reached(values: Iterable[int]) -> int:
    """The largest value that a majority has reached; 0 without voters."""
    ordered = sorted(values)
    # Ascending: everything from the returned place to the end is at least as large, and that is
    # exactly a majority: n - (n - 1) // 2 == n // 2 + 1.
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def tally(voters: Iterable[NodeId], votes: Mapping[NodeId, bool]) -> Outcome:
    """How an election among `voters` stands; votes of other nodes do not count."""
    granted = refused = count = 0
    for voter in voters:
        count += 1
        vote = votes.get(voter)
        if vote is not None:
            granted += vote
            refused += not vote
    needed = majority(count)
    if granted >= needed:
        return Outcome.WON
    if count - refused < needed:
        return Outcome.LOST
    return Outcome.OPEN


def draw(values: Mapping[NodeId, int]) -> str:
    """A chart of who has reached what, the agreed value marked.

    x>     12  node 1
    xxx>   30  node 3
    xx>    20  node 2  ◀ agreed
    """
    agreed = reached(values.values())
    ranks = {value: rank for rank, value in enumerate(sorted(set(values.values())), start=1)}
    width = len(ranks)
    lines = []
    marked = False
    for node in sorted(values):
        value = values[node]
        bar = "x" * ranks[value] + ">"
        mark = "" if marked or value != agreed else "  ◀ agreed"
        marked = marked or bool(mark)
        lines.append(f"{bar:<{width + 1}} {value:>6}  node {node}{mark}")
    return "\n".join(lines)
