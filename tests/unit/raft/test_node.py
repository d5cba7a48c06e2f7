"""Elections, terms and the way a node's duties come out: the rules a scenario does not show."""

import pytest

from penstock.core.errors import NotLeader
from penstock.core.types import NO_NODE, Index, NodeId, Term
from penstock.raft import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    Role,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.unit.raft.rig import Numbers, Rig, only

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def vote_request(source: int, term: int, **fields: int) -> VoteRequest:
    return VoteRequest(
        source=NodeId(source),
        target=ONE,
        term=Term(term),
        pre=bool(fields.get("pre", 0)),
        last_index=Index(fields.get("last_index", 9)),
        last_term=Term(fields.get("last_term", 9)),
        forced=bool(fields.get("forced", 0)),
    )


def heartbeat(source: int, term: int, commit: int = 0) -> Heartbeat:
    return Heartbeat(
        source=NodeId(source), target=ONE, term=Term(term), session=1, commit=Index(commit), round=1
    )


# Timeouts.


def test_the_timeout_is_drawn_from_t_to_2t_and_drawn_anew() -> None:
    random = Numbers(3, 9, 0)
    rig = Rig(random=random)
    rig.tick(12)
    assert rig.role() is Role.FOLLOWER
    rig.tick()
    assert rig.role() is Role.PRE_CANDIDATE
    rig.tick(18)
    assert rig.node.statistics().elections == 1
    rig.tick()
    assert rig.node.statistics().elections == 2
    assert set(random.stops) == {10}


def test_a_learner_and_a_stranger_never_campaign() -> None:
    for rig in (Rig(voters=(2, 3), learners=(1,)), Rig(voters=(2, 3))):
        assert rig.tick(50) == []
        rig.node.campaign()
        assert rig.role() is Role.FOLLOWER


# Pre-votes.


def test_a_pre_vote_changes_neither_term_nor_vote() -> None:
    rig = Rig(term=4)
    (answer,) = rig.step(vote_request(2, 5, pre=1))
    assert isinstance(answer, VoteResponse)
    assert (answer.granted, answer.term) == (True, 5)
    assert (rig.node.term, rig.node.vote) == (4, NO_NODE)
    assert rig.disk.hard_state.term == 4


def test_a_refused_pre_vote_tells_our_term_and_the_asker_adopts_it() -> None:
    (answer,) = Rig(term=7).step(vote_request(2, 5, pre=1))
    assert isinstance(answer, VoteResponse)
    assert (answer.granted, answer.term) == (False, 7)
    rig = Rig(term=4)
    rig.node.campaign()
    rig.step(VoteResponse(source=TWO, target=ONE, term=Term(7), pre=True, granted=False))
    assert (rig.node.term, rig.role()) == (7, Role.FOLLOWER)


def test_a_majority_of_refusals_ends_the_attempt() -> None:
    rig = Rig(term=4)
    rig.node.campaign()
    for source in (TWO, THREE):
        rig.step(VoteResponse(source=source, target=ONE, term=Term(4), pre=True, granted=False))
    assert rig.role() is Role.FOLLOWER
    assert rig.node.term == 4


def test_old_pre_votes_do_not_elect() -> None:
    rig = Rig(term=4)
    rig.node.campaign()
    rig.step(VoteResponse(source=TWO, target=ONE, term=Term(9), pre=True, granted=True))
    assert rig.role() is Role.PRE_CANDIDATE


# Votes.


def test_a_vote_leaves_only_when_it_is_durable() -> None:
    rig = Rig(term=4)
    rig.slow = True
    assert rig.step(vote_request(2, 5)) == []
    # Asked again before the disk is done: still nothing, and then both answers.
    assert rig.step(vote_request(2, 5)) == []
    answers = rig.persist()
    assert [type(answer) for answer in answers] == [VoteResponse, VoteResponse]
    assert rig.disk.hard_state.vote == TWO


def test_one_vote_a_term_but_the_same_one_again() -> None:
    rig = Rig(term=4)
    for source, granted in ((2, True), (3, False), (2, True)):
        (answer,) = rig.step(vote_request(source, 5))
        assert isinstance(answer, VoteResponse)
        assert answer.granted is granted


def test_a_vote_survives_a_restart() -> None:
    (answer,) = Rig(term=5, vote=3).step(vote_request(2, 5))
    assert isinstance(answer, VoteResponse)
    assert not answer.granted


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"),
    [(3, 2, True), (2, 2, False), (1, 3, True), (9, 1, False)],
)
def test_the_candidates_log_must_be_as_new_as_ours(
    last_index: int, last_term: int, granted: bool
) -> None:
    rig = Rig(terms=(1, 2, 2))
    (answer,) = rig.step(vote_request(2, 5, last_index=last_index, last_term=last_term))
    assert isinstance(answer, VoteResponse)
    assert answer.granted is granted
    assert rig.node.term == 5


def test_a_learner_votes_as_it_may_be_a_voter_by_now() -> None:
    (answer,) = Rig(voters=(2, 3), learners=(1,)).step(vote_request(2, 5))
    assert isinstance(answer, VoteResponse)
    assert answer.granted


def test_our_own_vote_counts_when_it_is_durable() -> None:
    rig = Rig(voters=(1,))
    rig.slow = True
    rig.node.campaign()
    rig.pump()
    assert (rig.role(), rig.node.term) == (Role.CANDIDATE, 1)
    rig.persist()
    assert rig.role() is Role.LEADER


def test_vote_requests_wait_for_the_term_to_be_durable() -> None:
    rig = Rig()
    rig.slow = True
    rig.node.campaign()
    rig.pump()
    granted = VoteResponse(source=TWO, target=ONE, term=Term(1), pre=True, granted=True)
    assert only(rig.step(granted), VoteRequest) == []
    requests = only(rig.persist(), VoteRequest)
    assert [request.target for request in requests] == [TWO, THREE]


# The lease guard.


def test_who_hears_a_leader_ignores_candidates() -> None:
    rig = Rig(term=4)
    rig.step(heartbeat(2, 5))
    rig.tick(9)
    assert rig.step(vote_request(3, 6)) == []
    assert rig.step(vote_request(3, 6, pre=1)) == []
    assert rig.node.term == 5
    rig.tick()
    assert only(rig.step(vote_request(3, 6)), VoteResponse)
    assert rig.node.term == 6


def test_a_leader_ignores_candidates_too_unless_it_is_a_handover() -> None:
    rig = Rig().lead()
    assert rig.step(vote_request(3, 6)) == []
    assert rig.role() is Role.LEADER
    (answer,) = only(rig.step(vote_request(3, 6, forced=1)), VoteResponse)
    assert answer.granted
    assert rig.role() is Role.FOLLOWER


# Terms.


def test_an_old_leader_is_told_our_term() -> None:
    rig = Rig(term=7)
    (answer,) = rig.step(heartbeat(2, 5))
    assert isinstance(answer, AppendResponse)
    assert (answer.term, answer.target) == (7, TWO)


def test_no_message_leaves_with_a_term_that_is_not_durable() -> None:
    rig = Rig(term=4)
    rig.slow = True
    assert rig.step(heartbeat(2, 5)) == []
    (answer,) = rig.persist()
    assert answer.term == 5


def test_two_leaders_of_one_term_are_our_own_bug() -> None:
    rig = Rig().lead()
    with pytest.raises(AssertionError, match="nodes 1 and 2 both lead term 1"):
        rig.node.step(heartbeat(2, 1))


def test_a_candidate_that_hears_the_leader_follows() -> None:
    rig = Rig(term=4)
    rig.node.campaign()
    rig.step(heartbeat(2, 4))
    assert (rig.role(), rig.node.leader) == (Role.FOLLOWER, TWO)


def test_timeout_now_skips_the_pre_vote_and_is_forced() -> None:
    rig = Rig(term=4)
    requests = only(
        rig.step(TimeoutNow(source=TWO, target=ONE, term=Term(4))),
        VoteRequest,
    )
    assert [(request.pre, request.forced, request.term) for request in requests] == [
        (False, True, 5),
        (False, True, 5),
    ]


def test_an_ordinary_campaign_after_a_handover_is_not_forced() -> None:
    rig = Rig(term=4)
    rig.step(TimeoutNow(source=TWO, target=ONE, term=Term(4)))
    requests = only(rig.tick(30), VoteRequest)
    assert requests
    assert not any(request.forced for request in requests)


# Duties.


def test_nothing_to_do_is_none() -> None:
    rig = Rig().lead()
    assert rig.node.ready() is None
    rig.step(heartbeat(2, 9))
    assert rig.node.ready() is None


def test_only_a_leader_takes_proposals_and_reads() -> None:
    rig = Rig(term=4)
    rig.step(heartbeat(2, 4))
    for ask in (lambda: rig.propose(b"x"), rig.node.read, lambda: rig.node.transfer(THREE)):
        with pytest.raises(NotLeader, match="node 2 does") as caught:
            ask()
        assert caught.value.leader == TWO


def test_a_ready_without_writes_has_no_promises() -> None:
    rig = Rig().lead()
    rig.propose(b"a", b"b")
    rig.pump()
    rig.acknowledge(2, 3)
    assert all(ready.must_persist or not ready.promises for ready in rig.readies)


def test_hard_state_and_entries_come_together() -> None:
    rig = Rig()
    entry = AppendRequest(
        source=TWO,
        target=ONE,
        term=Term(3),
        session=1,
        previous_index=Index(0),
        previous_term=Term(0),
        entries=Rig(terms=(3,)).disk.entries(Index(1), Index(2), 100),
        commit=Index(0),
    )
    rig.step(entry)
    (ready,) = [ready for ready in rig.readies if ready.entries]
    assert ready.hard_state is not None
    assert ready.hard_state.term == 3
    assert [type(promise) for promise in ready.promises] == [AppendResponse]


def test_committed_entries_come_in_bounded_portions() -> None:
    rig = Rig(voters=(1,), apply_bytes_max=300).lead()
    rig.propose(*[b"x" * 100] * 6)
    rig.pump()
    portions = [len(ready.committed) for ready in rig.readies if ready.committed]
    assert max(portions) == 1
    assert [entry.index for entry in rig.applied] == list(range(1, 8))


def test_it_describes_itself() -> None:
    rig = Rig().lead()
    text = "node 1 leader term 1 leader 1 commit 1 applied 1 durable 1 last 1"
    assert rig.node.describe() == text
    assert rig.node.statistics().leaderships == 1
