"""Messages of other nodes that a replica may take, and those that it must not see."""

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind, SnapshotMark
from penstock.core.errors import InvalidFrame
from penstock.core.limits import INDEX_MAX, TERM_JUMP_MAX, TERM_MAX
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.engine.peers.frames import FrameKind
from penstock.engine.peers.message_check import check_jump, check_message
from penstock.engine.replica.network import PeerMessage, SnapshotPart, SnapshotRequest
from penstock.raft.messages import (
    AppendResponse,
    HeartbeatResponse,
    SnapshotOffer,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.unit.engine.linked import (
    Node,
    RawPeer,
    Run,
    append,
    append_batch,
    close_all,
    heartbeat,
    until,
)

ONE, TWO = NodeId(1), NodeId(2)
BASE = {"source": TWO, "target": ONE}
MARK = SnapshotMark(Index(4), Term(2))


def vote(term: int, last_index: int = 0, last_term: int = 0) -> VoteRequest:
    return VoteRequest(
        source=TWO,
        target=ONE,
        term=Term(term),
        pre=False,
        last_index=Index(last_index),
        last_term=Term(last_term),
    )


def snapshot_part(**changed: object) -> SnapshotPart:
    part = SnapshotPart(
        source=TWO,
        target=ONE,
        mark=MARK,
        records_after=Index(1),
        state_position=0,
        records_through=Index(2),
    )
    return msgspec.structs.replace(part, **changed)


GOOD: list[PeerMessage] = [
    heartbeat(2, 1, 1),
    append_batch(2, 1, b"x"),
    append(2, 1, b"").__class__(
        source=TWO,
        target=ONE,
        term=Term(3),
        session=1,
        previous_index=Index(9),
        previous_term=Term(2),
        entries=(),
        commit=Index(9),
    ),
    vote(TERM_MAX, INDEX_MAX, TERM_MAX),
    VoteResponse(source=TWO, target=ONE, term=Term(1), pre=True, granted=True),
    AppendResponse(source=TWO, target=ONE, term=Term(1), session=1, match=Index(7)),
    HeartbeatResponse(source=TWO, target=ONE, term=Term(1), session=1, round=1),
    SnapshotOffer(source=TWO, target=ONE, term=Term(1), session=1, mark=MARK),
    TimeoutNow(source=TWO, target=ONE, term=Term(1)),
    SnapshotRequest(source=TWO, target=ONE, mark=MARK, records_after=Index(1), state_position=0),
    snapshot_part(),
]


@pytest.mark.parametrize("message", GOOD)
def test_what_nodes_say_is_taken(message: PeerMessage) -> None:
    check_message(message)
    check_jump(message, Term(0))


def entries(*pairs: tuple[int, int]) -> PeerMessage:
    made = tuple(Entry(Index(i), Term(t), EntryKind.NOOP, b"") for i, t in pairs)
    return msgspec.structs.replace(append(2, 1, b""), entries=made)


@pytest.mark.parametrize(
    "message",
    [
        vote(1 << 40),
        vote(TERM_MAX + 1),
        vote(-1),
        vote(1, -1),
        vote(1, INDEX_MAX + 1),
        vote(1, 0, -1),
        append(2, 1, b"garbage"),
        entries((2, 1)),
        entries((1, 1), (3, 1)),
        entries((1, 2)),
        entries((1, 1), (2, 0)),
        AppendResponse(source=TWO, target=ONE, term=Term(1), session=1, match=Index(-1)),
        AppendResponse(source=TWO, target=ONE, term=Term(1), session=1, hint_term=Term(1 << 40)),
        SnapshotOffer(
            source=TWO,
            target=ONE,
            term=Term(1),
            session=1,
            mark=SnapshotMark(Index(1), Term(1 << 40)),
        ),
        snapshot_part(mark=SnapshotMark(Index(-1), Term(1))),
        snapshot_part(state_position=-1),
        snapshot_part(records_through=Index(-1)),
        snapshot_part(entries=(Entry(Index(2), Term(1), EntryKind.APPEND, b"garbage"),)),
    ],
)
def test_what_no_node_says_is_refused(message: PeerMessage) -> None:
    with pytest.raises(InvalidFrame):
        check_message(message)


def test_a_term_far_ahead_is_refused_where_a_term_is_known() -> None:
    check_jump(vote(5 + TERM_JUMP_MAX), Term(5))
    check_jump(vote(TERM_MAX), Term(0))
    with pytest.raises(InvalidFrame, match="term 5 is known here"):
        check_jump(vote(6 + TERM_JUMP_MAX), Term(5))


def test_a_message_that_cannot_be_ends_the_link_and_reaches_nobody(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        parcels = [(ShardId(1), vote(1 << 40)), (ShardId(1), heartbeat(2, 1, 1))]
        raw.send(FrameKind.MESSAGES, parcels)
        await raw.drain_to_end()
        await until(lambda: any("a term that cannot be" in line for line in one.lines))
        assert one.received == []
        await raw.close()
        await close_all(one)

    run(script())
