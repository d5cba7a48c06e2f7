"""A leader's duties, one rule at a time."""

import pytest

from penstock.core.entries import EntryKind, Membership, SnapshotMark
from penstock.core.errors import MembershipRefused, NotLeader, Overloaded
from penstock.core.types import Index, NodeId, Term
from penstock.raft import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    ProgressState,
    Role,
    SnapshotOffer,
    TimeoutNow,
)
from tests.unit.raft.rig import Rig, only

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def beat(rig: Rig, peer: int, round_: int, **fields: int) -> HeartbeatResponse:
    return HeartbeatResponse(
        source=NodeId(peer),
        target=ONE,
        term=rig.node.term,
        session=fields.get("session", rig.session(peer)),
        round=round_,
        damaged=bool(fields.get("life", 0)),
        life=fields.get("life", 0),
    )


# Proposals.


def test_proposals_between_two_readies_travel_together() -> None:
    rig = Rig().lead()
    for payload in (b"a", b"b", b"c"):
        rig.propose(payload)
    appends = only(rig.pump(), AppendRequest)
    assert [(a.target, len(a.entries)) for a in appends] == [(TWO, 3), (THREE, 3)]


def test_an_append_is_bounded_in_bytes_but_never_empty() -> None:
    rig = Rig(append_bytes_max=400).lead()
    rig.propose(*[b"x" * 100] * 4, b"y" * 1_000)
    appends = [a for a in only(rig.pump(), AppendRequest) if a.target == TWO]
    assert [len(append.entries) for append in appends] == [2, 2, 1]


def test_the_leader_sends_before_its_own_disk_is_done_and_counts_itself_after() -> None:
    rig = Rig().lead()
    rig.slow = True
    rig.propose(b"x")
    assert only(rig.pump(), AppendRequest)
    rig.acknowledge(2, 2)
    rig.acknowledge(3, 2)
    assert rig.node.commit == 1, "nothing is committed that the leader itself could lose"
    rig.persist()
    assert rig.node.commit == 2


def test_too_much_waiting_for_a_majority_is_refused() -> None:
    rig = Rig(uncommitted_bytes_max=100).lead()
    rig.propose(b"x" * 1_000)
    with pytest.raises(Overloaded, match="1000 bytes wait"):
        rig.propose(b"x")
    rig.pump()
    rig.acknowledge(2, 2)
    rig.propose(b"x" * 60)
    rig.propose(b"x" * 40)
    with pytest.raises(Overloaded):
        rig.propose(b"x")


def test_an_old_entry_is_committed_only_with_one_of_this_term() -> None:
    rig = Rig(terms=(1, 1, 2)).win()
    assert rig.node.term_at(Index(4)) == 3
    rig.acknowledge(2, 3)
    rig.acknowledge(3, 3)
    assert rig.node.commit == 0
    rig.acknowledge(2, 4)
    assert rig.node.commit == 4


def test_followers_learn_of_a_commit_at_once_if_they_should() -> None:
    rig = Rig(prompt_commits=True).lead()
    rig.pump()
    rig.propose(b"x")
    rig.pump()
    told = only(rig.acknowledge(2, 2), AppendRequest)
    assert [(a.target, a.previous_index, a.entries, a.commit) for a in told] == [
        (TWO, 2, (), 2),
        (THREE, 2, (), 2),
    ]
    assert only(rig.acknowledge(3, 2), AppendRequest) == [], "it was told behind the entry"


def test_an_append_that_goes_out_anyway_tells_the_commit() -> None:
    rig = Rig(prompt_commits=True).lead()
    rig.propose(b"x")
    rig.pump()
    rig.node.step(
        AppendResponse(
            source=TWO, target=ONE, term=rig.node.term, session=rig.session(2), match=Index(2)
        )
    )
    rig.propose(b"y")
    told = only(rig.pump(), AppendRequest)
    assert [(a.target, len(a.entries), a.commit) for a in told] == [(TWO, 1, 2), (THREE, 1, 2)]


def test_commits_wait_for_an_append_or_a_heartbeat_by_default() -> None:
    rig = Rig().lead()
    rig.propose(b"x")
    rig.pump()
    assert rig.acknowledge(2, 2) == []
    assert rig.node.commit == 2


# Answers.


def test_an_answer_of_another_session_changes_nothing() -> None:
    rig = Rig().lead()
    rig.propose(b"x")
    rig.pump()
    rig.acknowledge(2, 2, session=99)
    assert rig.node.commit == 1
    rig.step(beat(rig, 2, 1, session=99))
    assert rig.node.progress()[0].match == 1


def test_an_acknowledgement_of_what_was_never_sent_is_a_bug() -> None:
    rig = Rig().lead()
    with pytest.raises(AssertionError, match="acknowledges 9 of 1"):
        rig.acknowledge(2, 9)


def test_a_heartbeat_never_commits_more_than_the_follower_holds() -> None:
    rig = Rig().lead()
    rig.propose(b"x")
    rig.pump()
    rig.acknowledge(2, 2)
    commits = {message.target: message.commit for message in only(rig.tick(), Heartbeat)}
    assert commits == {TWO: 2, THREE: 1}


def test_a_full_window_is_probed_with_an_empty_append() -> None:
    rig = Rig(inflight_messages_max=1).lead()
    rig.propose(b"x")
    rig.pump()
    rig.propose(b"y")
    assert only(rig.pump(), AppendRequest) == []
    (append,) = only(rig.step(beat(rig, 2, 1)), AppendRequest)
    assert (append.previous_index, append.entries) == (2, ())


def test_a_follower_that_has_everything_is_left_alone() -> None:
    rig = Rig().lead()
    assert rig.step(beat(rig, 2, 1)) == []


# Snapshots.


def test_who_needs_what_is_gone_gets_an_offer_at_the_pace_of_heartbeats() -> None:
    rig = Rig().lead()
    rig.propose(b"a", b"b")
    rig.pump()
    rig.acknowledge(2, 3)
    mark = SnapshotMark(Index(3), Term(1), rig.node.membership)
    rig.disk.take_snapshot(mark, 0)
    rig.disk.compact(Index(4))
    rig.node.compacted()
    rejection = AppendResponse(
        source=THREE,
        target=ONE,
        term=Term(1),
        session=rig.session(3),
        rejected=Index(3),
        hint_index=Index(1),
        hint_term=Term(1),
    )
    (offer,) = rig.step(rejection)
    assert isinstance(offer, SnapshotOffer)
    assert offer.mark == mark
    assert rig.node.progress()[1].state is ProgressState.SNAPSHOT
    (again,) = only(rig.step(beat(rig, 3, 1)), SnapshotOffer)
    assert again == offer
    rig.propose(b"c")
    appends = only(rig.pump(), AppendRequest)
    assert [append.target for append in appends] == [TWO]
    (append,) = only(rig.acknowledge(3, 3), AppendRequest)
    assert (append.target, append.previous_index) == (THREE, 3)


# Reads.


def test_a_read_of_a_cluster_of_one_needs_nobody() -> None:
    rig = Rig(voters=(1,)).lead()
    read_id = rig.node.read()
    rig.pump()
    assert [(r.read_id, r.index) for ready in rig.readies for r in ready.reads] == [(read_id, 1)]


def test_read_ids_are_never_used_twice() -> None:
    rig = Rig(voters=(1,)).lead()
    first = rig.node.read()
    rig.pump()
    assert rig.node.read() > first


def test_an_answer_to_a_round_before_the_read_proves_nothing() -> None:
    rig = Rig().lead()
    rig.tick()
    rig.node.read()
    (first, _) = only(rig.pump(), Heartbeat)
    assert first.round == 2
    rig.step(beat(rig, 2, 1))
    assert not any(ready.reads for ready in rig.readies)
    rig.step(beat(rig, 2, 2))
    assert any(ready.reads for ready in rig.readies)


# Members.


def test_members_change_only_after_an_entry_of_this_term() -> None:
    rig = Rig().win()
    with pytest.raises(MembershipRefused, match="no entry of this term is committed"):
        rig.node.propose_membership(Membership((ONE, TWO)))
    rig.acknowledge(2, 1)
    rig.node.propose_membership(Membership((ONE, TWO)))


def test_one_change_at_a_time() -> None:
    rig = Rig().lead()
    rig.node.propose_membership(Membership((ONE, TWO)))
    rig.pump()
    with pytest.raises(MembershipRefused, match="not committed yet"):
        rig.node.propose_membership(Membership((ONE,)))
    rig.acknowledge(2, 2)
    rig.node.propose_membership(Membership((ONE,)))


def test_a_learner_that_lags_is_not_made_a_voter() -> None:
    rig = Rig(voters=(1,), learners=(2,)).lead()
    with pytest.raises(MembershipRefused, match="has not caught up"):
        rig.node.propose_membership(Membership((ONE, TWO)))
    rig.acknowledge(2, 1)
    assert rig.node.propose_membership(Membership((ONE, TWO))) == 2


def test_a_change_to_a_majority_that_is_silent_is_refused() -> None:
    rig = Rig(voters=(1, 2, 3)).lead()
    for round_ in range(1, 13):
        rig.tick()
        rig.step(beat(rig, 2, round_))
    assert rig.role() is Role.LEADER
    with pytest.raises(MembershipRefused, match="silent"):
        rig.node.propose_membership(Membership((ONE, THREE)))
    rig.node.propose_membership(Membership((ONE, TWO)))


def test_a_removed_node_is_served_until_it_knows() -> None:
    rig = Rig().lead()
    rig.node.propose_membership(Membership((ONE, TWO)))
    assert {append.target for append in only(rig.pump(), AppendRequest)} == {TWO, THREE}
    rig.acknowledge(2, 2)
    rig.acknowledge(3, 2)
    assert [view.node for view in rig.node.progress()] == [2, 3]
    told = only(rig.tick(), Heartbeat)
    assert [(message.target, message.commit) for message in told] == [(TWO, 2), (THREE, 2)]
    assert [view.node for view in rig.node.progress()] == [2]


# Handing over.


def test_a_handover_stops_proposals_and_tells_the_target_when_it_has_all() -> None:
    rig = Rig().lead()
    rig.propose(b"x")
    rig.pump()
    rig.node.transfer(TWO)
    assert only(rig.pump(), TimeoutNow) == []
    with pytest.raises(NotLeader, match="handing over"):
        rig.propose(b"y")
    (order,) = only(rig.acknowledge(2, 2), TimeoutNow)
    assert order.target == TWO
    rig.node.transfer(ONE)
    rig.propose(b"y")


def test_leadership_is_handed_to_voters_only() -> None:
    rig = Rig(voters=(1, 2), learners=(3,)).lead()
    with pytest.raises(MembershipRefused, match="node 3 cannot lead"):
        rig.node.transfer(THREE)


# Damage.


def test_a_damaged_follower_starts_from_nothing_in_a_new_session() -> None:
    rig = Rig().lead()
    rig.propose(b"x")
    rig.pump()
    rig.acknowledge(2, 2)
    before = rig.session(2)
    (message,) = rig.step(beat(rig, 2, 1, life=5))
    assert isinstance(message, Heartbeat)
    assert (message.repair_until, message.repair_life, message.commit) == (2, 5, 0)
    view = rig.node.progress()[0]
    assert view.session > before
    assert (view.match, view.state, view.damaged) == (0, ProgressState.SNAPSHOT, True)
    assert rig.node.snapshot_wanted


def test_a_damaged_follower_does_not_keep_a_leader_in_touch() -> None:
    rig = Rig().lead()
    rig.step(beat(rig, 2, 1, life=5))
    for round_ in range(2, 20):
        rig.tick()
        if rig.role() is Role.LEADER:
            rig.step(beat(rig, 2, round_, life=5))
    assert rig.role() is Role.FOLLOWER


def test_damage_on_damage_starts_again() -> None:
    rig = Rig().lead()
    rig.step(beat(rig, 2, 1, life=5))
    session = rig.session(2)
    rig.step(beat(rig, 2, 1, life=5))
    assert rig.session(2) == session
    rig.step(beat(rig, 2, 1, life=6))
    assert rig.session(2) > session


def test_a_whole_answer_makes_it_count_again() -> None:
    rig = Rig().lead()
    rig.step(beat(rig, 2, 1, life=5))
    rig.propose(b"x")
    rig.pump()
    rig.step(
        AppendResponse(
            source=TWO,
            target=ONE,
            term=Term(1),
            session=rig.session(2),
            match=Index(2),
            damaged=True,
            life=5,
        )
    )
    assert rig.node.commit == 1
    rig.step(beat(rig, 2, 1))
    assert rig.node.commit == 2


def test_the_kinds_it_appends_by_itself_are_exempt_from_the_bound() -> None:
    rig = Rig(uncommitted_bytes_max=1).lead()
    assert rig.applied[0].kind is EntryKind.NOOP
