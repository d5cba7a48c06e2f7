"""The order of disk, network and apply, and what callers are told."""

from collections import deque

import pytest

from penstock.core.entries import Membership
from penstock.core.errors import (
    DamagedFile,
    DiskFailed,
    InvalidBatch,
    LogPoisoned,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    OutOfOrderSequence,
    Overloaded,
    PartitionExists,
    StorageFull,
    Unavailable,
    UnknownPartition,
)
from penstock.core.types import NodeId, Offset, PartitionId, Term
from penstock.engine.replica import replica as replica_module
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.replica import Done
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.machine import Appended
from penstock.machines.partitions import AppendBatch
from penstock.raft import Role
from penstock.raft.messages import AppendResponse, VoteResponse
from tests.simulation.history import build_batch
from tests.unit.engine.places import PARTITION, Answer, Cluster, Place, ask, with_partition


def batch(value: bytes = b"v", *, producer: int = -1, sequence: int = -1) -> AppendBatch:
    epoch = 0 if producer >= 0 else -1
    return AppendBatch(PARTITION, build_batch(value, 1, 0, producer, epoch, sequence))


def test_less_than_a_commit_is_answered_earlier() -> None:
    cluster, leader = with_partition(3)
    answers: dict[Promise, list[Answer]] = {promise: [] for promise in Promise}
    for promise in Promise:
        leader.replica.submit(batch(), answers[promise].append, promise)
    assert [promise for promise in Promise if answers[promise]] == [Promise.PLANNED]
    while leader.work(write=False):
        pass
    job, done = leader.writer.jobs.popleft()
    written = False
    for step in job.steps:
        step()
        written = written or bool(answers[Promise.WRITTEN])
    assert written, "told before the job was done"
    assert not answers[Promise.DURABLE]
    done(None)
    while leader.work(write=False):
        pass
    assert answers[Promise.DURABLE]
    assert not answers[Promise.COMMITTED], "nobody else has it yet"
    cluster.settle()
    assert all(len(given) == 1 for given in answers.values())
    offsets = [given[0].base_offset for given in answers.values() if isinstance(given[0], Appended)]
    assert offsets == [0, 1, 2, 3]


@pytest.mark.parametrize("slow", [True, False])
def test_the_loop_turns_between_two_that_take_long_to_apply(slow: bool) -> None:
    _, place = with_partition()
    answers = [ask(place, batch(b"x" * 600_000)) for _ in range(3)]
    while place.work(write=False):
        pass
    place.seconds_a_look = 2 * replica_module.APPLY_SECONDS if slow else 0.0
    place.writer.run()
    assert [len(told) for told in answers] == ([1, 0, 0] if slow else [1, 1, 1])
    place.replica.tick()
    assert not answers[1] or not slow, "whatever else happens meanwhile"
    turns = []
    while place.soon:
        turns.append(sum(map(len, answers)))
        place.work(write=False)
    assert [len(told) for told in answers] == [1, 1, 1]
    if slow:
        assert min(turns.count(1), turns.count(2)) >= replica_module.GATHER_TURNS


def slow_commands(cluster: Cluster, place: Place, count: int = 3) -> list[list[Answer]]:
    """Commands that are committed together and of which each takes long to apply: the first is
    applied, and the loop has not turned since."""
    answers = [ask(place, CreatePartition(partition=PartitionId(7 + n))) for n in range(count)]
    place.seconds_a_look = 2 * replica_module.APPLY_SECONDS
    while not answers[0]:
        assert cluster.step(), "nothing is due and nothing is answered"
    return answers


def test_the_loop_turns_between_entries_that_are_committed_together() -> None:
    cluster, place = with_partition()
    answers = slow_commands(cluster, place)
    assert [len(told) for told in answers] == [1, 0, 0]
    turns = []
    while place.soon:
        turns.append(sum(map(len, answers)))
        place.work(write=False)
    assert [len(told) for told in answers] == [1, 1, 1]
    assert min(turns.count(1), turns.count(2)) >= replica_module.GATHER_TURNS


def test_a_leader_with_much_to_apply_still_sends_heartbeats() -> None:
    cluster, leader = with_partition(3)
    answers = slow_commands(cluster, leader)
    leader.sent.clear()
    leader.replica.tick()
    assert {message.target for message in leader.sent} == {2, 3}
    assert [len(told) for told in answers] == [1, 0, 0], "the loop has not turned"
    cluster.settle()
    assert [len(told) for told in answers] == [1, 1, 1]


def test_a_read_waits_for_all_entries_that_are_committed_before_it() -> None:
    cluster, place = with_partition()
    answers = slow_commands(cluster, place)
    read: list[Answer] = []
    place.replica.read_barrier(read.append)
    while not read:
        assert place.work(), "the read is not answered"
    assert [len(told) for told in answers] == [1, 1, 1]


def test_a_snapshot_takes_the_place_of_entries_that_wait_to_be_applied() -> None:
    cluster, leader = with_partition(3, snapshot_log_bytes=5_000)
    follower = cluster.places[2]
    follower.seconds_a_look = 2 * replica_module.APPLY_SECONDS
    for number in range(3):
        ask(leader, CreatePartition(partition=PartitionId(7 + number)))
    before = leader.replica.applied_index
    while follower.replica.applied_index <= before:
        if not cluster.step():
            leader.replica.tick()  # Followers learn of a commit by the next message.
    assert follower.replica.raft.commit > follower.replica.applied_index
    turns, follower.soon = follower.soon, deque()  # Its loop does not turn.
    cluster.cut.add(2)
    for _ in range(60):
        ask(leader, batch(b"x" * 1_000))
        cluster.settle()
    ask(leader, TrimPartition(partition=PARTITION, before=Offset(50)))
    cluster.tick(200)  # The leader gives back what it need not send any more.
    cluster.cut.clear()
    cluster.tick(40)
    assert any("installed the snapshot" in line for line in follower.lines), follower.lines
    follower.soon = turns
    cluster.tick(20)
    assert follower.replica.halted is None
    assert follower.replica.applied_index == leader.replica.applied_index
    assert follower.replica.machine.snapshot() == leader.replica.machine.snapshot()


def test_who_retires_applies_all_before() -> None:
    _, place = with_partition()
    answers = [ask(place, batch(b"x" * 600_000)) for _ in range(3)]
    while place.work(write=False):
        pass
    place.seconds_a_look = 2 * replica_module.APPLY_SECONDS
    place.writer.run()
    retired: list[Answer] = []
    place.replica.retire(retired.append)
    while place.work():
        pass
    assert retired == [Done()]
    assert [len(told) for told in answers] == [1, 1, 1]
    assert place.replica.log.snapshot.index == place.replica.applied_index


def test_an_append_is_answered_only_when_it_is_durable() -> None:
    _, place = with_partition()
    answers = ask(place, batch())
    while place.work(write=False):
        pass
    assert answers == []
    place.writer.run()
    while place.work(write=False):
        pass
    assert answers == [Appended(PARTITION, Offset(0), Offset(1))]


def test_requests_gather_while_the_disk_is_busy() -> None:
    _, place = with_partition()
    before = place.replica.log.last_index
    answers = [ask(place, batch())]
    place.work(write=False)
    answers += [ask(place, batch()) for _ in range(50)]
    while place.work():
        pass
    assert place.replica.log.last_index == before + 2
    assert [answer[0] for answer in answers] == [
        Appended(PARTITION, Offset(n), Offset(n + 1)) for n in range(51)
    ]


def test_a_follower_acknowledges_after_its_own_sync() -> None:
    cluster, leader = with_partition(3)
    ask(leader, batch())
    while leader.work(write=False):
        pass
    append = next(message for message in leader.sent if message.target == 2)
    follower = cluster.places[2]
    follower.replica.receive(append)
    while follower.work(write=False):
        pass
    assert not any(isinstance(message, AppendResponse) for message in follower.sent)
    follower.writer.run()
    assert any(isinstance(message, AppendResponse) for message in follower.sent)


def test_a_vote_leaves_after_it_is_durable() -> None:
    cluster = Cluster(3)
    candidate, voter = cluster.places[1], cluster.places[2]
    candidate.replica.campaign()
    for _ in range(20):
        while candidate.work():
            pass
        while candidate.sent:
            message = candidate.sent.popleft()
            if message.target == 2:
                voter.replica.receive(message)
        if voter.writer.jobs:
            break
        while voter.sent:
            candidate.replica.receive(voter.sent.popleft())
    votes = [m for m in voter.sent if isinstance(m, VoteResponse) and not m.pre]
    assert votes == []
    voter.writer.run()
    votes = [m for m in voter.sent if isinstance(m, VoteResponse) and not m.pre]
    assert [vote.granted for vote in votes] == [True]


def test_losing_leadership_leaves_the_outcome_unknown() -> None:
    cluster, leader = with_partition(3)
    cluster.cut = {1}
    proposed = ask(leader, batch())
    cluster.settle()
    assert proposed == []
    for _ in range(25):
        leader.replica.tick()
    while leader.work():
        pass
    assert isinstance(proposed[0], OutcomeUnknown)
    assert isinstance(ask(leader, batch())[0], NotLeader)


def test_what_was_not_proposed_certainly_did_not_happen() -> None:
    _, leader = with_partition(3)
    proposed = ask(leader, batch())
    while leader.work(write=False):
        pass
    gathered = ask(leader, batch())
    newer = AppendResponse(source=NodeId(2), target=NodeId(1), term=Term(99), session=0)
    leader.replica.receive(newer)
    assert isinstance(proposed[0], OutcomeUnknown)
    assert isinstance(gathered[0], NotLeader)


def test_a_repeated_batch_is_confirmed_with_the_original() -> None:
    _, place = with_partition()
    original = ask(place, batch(producer=7, sequence=0))
    repeated = ask(place, batch(producer=7, sequence=0))
    assert repeated == []
    while place.work():
        pass
    assert original == repeated == [Appended(PARTITION, Offset(0), Offset(1))]
    assert ask(place, batch(producer=7, sequence=0)) == original


def test_a_refusal_that_rests_on_a_plan_waits_for_it() -> None:
    _, place = with_partition()
    other = PartitionId(5)
    created = ask(place, CreatePartition(partition=other))
    refused = ask(place, CreatePartition(partition=other))
    assert refused == []
    while place.work():
        pass
    assert isinstance(refused[0], PartitionExists)
    assert len(created) == 1


def test_a_replaced_leader_does_not_refuse_a_sequence() -> None:
    cluster, old = with_partition(3)
    ask(old, batch(producer=7, sequence=0))
    cluster.settle()
    cluster.cut = {1}
    new = cluster.replace_leader()
    ask(new, batch(producer=7, sequence=1))
    cluster.settle()
    refused = ask(old, batch(producer=7, sequence=2))
    while old.work():
        pass
    assert refused == []
    cluster.cut = set()
    cluster.tick(3)
    assert isinstance(refused[0], NotLeader)


def test_a_proven_leader_refuses_a_sequence() -> None:
    cluster, leader = with_partition(3)
    ask(leader, batch(producer=7, sequence=0))
    cluster.settle()
    refused = ask(leader, batch(producer=7, sequence=5))
    cluster.settle()
    assert isinstance(refused[0], OutOfOrderSequence)


def test_a_broken_batch_is_refused_at_once() -> None:
    _, place = with_partition()
    broken = build_batch(b"v", 1, 0, -1, -1, -1)
    broken[-1] ^= 1
    assert isinstance(ask(place, AppendBatch(PARTITION, broken))[0], InvalidBatch)
    missing = ask(place, AppendBatch(PartitionId(9), build_batch(b"v", 1, 0, -1, -1, -1)))
    while place.work():
        pass
    assert isinstance(missing[0], UnknownPartition)


def test_too_much_waiting_is_refused() -> None:
    _, place = with_partition(waiting_bytes_max=500)
    answers = [ask(place, batch(b"x" * 200)) for _ in range(5)]
    assert any(isinstance(answer[0], Overloaded) for answer in answers if answer)
    while place.work():
        pass
    assert any(isinstance(answer[0], Appended) for answer in answers)


def test_too_many_waiting_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "PROPOSALS_WAITING_MAX", 4)
    _, place = with_partition()
    answers = [ask(place, batch(producer=7, sequence=0)) for _ in range(5)]
    assert [isinstance(answer[0], Overloaded) for answer in answers if answer] == [True]
    reads: list[Answer] = []
    place.replica.read_barrier(reads.append)
    assert isinstance(reads[0], Overloaded)
    while place.work():
        pass
    assert len(ask(place, batch(producer=7, sequence=0))) == 1, "there is room again"


def test_a_halt_ends_a_retirement() -> None:
    _, place = with_partition()
    place.disk.fail_next("sync", "/shard/*", DiskFailed)
    ask(place, batch())
    answers: list[Answer] = []
    place.replica.retire(answers.append)
    while place.work():
        pass
    assert isinstance(answers[0], LogPoisoned)


def test_a_read_barrier_needs_a_quorum() -> None:
    cluster, leader = with_partition(3)
    answers: list[Answer] = []
    cluster.cut = {1}
    leader.replica.read_barrier(answers.append)
    cluster.settle()
    assert answers == []
    cluster.cut = set()
    cluster.tick()
    assert answers == [Done()]


def test_reading_stays_within_what_is_committed() -> None:
    cluster, leader = with_partition(3)
    ask(leader, batch(b"one"))
    cluster.settle()
    cluster.cut = {1}
    ask(leader, batch(b"two"))
    cluster.settle()
    data = leader.replica.fetch(PARTITION, Offset(0), 1 << 20)
    assert b"one" in data
    assert b"two" not in data
    with pytest.raises(OffsetOutOfRange):
        leader.replica.fetch(PARTITION, Offset(2), 100)


def test_a_failed_sync_ends_the_replica() -> None:
    _, place = with_partition()
    place.disk.fail_next("sync", "/shard/*", DiskFailed)
    answers = ask(place, batch())
    while place.work():
        pass
    assert isinstance(answers[0], OutcomeUnknown)
    assert len(place.halts) == 1
    assert isinstance(ask(place, batch())[0], LogPoisoned)
    with pytest.raises(LogPoisoned):
        place.replica.fetch(PARTITION, Offset(0), 100)


def test_rot_found_by_a_reader_halts_and_is_repaired_after_a_restart() -> None:
    cluster, leader = with_partition(3)
    for number in range(40):
        ask(leader, batch(b"%d" % number + b"x" * 900))
        cluster.settle()
    victim = cluster.places[2]
    path = next(p for p in victim.disk.paths() if p.endswith(".log"))
    victim.disk.flip_bit(path, 5_000, 1)

    def read_everything() -> list[bytes]:
        return [victim.replica.fetch(PARTITION, Offset(offset), 1) for offset in range(40)]

    with pytest.raises(DamagedFile):
        read_everything()
    assert len(victim.halts) == 1
    victim = cluster.restart(2)
    assert victim.replica.raft.damaged
    cluster.tick(10)
    assert "is repaired and counts again" in victim.lines
    theirs = [leader.replica.fetch(PARTITION, Offset(offset), 1) for offset in range(40)]
    assert read_everything() == theirs


def test_snapshots_keep_the_log_short_and_trims_give_space_back() -> None:
    cluster, place = with_partition(snapshot_log_bytes=20_000)
    for number in range(100):
        ask(place, batch(b"x" * 1_000))
        cluster.settle()
        if number % 20 == 19:
            ask(place, TrimPartition(partition=PARTITION, before=Offset(number - 3)))
            cluster.settle()
    cluster.tick(100)
    statistics = place.replica.log.statistics()
    assert statistics.snapshot_index > 80
    assert statistics.removed_segments + statistics.rewritten_segments > 2
    assert statistics.size_bytes < 60_000


def test_a_restart_replays_to_the_same_state() -> None:
    cluster, place = with_partition(snapshot_log_bytes=10_000)
    for sequence in range(30):
        ask(place, batch(b"x" * 900, producer=7, sequence=sequence))
        cluster.settle()
    before = place.replica.machine.snapshot()
    place = cluster.restart(1, power=True)
    cluster.elect()
    assert place.replica.machine.snapshot() == before
    again = ask(place, batch(b"x" * 900, producer=7, sequence=29))
    assert again == [Appended(PARTITION, Offset(29), Offset(30))]


def test_a_full_disk_refuses_appends_and_takes_trims() -> None:
    cluster, place = with_partition()
    place.disk.capacity_bytes = place.disk.used_bytes + 1_000
    full: list[Answer] = []
    for number in range(200):
        full = ask(place, batch(b"%d" % number + b"x" * 900))
        cluster.settle()
        if full and isinstance(full[0], StorageFull):
            break
    assert isinstance(full[0], StorageFull)
    trimmed = ask(place, TrimPartition(partition=PARTITION, before=Offset(5)))
    cluster.settle()
    assert not isinstance(trimmed[0], Exception)
    place.disk.capacity_bytes = 1 << 40
    cluster.tick(40)
    assert not place.replica.log.full
    again = ask(place, batch())
    cluster.settle()
    assert isinstance(again[0], Appended)


def test_leadership_is_handed_over_without_losing_what_was_planned() -> None:
    cluster, leader = with_partition(3)
    planned = ask(leader, batch())
    leader.replica.transfer(NodeId(2))
    assert isinstance(ask(leader, batch())[0], Unavailable)
    cluster.settle()
    cluster.tick(2)
    assert cluster.places[2].replica.raft.role is Role.LEADER
    assert isinstance(planned[0], Appended)
    data = cluster.places[2].replica.fetch(PARTITION, Offset(0), 100)
    assert b"v" in data


def test_members_come_and_go() -> None:
    cluster, leader = with_partition(3)
    answers: list[Answer] = []
    leader.replica.change_membership(Membership((NodeId(1), NodeId(2))), answers.append)
    cluster.settle()
    assert answers == [Done()]
    leader.replica.change_membership(Membership((NodeId(1),)), answers.append)
    cluster.settle()
    assert answers == [Done(), Done()]
    appended = ask(leader, batch())
    cluster.settle()
    assert isinstance(appended[0], Appended)


def test_retiring_leaves_nothing_to_replay() -> None:
    cluster, place = with_partition()
    ask(place, batch())
    answers: list[Answer] = []
    place.replica.retire(answers.append)
    assert isinstance(ask(place, batch())[0], Unavailable)
    cluster.settle()
    assert answers == [Done()]
    assert place.replica.log.snapshot.index == place.replica.applied_index


def test_it_describes_itself() -> None:
    _, place = with_partition()
    assert place.replica.describe().startswith("node 1 leader term 1")
