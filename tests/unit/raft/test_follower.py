"""A follower's duties: what it takes, what it keeps, and how it is repaired."""

from penstock.core.entries import Entry, EntryKind, Membership, SnapshotMark, encode_membership
from penstock.core.types import Index, NodeId, Term
from penstock.raft import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    SnapshotOffer,
    VoteRequest,
    VoteResponse,
)
from tests.unit.raft.rig import Rig, only

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def append(
    previous: tuple[int, int], *terms: int, term: int = 5, commit: int = 0, session: int = 1
) -> AppendRequest:
    return AppendRequest(
        source=TWO,
        target=ONE,
        term=Term(term),
        session=session,
        previous_index=Index(previous[0]),
        previous_term=Term(previous[1]),
        entries=tuple(
            Entry(Index(previous[0] + 1 + position), Term(number), EntryKind.COMMAND, b"y")
            for position, number in enumerate(terms)
        ),
        commit=Index(commit),
    )


def heartbeat(commit: int, **fields: int) -> Heartbeat:
    return Heartbeat(
        source=TWO,
        target=ONE,
        term=Term(fields.get("term", 5)),
        session=fields.get("session", 1),
        commit=Index(commit),
        round=1,
        repair_until=Index(fields.get("repair_until", 0)),
        repair_life=fields.get("repair_life", 0),
    )


def answer(rig: Rig, message: AppendRequest | SnapshotOffer) -> AppendResponse:
    (response,) = only(rig.step(message), AppendResponse)
    return response


def test_entries_are_acknowledged_when_durable() -> None:
    rig = Rig(terms=(1, 1))
    rig.slow = True
    assert rig.step(append((2, 1), 5, 5)) == []
    (response,) = rig.persist()
    assert isinstance(response, AppendResponse)
    assert (response.match, response.session) == (4, 1)


def test_the_same_append_again_waits_for_the_same_write() -> None:
    rig = Rig(terms=(1, 1), term=5)
    rig.slow = True
    rig.step(append((2, 1), 5))
    assert rig.step(append((2, 1), 5)) == []
    assert [m.match for m in only(rig.persist(), AppendResponse)] == [3, 3]


def test_an_append_that_is_older_takes_nothing_away() -> None:
    rig = Rig(terms=(1, 1, 5, 5), term=5)
    assert answer(rig, append((1, 1), 1)).match == 2
    assert rig.disk.last_index == 4
    assert answer(rig, append((4, 5))).match == 4


def test_a_conflict_replaces_from_where_it_is() -> None:
    rig = Rig(terms=(1, 1, 2, 2))
    assert answer(rig, append((1, 1), 1, 5)).match == 3
    assert [rig.disk.term(Index(index)) for index in (2, 3)] == [1, 5]
    assert rig.disk.last_index == 3


def test_a_rejection_hints_at_the_last_place_that_could_agree() -> None:
    rig = Rig(terms=(1, 1, 3, 3, 3))
    response = answer(rig, append((9, 2)))
    assert (response.rejected, response.hint_index, response.hint_term) == (9, 2, 1)
    response = answer(rig, append((9, 4)))
    assert (response.rejected, response.hint_index, response.hint_term) == (9, 5, 3)


def test_an_append_before_what_is_committed_is_answered_with_that() -> None:
    rig = Rig(terms=(1, 1, 1), term=5)
    rig.step(heartbeat(2))
    assert rig.node.commit == 2
    assert answer(rig, append((1, 1), 1)).match == 2


def test_commit_goes_no_further_than_what_the_append_proves() -> None:
    # Entries 3 and 4 are ours alone: the leader's commit says nothing about them.
    rig = Rig(terms=(1, 1, 2, 2))
    rig.step(append((1, 1), 1, commit=9))
    assert rig.node.commit == 2


def test_commit_waits_for_the_disk() -> None:
    rig = Rig(terms=(1,), term=5)
    rig.slow = True
    rig.step(append((1, 1), 5, 5, commit=3))
    assert (rig.node.commit, len(rig.applied)) == (1, 1)
    rig.persist()
    assert (rig.node.commit, len(rig.applied)) == (3, 3)


def test_a_membership_is_in_force_on_append_and_rolled_back_on_truncation() -> None:
    rig = Rig(terms=(1,), term=5)
    change = Entry(
        Index(2), Term(5), EntryKind.MEMBERSHIP, encode_membership(Membership((ONE, TWO)))
    )
    message = append((1, 1))
    rig.step(
        AppendRequest(
            source=TWO,
            target=ONE,
            term=Term(5),
            session=1,
            previous_index=message.previous_index,
            previous_term=message.previous_term,
            entries=(change,),
            commit=Index(0),
        )
    )
    assert rig.node.membership == Membership((ONE, TWO))
    assert rig.node.membership_at(Index(1)) == Membership((ONE, TWO, THREE))
    rig.step(append((1, 1), 6, term=6))
    assert rig.node.membership == Membership((ONE, TWO, THREE))


# Snapshots.


def offer(index: int, term: int = 4) -> SnapshotOffer:
    mark = SnapshotMark(Index(index), Term(term), Membership((ONE, TWO)))
    return SnapshotOffer(source=TWO, target=ONE, term=Term(5), session=8, mark=mark)


def test_a_snapshot_is_fetched_installed_and_acknowledged() -> None:
    rig = Rig(terms=(1, 1))
    message = offer(20)
    assert rig.step(message) == []
    assert rig.readies[-1].offered == message
    rig.slow = True
    assert rig.node.snapshot_fetched(message.mark)
    assert rig.pump() == []
    (response,) = only(rig.persist(), AppendResponse)
    assert (response.match, response.session) == (20, 8)
    assert rig.node.membership == Membership((ONE, TWO))
    assert (rig.node.commit, rig.node.applied_index, rig.node.last_index) == (20, 20, 20)
    rig.slow = False
    assert answer(rig, append((20, 4), 5)).match == 21


def test_a_snapshot_that_says_nothing_new_is_not_fetched() -> None:
    rig = Rig(terms=(1, 1, 4), term=5)
    response = answer(rig, offer(3))
    assert (response.match, rig.node.commit) == (3, 3)
    assert answer(rig, offer(2)).match == 3
    assert not rig.node.snapshot_fetched(offer(2).mark)
    assert rig.readies[-1].offered is None


def test_who_installs_a_snapshot_does_not_campaign() -> None:
    rig = Rig(terms=(1, 1))
    rig.step(offer(20))
    rig.slow = True
    rig.node.snapshot_fetched(offer(20).mark)
    assert rig.tick(40) == []
    rig.persist()
    assert only(rig.tick(40), VoteRequest)


# Repair.


def damaged() -> Rig:
    rig = Rig(term=5, damaged=True)
    (response,) = only(rig.step(heartbeat(7)), HeartbeatResponse)
    assert response.damaged
    assert response.life
    assert rig.node.commit == 0, "the leader speaks of a log that is lost"
    return rig


def life_of(rig: Rig) -> int:
    return only(rig.sent, HeartbeatResponse)[-1].life


def test_the_damaged_neither_vote_nor_campaign() -> None:
    rig = damaged()
    assert rig.tick(50) == []
    request = VoteRequest(
        source=THREE,
        target=ONE,
        term=Term(9),
        pre=False,
        last_index=Index(90),
        last_term=Term(9),
    )
    (response,) = only(rig.step(request), VoteResponse)
    assert not response.granted


def test_the_damaged_take_no_entries_before_a_snapshot() -> None:
    rig = damaged()
    response = answer(rig, append((0, 0), 5, 5))
    assert (response.damaged, response.match, rig.node.last_index) == (True, 0, 0)


def test_repair_ends_when_the_log_is_whole_and_that_is_written() -> None:
    rig = damaged()
    life = life_of(rig)
    rig.step(heartbeat(0, session=2, repair_until=22, repair_life=life))
    rig.step(offer(20))
    rig.node.snapshot_fetched(offer(20).mark)
    rig.pump()
    assert answer(rig, append((20, 4), 5)).damaged
    assert rig.damaged()
    rig.slow = True
    rig.step(append((21, 5), 5))
    assert not any(ready.healed for ready in rig.readies)
    rig.persist()
    assert rig.readies[-1].healed
    assert rig.damaged(), "being whole is not durable yet"
    rig.persist()
    assert not rig.damaged()
    assert not rig.disk.damaged
    rig.slow = False
    assert not answer(rig, append((22, 5), 5)).damaged


def test_a_heartbeat_for_an_earlier_life_heals_nobody() -> None:
    rig = damaged()
    rig.step(offer(20))
    rig.node.snapshot_fetched(offer(20).mark)
    rig.pump()
    rig.step(heartbeat(0, repair_until=10, repair_life=life_of(rig) + 1))
    assert rig.damaged()
    rig.step(heartbeat(0, repair_until=10, repair_life=life_of(rig)))
    assert not rig.damaged()


def test_a_new_leader_sets_a_new_target() -> None:
    rig = damaged()
    rig.step(heartbeat(0, repair_until=20, repair_life=life_of(rig)))
    rig.step(heartbeat(0, term=6))
    rig.step(SnapshotOffer(source=TWO, target=ONE, term=Term(6), session=1, mark=offer(20).mark))
    rig.node.snapshot_fetched(offer(20).mark)
    rig.pump()
    assert rig.damaged()
