"""One node under test, with a disk that obeys and peers that are played by hand."""

from typing import TypeVar

from penstock.core.entries import Entry, EntryKind, HardState, Membership
from penstock.core.types import Index, NodeId, Term
from penstock.raft import (
    AnyMessage,
    AppendResponse,
    RaftNode,
    RaftSettings,
    Ready,
    Role,
    VoteResponse,
)
from tests.raft_memory import MemoryLog

M = TypeVar("M")


class Numbers:
    """Randomness from a list; its last number for ever after."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers) or [0]
        self.stops: list[int] = []

    def randrange(self, stop: int, /) -> int:
        self.stops.append(stop)
        number = self._numbers.pop(0) if len(self._numbers) > 1 else self._numbers[0]
        return number % stop


class Rig:
    """Node 1 of a shard; by default everything it wants written is durable at once."""

    def __init__(
        self,
        *,
        voters: tuple[int, ...] = (1, 2, 3),
        learners: tuple[int, ...] = (),
        terms: tuple[int, ...] = (),
        term: int = 0,
        vote: int = 0,
        damaged: bool = False,
        random: Numbers | None = None,
        prompt_commits: bool = False,
        **settings: int,
    ) -> None:
        self.disk = MemoryLog()
        self.disk.hard_state = HardState(Term(max((term, *terms))), NodeId(vote))
        if terms:
            self.disk.append(
                tuple(
                    Entry(Index(index), Term(number), EntryKind.COMMAND, b"x")
                    for index, number in enumerate(terms, start=1)
                )
            )
        self.slow = False
        self.unwritten: list[Ready] = []
        self.sent: list[AnyMessage] = []
        self.applied: list[Entry] = []
        self.readies: list[Ready] = []
        members = Membership(tuple(map(NodeId, voters)), tuple(map(NodeId, learners)))
        self.node = RaftNode(
            RaftSettings(node=NodeId(1), prompt_commits=prompt_commits, **settings),
            log=self.disk,
            hard_state=self.disk.hard_state,
            memberships=[(Index(0), members)],
            random=random or Numbers(),
            damaged=damaged,
        )
        self.pump()

    def pump(self) -> list[AnyMessage]:
        """Do the caller's duties; the messages that went out."""
        before = len(self.sent)
        while (ready := self.node.ready()) is not None:
            self.readies.append(ready)
            self.sent += ready.messages
            self.applied += ready.committed
            if ready.committed:
                self.node.applied(ready.committed[-1].index)
            if ready.must_persist:
                self.unwritten.append(ready)
                if not self.slow:
                    self.persist()
        return self.sent[before:]

    def persist(self) -> list[AnyMessage]:
        before = len(self.sent)
        done, self.unwritten = self.unwritten, []
        for ready in done:
            self.disk.persist(ready)
            self.sent += ready.promises
            self.node.persisted(ready.sequence)
        self.pump()
        return self.sent[before:]

    def step(self, message: AnyMessage) -> list[AnyMessage]:
        self.node.step(message)
        return self.pump()

    def tick(self, count: int = 1) -> list[AnyMessage]:
        before = len(self.sent)
        for _ in range(count):
            self.node.tick()
            self.pump()
        return self.sent[before:]

    def win(self) -> "Rig":
        """Win an election with every peer's vote."""
        self.node.campaign()
        self.pump()
        for pre in (True, False):
            for peer in self.peers():
                term = Term(self.node.term + 1) if pre else self.node.term
                self.step(
                    VoteResponse(source=peer, target=NodeId(1), term=term, pre=pre, granted=True)
                )
        return self

    def lead(self) -> "Rig":
        """Win an election, and have everybody acknowledge the first entry."""
        self.win()
        for peer in self.peers():
            self.acknowledge(peer, self.node.last_index)
        assert self.node.established
        return self

    def acknowledge(self, peer: int, match: int, **fields: int) -> list[AnyMessage]:
        return self.step(
            AppendResponse(
                source=NodeId(peer),
                target=NodeId(1),
                term=self.node.term,
                session=fields.get("session", self.session(peer)),
                match=Index(match),
            )
        )

    def session(self, peer: int) -> int:
        (view,) = [view for view in self.node.progress() if view.node == peer]
        return view.session

    def propose(self, *payloads: bytes) -> Index:
        return self.node.propose([(EntryKind.COMMAND, payload) for payload in payloads])

    def role(self) -> Role:
        """A call, as the type checker believes an attribute not to change behind its back."""
        return self.node.role

    def damaged(self) -> bool:
        return self.node.damaged

    def peers(self) -> list[NodeId]:
        return [node for node in self.node.membership.voters if node != 1]


def only(messages: list[AnyMessage], kind: type[M]) -> list[M]:
    return [message for message in messages if isinstance(message, kind)]
