"""Messages travel as they are, and say in one line what they are."""

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark
from penstock.core.types import Index, NodeId, Term
from penstock.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    Ready,
    SnapshotOffer,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)

ONE, TWO, TERM = NodeId(1), NodeId(2), Term(3)
ENTRY = Entry(Index(6), TERM, EntryKind.COMMAND, b"x")

MESSAGES: list[tuple[AnyMessage, str]] = [
    (
        VoteRequest(
            source=ONE, target=TWO, term=TERM, pre=True, last_index=Index(5), last_term=Term(2)
        ),
        "1→2 PreVoteRequest term 3, log ends 5/2",
    ),
    (
        VoteResponse(source=TWO, target=ONE, term=TERM, pre=False, granted=True),
        "2→1 VoteResponse term 3, granted",
    ),
    (
        AppendRequest(
            source=ONE,
            target=TWO,
            term=TERM,
            session=4,
            previous_index=Index(5),
            previous_term=Term(2),
            entries=(ENTRY,),
            commit=Index(5),
        ),
        "1→2 AppendRequest term 3 after 5/2, entry 6, commit 5, session 4",
    ),
    (
        AppendResponse(
            source=TWO, target=ONE, term=TERM, session=4, rejected=Index(5), hint_index=Index(3)
        ),
        "2→1 AppendResponse term 3, rejected 5, hint 3/0, session 4",
    ),
    (
        Heartbeat(
            source=ONE,
            target=TWO,
            term=TERM,
            session=4,
            commit=Index(5),
            round=9,
            repair_until=Index(8),
            repair_life=77,
        ),
        "1→2 Heartbeat term 3, round 9, commit 5, session 4, repair until 8",
    ),
    (
        HeartbeatResponse(source=TWO, target=ONE, term=TERM, session=4, round=9, damaged=True),
        "2→1 HeartbeatResponse term 3, round 9, session 4, damaged",
    ),
    (
        SnapshotOffer(
            source=ONE,
            target=TWO,
            term=TERM,
            session=4,
            mark=SnapshotMark(Index(5), Term(2), Membership((ONE, TWO))),
        ),
        "1→2 SnapshotOffer term 3, mark 5/2, session 4",
    ),
    (TimeoutNow(source=ONE, target=TWO, term=TERM), "1→2 TimeoutNow term 3"),
]


@pytest.mark.parametrize(("message", "text"), MESSAGES, ids=lambda value: type(value).__name__)
def test_it_describes_itself_and_survives_the_wire(message: AnyMessage, text: str) -> None:
    assert message.describe() == text
    decoder = msgspec.msgpack.Decoder(AnyMessage)
    assert decoder.decode(msgspec.msgpack.encode(message)) == message


def test_a_ready_knows_whether_it_must_be_persisted() -> None:
    assert not Ready(sequence=1, messages=(MESSAGES[0][0],)).must_persist
    assert Ready(sequence=1, entries=(ENTRY,)).must_persist
    assert Ready(sequence=1, healed=True).must_persist
