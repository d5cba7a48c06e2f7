"""Term and vote: the promise a node must never forget (Raft §5.2).

It is kept in two files, written and synced one after the other before a promise built on them
leaves the node. So a copy that rots, is cut short or is deleted later loses nothing; and a crash
while the first is being written leaves the second with the promise made before, which still
stands, since the new one was never given.

If both are lost what was promised is unknown and cannot be repaired: a leader of an older
term would be believed although this node may have helped to elect a newer one. Such a node is
replaced by one with a new id. The other copies of its log are not in danger.
"""

from collections.abc import Callable

from penstock.core.entries import HardState
from penstock.core.errors import DamagedFile
from penstock.core.types import NodeId, Term
from penstock.storage.disk import Disk
from penstock.storage.slots import SlotFile

VOTE_NAME = "vote"
VOTE_COPY_NAME = "vote.copy"
VOTE_NAMES = (VOTE_NAME, VOTE_COPY_NAME)
_MAGIC = 0x45544F56


class VoteFile:
    """The two files that hold a node's `HardState`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Opens both; one that is missing is made, empty."""
        self._copies = [
            SlotFile.open(disk, path, _MAGIC, create=not disk.exists(path))
            for path in (f"{directory}/{name}" for name in VOTE_NAMES)
        ]

    def load(self) -> HardState | None:
        """Return the vote at the time the files were opened; None if both are lost."""
        return _newest(self._copies)

    def steps(self, hard_state: HardState) -> list[Callable[[], None]]:
        """Two steps, each durable when it returns."""
        first, second = self._copies
        numbers = (hard_state.term, hard_state.vote)

        def write_first() -> None:
            first.generation = second.generation = max(first.generation, second.generation) + 1
            first.write_first(numbers)

        return [write_first, lambda: second.write_first(numbers)]

    def write(self, hard_state: HardState) -> None:
        for step in self.steps(hard_state):
            step()

    def close(self) -> None:
        for copy in self._copies:
            copy.close()


def read_vote(disk: Disk, directory: str) -> HardState | None:
    """Look without touching: what the copies that are there say."""
    paths = [f"{directory}/{name}" for name in VOTE_NAMES]
    copies = [SlotFile.open(disk, path, _MAGIC) for path in paths if disk.exists(path)]
    for copy in copies:
        copy.close()
    return _newest(copies)


def _newest(copies: list[SlotFile]) -> HardState | None:
    found = [(copy.generation, copy.numbers) for copy in copies if copy.numbers is not None]
    if not found:
        return None
    _, (term, vote, *_) = max(found)
    return HardState(term=Term(term), vote=NodeId(vote))


def lost_vote(directory: str, problem: str, *, solo: bool) -> DamagedFile:
    """The error for a node that has lost its vote."""
    way_out = (
        f"Run `penstock log repair {directory}` to go on in a new term"
        if solo
        else "What this node promised is lost: remove it from the cluster and add a new "
        "one, with a new id and an empty directory"
    )
    path = f"{directory}/{VOTE_NAME}"
    return DamagedFile(path=path, position=0, problem=problem, way_out=way_out)
