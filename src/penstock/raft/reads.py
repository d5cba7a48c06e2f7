"""Linearizable reads without writing to the log (Raft §6.4, "read index").

A read asked of the leader may be answered from its applied state once three things hold:

1. The leader has committed an entry of its own term; before that its commit index may be old.
2. It has recorded its commit index, and a majority has answered a heartbeat round *started after
   the read was asked*: no other node led when the round started.
3. The state has been applied up to the recorded index. The caller waits for that.

Reads gather while a round is under way and the next round serves them all, as group commit does for
writes. A lost round is not repeated: the next heartbeat starts a newer one, and an answer to it
confirms every older round as well.

Rule: an id is used once. A caller who gives up and asks again gets a new id, so an answer meant
for the first attempt can never satisfy the second, whose commit index is newer (etcd #20418). No
clock is consulted: there are no leases."""

from collections import deque

from penstock.core.types import Index
from penstock.raft.messages import ReadReady


class ReadQueue:
    """The reads of one leadership, from the question to the permission to answer."""

    __slots__ = ("_asked", "_waiting", "confirmed")

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._asked: deque[tuple[int, Index, list[int]]] = deque()
        self.confirmed: list[ReadReady] = []

    @property
    def round_wanted(self) -> bool:
        """Reads wait and no round is under way that they could wait behind."""
        return bool(self._waiting) and not self._asked

    @property
    def round_open(self) -> bool:
        return bool(self._asked)

    def add(self, read_id: int) -> None:
        self._waiting.append(read_id)

    def start(self, round_: int, commit: Index) -> None:
        """A heartbeat round starts now: it serves all reads asked before it."""
        if self._waiting:
            self._asked.append((round_, commit, self._waiting))
            self._waiting = []

    def confirm(self, round_: int) -> None:
        """A majority has answered this round or a later one."""
        while self._asked and self._asked[0][0] <= round_:
            _, index, read_ids = self._asked.popleft()
            self.confirmed.extend(ReadReady(read_id, index) for read_id in read_ids)

    def take(self) -> tuple[ReadReady, ...]:
        taken = tuple(self.confirmed)
        self.confirmed.clear()
        return taken

    def __len__(self) -> int:
        return len(self._waiting) + sum(len(read_ids) for _, _, read_ids in self._asked)
