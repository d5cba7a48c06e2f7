"""Carrying a snapshot to a follower whose next entries the leader no longer has as a log.

What must travel is more than the state: messages live in the log's own files, so the records that
are still alive and that the follower lacks go first, then the machine's state at the snapshot's
mark. The follower already holds, unchangeably, everything up to its commit index (or, if it is
damaged, up to what it still trusts), so only records after that are asked for. Both go to disk part
by part, so a state may have any size.

If compaction has dropped tombstones, a follower that missed one would keep what it deleted. So a
leader says up to which entry it dropped any, and sends the rest only to followers that have
everything up to there; others learn it from the answer and begin again, with nothing.

`SnapshotSource` answers one request from what is on disk and remembers nothing. `SnapshotFetch`
is one fetch on the follower's side: one request out at a time, asked again when nothing comes.
`SnapshotReceiver` begins fetches, writes what arrives and hands a complete one over to be
installed; it starts afresh when the leader has moved on to a newer snapshot.
"""

from collections.abc import Callable

from msgspec.structs import replace

from penstock.core.entries import SnapshotMark
from penstock.core.limits import SNAPSHOT_BYTES_OLD_MAX, SNAPSHOT_PART_BYTES
from penstock.core.types import NO_INDEX, Index, NodeId
from penstock.engine.replica.network import SnapshotPart, SnapshotRequest
from penstock.raft import RaftNode, SnapshotOffer
from penstock.storage import Incoming, LogJob, ShardLog

RETRY_TICKS = 5
GIVE_UP_TICKS = 100


class SnapshotSource:
    """The leader's side: stateless."""

    def __init__(self, log: ShardLog, part_bytes: int = SNAPSHOT_PART_BYTES) -> None:
        self._log = log
        self._part_bytes = part_bytes

    def answer(self, request: SnapshotRequest) -> SnapshotPart:
        """The part that follows what the follower has."""
        mark, after, position = request.mark, request.records_after, request.state_position
        gone = SnapshotPart(
            source=request.target,
            target=request.source,
            mark=mark,
            gone=True,
            records_after=after,
            state_position=position,
            records_through=after,
            erased_through=self._log.erased_through,
        )
        if mark != self._log.snapshot:
            return gone
        if not request.any_size and self._log.snapshot_bytes(mark) > SNAPSHOT_BYTES_OLD_MAX:
            return gone  # It would stop for good. It has to be upgraded first.
        if after > 0 and max(after, request.erased_through) < gone.erased_through:
            return gone
        if after < mark.index:
            entries, through = self._log.live_records(after, mark.index, self._part_bytes)
            return replace(gone, gone=False, entries=entries, records_through=through)
        state = self._log.read_snapshot(mark, position, self._part_bytes)
        return replace(gone, gone=False, state=state, complete=len(state) < self._part_bytes)


class SnapshotFetch:
    """The follower's side: one fetch of one snapshot."""

    def __init__(
        self,
        *,
        node: NodeId,
        leader: NodeId,
        mark: SnapshotMark,
        trusted: Index,
        incoming: Incoming,
    ) -> None:
        self.mark = mark
        self.leader = leader
        self.incoming = incoming
        self.writing = False
        self.complete = False
        self._node = node
        self._records_after = trusted
        self._erased_through = NO_INDEX
        self._quiet_ticks = 0
        self._waited_ticks = 0

    def request(self) -> SnapshotRequest:
        """What to ask next."""
        return SnapshotRequest(
            source=self._node,
            target=self.leader,
            mark=self.mark,
            records_after=self._records_after,
            state_position=self.incoming.state.length,
            erased_through=self._erased_through,
            any_size=True,
        )

    def tick(self) -> SnapshotRequest | None:
        """Ask again when nothing has come for a while."""
        if self.complete or self.writing:
            return None
        self._quiet_ticks += 1
        self._waited_ticks += 1
        if self._waited_ticks < RETRY_TICKS:
            return None
        self._waited_ticks = 0
        return self.request()

    @property
    def abandoned(self) -> bool:
        """Nothing has come for so long that a new offer should start afresh."""
        return self._quiet_ticks >= GIVE_UP_TICKS

    def take(self, part: SnapshotPart) -> bool:
        """Take a part; False if it answers an older question and was dropped."""
        if self.complete or self.writing or part.mark != self.mark:
            return False
        position = self.incoming.state.length
        if part.records_after != self._records_after or part.state_position != position:
            return False
        self._quiet_ticks = self._waited_ticks = 0
        if part.records_after == NO_INDEX:
            self._erased_through = part.erased_through
        incoming = self.incoming
        incoming.erased_through = max(incoming.erased_through, part.erased_through)
        if part.entries:
            incoming.stage(part.entries)
        self._records_after = part.records_through
        incoming.state.stage(part.state)
        self.complete = part.complete
        return True


class SnapshotReceiver:
    """The follower's side of one replica: at most one fetch, then one installation."""

    def __init__(
        self,
        node: NodeId,
        *,
        log: ShardLog,
        raft: RaftNode,
        send: Callable[[SnapshotRequest], None],
        run: Callable[[LogJob, Callable[[bool], None]], None],
        announce: Callable[[str], None],
    ) -> None:
        self._node = node
        self._log = log
        self._raft = raft
        self._send = send
        self._run = run
        self._announce = announce
        self._fetch: SnapshotFetch | None = None
        self._installing = False
        self._erased_through = NO_INDEX
        """What is here is of no use unless it reaches up to this entry."""

    @property
    def busy(self) -> bool:
        """The log is about to be replaced: let it be."""
        return self._installing or self._fetch is not None

    def tick(self) -> None:
        """Ask again if nothing came."""
        request = self._fetch.tick() if self._fetch is not None else None
        if request is not None:
            self._send(request)

    def offered(self, offer: SnapshotOffer) -> None:
        """A leader says that this node needs its snapshot. It says so again and again."""
        fetch = self._fetch
        if self._installing or (fetch is not None and fetch.writing):
            return
        if fetch is not None and fetch.mark == offer.mark and not fetch.abandoned:
            return
        trusted = Index(min(self._log.trusted_index, offer.mark.index))
        if trusted < self._erased_through:
            trusted = NO_INDEX
        self._fetch = SnapshotFetch(
            node=self._node,
            leader=offer.source,
            mark=offer.mark,
            trusted=trusted,
            incoming=self._log.begin_install(offer.mark, trusted),
        )
        self._announce(f"fetches the snapshot at {offer.mark.index} from node {offer.source}")
        self._send(self._fetch.request())

    def take(self, part: SnapshotPart) -> None:
        """A part has arrived."""
        fetch = self._fetch
        if fetch is None or part.mark != fetch.mark or part.source != fetch.leader:
            return
        if part.gone:
            self._erased_through = max(self._erased_through, part.erased_through)
            self._fetch = None
            return
        if not fetch.take(part):
            return
        job = fetch.incoming.take_job()
        if job is None:
            self._go_on(fetch)
            return
        fetch.writing = True

        def written(worked: bool) -> None:
            fetch.writing = False
            if worked:
                self._go_on(fetch)
            else:
                self._fetch = None

        self._run(job, written)

    def _go_on(self, fetch: SnapshotFetch) -> None:
        if fetch is not self._fetch:
            return
        if not fetch.complete:
            self._send(fetch.request())
        elif not self._raft.snapshot_fetched(fetch.mark):
            self._fetch = None

    def hand_over(self, mark: SnapshotMark) -> SnapshotFetch:
        """The complete fetch, now that Raft wants it installed."""
        fetch, self._fetch = self._fetch, None
        assert fetch is not None, f"the snapshot {mark} was not fetched"
        assert fetch.mark == mark, f"the snapshot {fetch.mark} was fetched, not {mark}"
        self._installing = True
        return fetch

    def installed(self) -> None:
        self._installing = False
        self._erased_through = NO_INDEX
