"""The simulator itself: it repeats itself, it catches liars, and each of its checks can fail."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.core.entries import Entry, EntryKind, HardState, Membership
from penstock.core.types import Index, NodeId, Term
from penstock.raft.messages import AppendResponse, Ready, VoteResponse
from penstock.testing.disk import FaultyDisk
from tests.simulation import node as node_module
from tests.simulation.checkers import LogView, View, Violation, Watch
from tests.simulation.cluster import Cluster, Outcome
from tests.simulation.history import History, Send, build_batch
from tests.simulation.history import Outcome as SendOutcome
from tests.simulation.planting import MUTATIONS, plant
from tests.simulation.run import Failure, missing, rotating, simulate

REGRESSIONS = (4, 16, 20, 24, 33, 41, 48, 53, 86, 123, 306, 351, 488)
"""Seeds that once broke something. Histories change with the code, so they prove less with time;
what each of them found has a test of its own where the bug was."""


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression_seed_holds(seed: int) -> None:
    outcome = simulate(seed, twice=False)
    assert isinstance(outcome, Outcome), outcome.report()


def test_one_seed_is_one_history() -> None:
    first, second, other = (Cluster(seed).run() for seed in (2, 2, 14))
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != other.fingerprint


def test_disks_that_lie_about_syncs_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class LyingDisk(FaultyDisk):
        def __init__(self) -> None:
            super().__init__(lying=True)

    monkeypatch.setattr(node_module, "FaultyDisk", LyingDisk)
    assert any(isinstance(simulate(seed, twice=False), Failure) for seed in range(12))


def test_what_never_happened_is_named() -> None:
    from collections import Counter

    assert "power cut" in missing(Counter(ack=1))


def test_rotation_reaches_every_mutation() -> None:
    seen = {name for turn in range(len(MUTATIONS)) for name in rotating(turn)}
    assert seen == set(MUTATIONS)


def test_there_are_enough_mutations() -> None:
    assert len(MUTATIONS) >= 50


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_mutation_can_be_planted_and_is_taken_out_again(name: str) -> None:
    patches = MUTATIONS[name]()
    before = [getattr(owner, attribute) for owner, attribute, _ in patches]
    with plant(name):
        assert [getattr(owner, attribute) for owner, attribute, _ in patches] != before
    assert [getattr(owner, attribute) for owner, attribute, _ in patches] == before


# Every invariant can fail.


class _Place:
    """As much of a node as the watch looks at."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"n{number}"
        self.replica: Any = self
        self.raft: Any = self
        self.role: Any = None
        self.term = 1
        self.membership = Membership((NodeId(1), NodeId(2), NodeId(3)))


def _entry(index: int, term: int, payload: bytes = b"") -> Entry:
    return Entry(Index(index), Term(term), EntryKind.NOOP, payload)


def _view(**changes: Any) -> View:
    view = View(Term(1), False, Index(2), Index(2), Index(2), Index(2), Index(0), Index(1))
    return view._replace(**changes)


def _watch() -> tuple[Watch, Any]:
    watch = Watch()
    place: Any = _Place(1)
    for number in (1, 2, 3):
        watch.logs[number] = LogView(0, [1, 1])
        watch.durable[number] = LogView(0, [1, 1])
    watch._check_view(place, None, _view())
    return watch, place


def _early_vote(watch: Watch, place: Any) -> None:
    watch.saw_send(
        place,
        VoteResponse(source=NodeId(1), target=NodeId(2), term=Term(1), pre=False, granted=True),
    )


def _double_vote(watch: Watch, place: Any) -> None:
    for target in (2, 3):
        watch.promised[1] = HardState(Term(1), NodeId(target))
        watch.saw_send(
            place,
            VoteResponse(
                source=NodeId(1), target=NodeId(target), term=Term(1), pre=False, granted=True
            ),
        )


def _early_ack(watch: Watch, place: Any) -> None:
    watch.saw_send(
        place,
        AppendResponse(source=NodeId(1), target=NodeId(2), term=Term(1), session=1, match=Index(3)),
    )


def _message_from_the_future(watch: Watch, place: Any) -> None:
    watch.saw_send(
        place,
        AppendResponse(source=NodeId(1), target=NodeId(2), term=Term(9), session=1),
    )


def _other_entry(watch: Watch, place: Any) -> None:
    watch.saw_ready(place, Ready(sequence=1, entries=(_entry(3, 1, b"a"),)))
    watch.logs[1] = LogView(0, [1, 1])
    watch.saw_ready(place, Ready(sequence=2, entries=(_entry(3, 1, b"b"),)))


def _second_leader(watch: Watch, place: Any) -> None:
    watch._check_view(place, None, _view(leading=True))
    other: Any = _Place(2)
    watch._check_view(other, None, _view(leading=True))


def _incomplete_leader(watch: Watch, place: Any) -> None:
    watch.logs[2] = LogView(0, [1])
    other: Any = _Place(2)
    watch._check_view(
        other, None, _view(term=2, leading=True, commit=1, applied=1, durable=1, last=1)
    )


def _no_quorum(watch: Watch, place: Any) -> None:
    watch.logs[1].put(3, 1)
    watch._check_view(place, _view(), _view(commit=3, durable=3, last=3))


def _two_truths(watch: Watch, place: Any) -> None:
    watch.logs[2] = LogView(0, [1, 2])
    other: Any = _Place(2)
    watch._check_view(other, None, _view(term=2))


def _two_commands(watch: Watch, place: Any) -> None:
    watch.saw_applied(place, _entry(3, 1, b"a"))
    watch.saw_applied(place, _entry(3, 1, b"b"))


def _old_term(watch: Watch, place: Any) -> None:
    for number in (1, 2, 3):
        watch.logs[number].put(3, 1)
        watch.durable[number].put(3, 1)
    before = _view(term=2, leading=True, last=3, durable=3)
    watch._check_view(place, None, before)
    watch._check_view(place, before, before._replace(commit=Index(3)))


BREAKS: dict[str, Callable[[Watch, Any], None]] = {
    "VoteIsDurable": _early_vote,
    "OneVotePerTerm": _double_vote,
    "AckIsDurable": _early_ack,
    "MessageTerm": _message_from_the_future,
    "CommitInOwnTerm": _old_term,
    "LogMatching": _other_entry,
    "ElectionSafety": _second_leader,
    "LeaderCompleteness": _incomplete_leader,
    "QuorumHoldsCommitted": _no_quorum,
    "CommittedAgree": _two_truths,
    "StateMachineSafety": _two_commands,
    "MonotonicTerm": lambda watch, place: watch._check_view(place, _view(term=2), _view()),
    "MonotonicCommit": lambda watch, place: watch._check_view(place, _view(), _view(commit=1)),
    "AppliedIsCommitted": lambda watch, place: watch._check_view(place, None, _view(applied=3)),
    "CommittedIsDurable": lambda watch, place: watch._check_view(place, None, _view(durable=1)),
    "SnapshotInPlace": lambda watch, place: watch._check_view(place, None, _view(snapshot=9)),
}


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_invariant_can_fail(name: str) -> None:
    watch, place = _watch()
    with pytest.raises(Violation, match=f"^{name}:"):
        BREAKS[name](watch, place)


def _sends() -> Iterator[tuple[History, Send]]:
    history = History()
    send = Send(b"v", 0, 1, idempotent=True)
    history.begin(send)
    yield history, send


def _stored(value: bytes, offset: int) -> bytes:
    batch = build_batch(value, 1, 0, -1, -1, -1)
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def _lost(history: History, send: Send) -> None:
    history.acknowledged(send, 5)
    history.check_final(0, 0, {})


def _twice(history: History, send: Send) -> None:
    history.saw_bytes(0, _stored(b"v", 5), 5)
    history.saw_bytes(0, _stored(b"v", 6), 6)


def _other_value(history: History, send: Send) -> None:
    history.begin(Send(b"w", 0, 1, idempotent=True))
    history.saw_bytes(0, _stored(b"v", 5), 5)
    history.saw_bytes(0, _stored(b"w", 5), 5)


def _failed_and_read(history: History, send: Send) -> None:
    send.outcome = SendOutcome.FAILED
    history.saw_bytes(0, _stored(b"v", 5), 5)


def _acknowledged_elsewhere(history: History, send: Send) -> None:
    history.acknowledged(send, 5)
    history.acknowledged(send, 6)


def _stale_read(history: History, send: Send) -> None:
    history.saw_bounds(0, 0, 4, acked_end=5)


ANOMALIES: dict[str, Callable[[History, Send], object]] = {
    "NothingLost": _lost,
    "ExactlyOnce": _twice,
    "OneValuePerOffset": _other_value,
    "FailedMeansNot": _failed_and_read,
    "OneOffset": _acknowledged_elsewhere,
    "LinearizableRead": _stale_read,
    "NobodyTrimmed": lambda history, _: history.saw_bounds(0, 3, 9, 0),
    "NothingFromNowhere": lambda history, _: history.saw_bytes(0, _stored(b"?", 1), 1),
    "RightBatch": lambda history, _: history.saw_bytes(0, _stored(b"v", 1), 9),
    "DenseOffsets": lambda history, _: history.saw_bytes(0, _stored(b"v", 1) + _stored(b"v", 9), 1),
}


@pytest.mark.parametrize("name", sorted(ANOMALIES))
def test_anomaly_is_found(name: str) -> None:
    for history, send in _sends():
        with pytest.raises(Violation, match=f"^{name}:"):
            ANOMALIES[name](history, send)
