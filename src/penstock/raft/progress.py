"""What a leader knows of one follower, and how much it may send to it.

    PROBE      where the logs part is not known: one append at a time, the next after an answer or
               after a heartbeat's answer (the first may have been lost)
    REPLICATE  they agree: appends go ahead of the answers, up to a bound in messages and bytes
    SNAPSHOT   what it needs is gone here, or it is damaged: a snapshot is offered at the pace of
               heartbeats until it answers with an index from which the log can go on

                  acknowledged                              next < first index
        PROBE ───────────────────▶ REPLICATE      PROBE, REPLICATE ──────────▶ SNAPSHOT
              ◀───────────────────                        ◀── acknowledged near enough ──
                    rejected

`match` is durable there and equal to our log; it never falls within a session. `next` is what we
send next; match < next always. Nothing here times out: a lost message shows when a heartbeat is
answered and the follower still lacks something. That answer `nudge`s: one more message goes out,
paused or not.

A session is made anew whenever the leader starts to track a node: at the start of its term, when
a node is added (again), when it turns out to be damaged. Answers of another session are not for
us. Terms alone do not tell them apart: a node can be removed and added again within one term."""

from collections import deque
from enum import Enum

import msgspec

from penstock.core.types import NO_INDEX, Index, NodeId


class ProgressState(Enum):
    """How the leader sends to a follower."""

    PROBE = "probe"
    REPLICATE = "replicate"
    SNAPSHOT = "snapshot"


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """One follower as its leader sees it, for people and for the shell's decisions."""

    node: NodeId
    state: ProgressState
    match: Index
    next: Index
    session: int
    silence: int
    """Ticks since it was last heard."""
    inflight_messages: int
    inflight_bytes: int
    damaged: bool

    def describe(self) -> str:
        """`node 2 replicate match 7 next 9 session 3 in flight 1`."""
        text = f"node {self.node} {self.state.value} match {self.match} next {self.next}"
        text += f" session {self.session}"
        if self.inflight_messages:
            text += f" in flight {self.inflight_messages}"
        if self.silence:
            text += f" silent for {self.silence}"
        return text + (" damaged" * self.damaged)


class Progress:
    """The leader's book on one follower in one session."""

    __slots__ = (
        "_inflight",
        "_inflight_bytes",
        "_inflight_bytes_max",
        "_inflight_messages_max",
        "damaged",
        "departed_index",
        "life",
        "match",
        "next",
        "nudged",
        "probing",
        "repair_until",
        "round",
        "session",
        "silence",
        "state",
    )

    def __init__(
        self,
        *,
        session: int,
        next_: Index,
        inflight_messages_max: int,
        inflight_bytes_max: int,
    ) -> None:
        self._inflight_messages_max = inflight_messages_max
        self._inflight_bytes_max = inflight_bytes_max
        self._inflight: deque[tuple[Index, int]] = deque()
        self._inflight_bytes = 0
        self.state = ProgressState.PROBE
        self.session = session
        self.match: Index = NO_INDEX
        self.next: Index = next_
        self.probing = False
        """In PROBE: an append is out and not answered."""
        self.nudged = False
        # A follower gets the benefit of the doubt for the first T ticks.
        self.silence = 0
        self.round = 0
        """The newest heartbeat round it has answered."""
        self.damaged = False
        self.life = 0
        self.repair_until: Index = NO_INDEX
        self.departed_index: Index = NO_INDEX
        """Not 0: the entry that removed it. It is served until it knows."""

    @property
    def counted_match(self) -> Index:
        """What it counts for when we commit: a damaged node promises nothing."""
        return NO_INDEX if self.damaged else self.match

    @property
    def counted_round(self) -> int:
        return 0 if self.damaged else self.round

    @property
    def paused(self) -> bool:
        """Nothing may be sent before an answer, or a nudge."""
        if self.state is ProgressState.REPLICATE:
            return (
                len(self._inflight) >= self._inflight_messages_max
                or self._inflight_bytes >= self._inflight_bytes_max
            )
        return self.probing or self.state is ProgressState.SNAPSHOT

    def sent(self, last: Index, size: int) -> None:
        """An append with entries up to `last` has gone out."""
        if self.state is ProgressState.REPLICATE:
            self._inflight.append((last, size))
            self._inflight_bytes += size
            self.next = Index(last + 1)
        else:
            self.probing = True

    def nudge(self) -> None:
        """A heartbeat was answered: what we sent before it may be lost; send one thing."""
        self.nudged = True
        self.probing = False

    def acknowledge(self, match: Index, *, first_index: Index) -> bool:
        """It holds our log up to `match`. Says whether that is news."""
        news = match > self.match
        if news:
            self.match = match
            self.next = max(self.next, Index(match + 1))
        if self.state is ProgressState.REPLICATE:
            while self._inflight and self._inflight[0][0] <= match:
                self._inflight_bytes -= self._inflight.popleft()[1]
        elif self.state is ProgressState.PROBE:
            if match == self.match:
                self._become(ProgressState.REPLICATE)
        elif news and self.match + 1 >= first_index:
            self._become(ProgressState.REPLICATE)
        return news

    def reject(self, rejected: Index, retry: Index) -> bool:
        """An append after `rejected` did not fit; try `retry` next. Says whether to send.

        A rejection of something already acknowledged, or not asked any more, is an old message
        that was under way too long, and must not undo what we know."""
        if rejected <= self.match or self.state is ProgressState.SNAPSHOT:
            return False
        if self.state is ProgressState.PROBE and rejected != self.next - 1:
            return False
        self._become(ProgressState.PROBE)
        self.next = max(Index(self.match + 1), min(rejected, retry))
        return True

    def need_snapshot(self) -> None:
        """What it needs next is not in our log."""
        self._become(ProgressState.SNAPSHOT)

    def _become(self, state: ProgressState) -> None:
        self.state = state
        self.probing = False
        self._inflight.clear()
        self._inflight_bytes = 0
        self.next = Index(self.match + 1)

    def view(self, node: NodeId) -> ProgressView:
        return ProgressView(
            node=node,
            state=self.state,
            match=self.match,
            next=self.next,
            session=self.session,
            silence=self.silence,
            inflight_messages=len(self._inflight),
            inflight_bytes=self._inflight_bytes,
            damaged=self.damaged,
        )
