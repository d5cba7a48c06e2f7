"""What a leader may send to one follower, step by step."""

import pytest

from penstock.core.types import Index, NodeId
from penstock.raft.progress import Progress, ProgressState


@pytest.fixture
def progress() -> Progress:
    return Progress(session=7, next_=Index(11), inflight_messages_max=3, inflight_bytes_max=100)


def paused(progress: Progress) -> bool:
    """A call, as the type checker believes an attribute not to change behind its back."""
    return progress.paused


def state(progress: Progress) -> ProgressState:
    return progress.state


def replicating(progress: Progress, match: int) -> Progress:
    progress.acknowledge(Index(match), first_index=Index(1))
    assert state(progress) is ProgressState.REPLICATE
    return progress


def test_a_probe_waits_for_its_answer_or_a_nudge(progress: Progress) -> None:
    assert not paused(progress)
    progress.sent(Index(12), 10)
    assert paused(progress)
    assert progress.next == 11
    progress.nudge()
    assert not paused(progress)


def test_an_acknowledged_probe_replicates(progress: Progress) -> None:
    progress.sent(Index(12), 10)
    assert progress.acknowledge(Index(12), first_index=Index(1))
    assert (progress.state, progress.match, progress.next) == (ProgressState.REPLICATE, 12, 13)


def test_a_probe_of_what_is_known_replicates_too(progress: Progress) -> None:
    replicating(progress, 10)
    assert progress.reject(Index(15), Index(11))
    assert state(progress) is ProgressState.PROBE
    assert not progress.acknowledge(Index(10), first_index=Index(1))
    assert state(progress) is ProgressState.REPLICATE


def test_replication_pauses_at_the_bound_of_messages(progress: Progress) -> None:
    replicating(progress, 10)
    for last in (11, 12, 13):
        assert not paused(progress)
        progress.sent(Index(last), 1)
    assert paused(progress)
    progress.acknowledge(Index(11), first_index=Index(1))
    assert not paused(progress)
    assert progress.view(NodeId(2)).inflight_messages == 2


def test_replication_pauses_at_the_bound_of_bytes(progress: Progress) -> None:
    replicating(progress, 10)
    progress.sent(Index(11), 99)
    assert not paused(progress)
    progress.sent(Index(12), 1)
    assert paused(progress)
    progress.acknowledge(Index(12), first_index=Index(1))
    assert progress.view(NodeId(2)).inflight_bytes == 0


def test_one_acknowledgement_covers_all_before_it(progress: Progress) -> None:
    replicating(progress, 10)
    for last in (11, 12, 13):
        progress.sent(Index(last), 1)
    progress.acknowledge(Index(13), first_index=Index(1))
    assert progress.view(NodeId(2)).inflight_messages == 0


def test_an_old_rejection_does_not_undo_what_is_known(progress: Progress) -> None:
    replicating(progress, 10)
    assert not progress.reject(Index(10), Index(3))
    assert not progress.reject(Index(4), Index(3))
    assert (progress.match, progress.next) == (10, 11)


def test_a_rejection_of_another_probe_is_ignored(progress: Progress) -> None:
    assert progress.reject(Index(10), Index(6))
    assert progress.next == 6
    assert not progress.reject(Index(10), Index(2))
    assert progress.next == 6


def test_a_rejection_never_goes_below_what_is_known(progress: Progress) -> None:
    replicating(progress, 10)
    progress.sent(Index(15), 1)
    assert progress.reject(Index(15), Index(2))
    assert (progress.state, progress.next) == (ProgressState.PROBE, 11)


def test_a_snapshot_ends_where_the_log_goes_on(progress: Progress) -> None:
    progress.need_snapshot()
    assert paused(progress)
    assert progress.acknowledge(Index(20), first_index=Index(31))
    assert state(progress) is ProgressState.SNAPSHOT
    assert progress.acknowledge(Index(30), first_index=Index(31))
    assert (progress.state, progress.next) == (ProgressState.REPLICATE, 31)


def test_a_damaged_follower_counts_for_nothing(progress: Progress) -> None:
    replicating(progress, 10)
    progress.round = 4
    progress.damaged = True
    assert (progress.counted_match, progress.counted_round) == (0, 0)
    progress.damaged = False
    assert (progress.counted_match, progress.counted_round) == (10, 4)


def test_it_describes_itself(progress: Progress) -> None:
    replicating(progress, 10)
    progress.sent(Index(11), 1)
    progress.silence = 3
    text = progress.view(NodeId(2)).describe()
    assert text == "node 2 replicate match 10 next 12 session 7 in flight 1 silent for 3"
