"""Snapshots of a replica: taken in slices while it goes on, kept when they cannot be, carried to
followers of every release."""

from collections.abc import Iterator

import msgspec
import pytest

from penstock.core.entries import SnapshotMark
from penstock.core.types import Index, NodeId
from penstock.engine.replica import snapshot_transfer, upkeep
from penstock.engine.replica.network import SnapshotRequest
from penstock.engine.replica.snapshot_transfer import SnapshotSource
from penstock.machines.partitions import AppendBatch, Partitions
from penstock.machines.state_pieces import Piece
from tests.batches import build_batch
from tests.unit.engine.places import PARTITION, Cluster, Place, ask, with_partition


def append(cluster: Cluster, place: Place, count: int) -> None:
    for _ in range(count):
        ask(place, AppendBatch(PARTITION, build_batch(value=b"x" * 500)))
        cluster.settle()


def in_single_bytes(machine: Partitions) -> Iterator[Piece]:
    """A machine whose every piece is a byte."""
    whole = machine.snapshot()
    return iter([whole[at : at + 1] for at in range(len(whole))])


def test_a_snapshot_goes_on_slice_by_slice_while_requests_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, place = with_partition(
        snapshot_log_bytes=5_000, snapshot_slice_bytes=1, snapshot_write_bytes=4
    )
    taken: list[Index] = []

    def pieces(machine: Partitions) -> Iterator[Piece]:
        taken.append(place.replica.applied_index)
        monkeypatch.undo()  # The whole is made of the machine's own pieces.
        found = in_single_bytes(machine)
        monkeypatch.setattr(Partitions, "snapshot_pieces", pieces)
        return found

    monkeypatch.setattr(Partitions, "snapshot_pieces", pieces)
    answered = 0
    for _ in range(60):
        answers = ask(place, AppendBatch(PARTITION, build_batch(value=b"x" * 500)))
        while not answers:
            assert place.work(), "nothing is due and the request is not answered"
        answered += 1
    cluster.settle()
    log = place.replica.log
    assert answered == 60
    assert log.snapshot.index == taken[-1]
    monkeypatch.undo()
    restored = Partitions()
    restored.restore(log.load_snapshot()[1])
    assert restored.bounds(PARTITION).high_watermark < 61
    again = cluster.restart(1)
    cluster.elect()
    assert again.replica.machine.bounds(PARTITION).high_watermark == 60


def test_the_loop_turns_after_each_piece_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, place = with_partition(snapshot_log_bytes=5_000)
    encoded: list[int] = []

    def pieces(machine: Partitions) -> Iterator[Piece]:
        monkeypatch.undo()
        for piece in in_single_bytes(machine):
            encoded.append(len(encoded))
            yield piece

    append(cluster, place, 5)
    monkeypatch.setattr(Partitions, "snapshot_pieces", pieces)
    place.seconds_a_look = 2 * upkeep.SLICE_SECONDS
    for _ in range(20):
        ask(place, AppendBatch(PARTITION, build_batch(value=b"x" * 500)))
    seen = [0]
    while place.work():
        if len(encoded) > seen[-1]:
            seen.append(len(encoded))
    assert len(encoded) > 10
    assert seen == list(range(len(encoded) + 1)), "one piece at a time"
    assert place.replica.log.snapshot.index > 0


def test_a_snapshot_that_cannot_be_encoded_leaves_the_old_one_and_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, place = with_partition(snapshot_log_bytes=5_000)
    append(cluster, place, 20)
    before = place.replica.log.snapshot.index
    assert before > 0

    def pieces(_machine: Partitions) -> Iterator[Piece]:
        yield b"begun"
        raise OverflowError("too much for anything")

    monkeypatch.setattr(Partitions, "snapshot_pieces", pieces)
    append(cluster, place, 40)
    assert place.replica.halted is None
    assert place.replica.log.snapshot.index == before
    assert place.replica.log.first_index <= before + 1
    assert "too much for anything" in place.replica.snapshot_failure
    assert sum("cannot take a snapshot" in line for line in place.lines) == 1, "it is said once"
    monkeypatch.undo()
    append(cluster, place, 20)
    assert place.replica.log.snapshot.index > before
    assert not place.replica.snapshot_failure


def test_a_node_of_the_first_release_is_sent_no_state_that_would_stop_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, place = with_partition(snapshot_log_bytes=5_000)
    append(cluster, place, 20)
    log = place.replica.log
    request = SnapshotRequest(
        source=NodeId(2),
        target=NodeId(1),
        mark=log.snapshot,
        records_after=log.snapshot.index,
        state_position=0,
    )
    source = SnapshotSource(log)
    assert not source.answer(request).gone
    monkeypatch.setattr(snapshot_transfer, "SNAPSHOT_BYTES_OLD_MAX", 10)
    assert source.answer(request).gone
    assert not source.answer(msgspec.structs.replace(request, any_size=True)).gone


def test_the_first_release_reads_a_request_and_its_requests_are_read() -> None:
    """Fields that came later are at the end, and have defaults."""

    class Old(msgspec.Struct, array_like=True, tag="SnapshotRequest"):
        source: NodeId
        target: NodeId
        mark: SnapshotMark
        records_after: Index
        state_position: int
        erased_through: Index = Index(0)

    new = SnapshotRequest(
        source=NodeId(2),
        target=NodeId(1),
        mark=SnapshotMark(),
        records_after=Index(3),
        state_position=7,
        any_size=True,
    )
    old = msgspec.msgpack.decode(msgspec.msgpack.encode(new), type=Old)
    assert (old.records_after, old.state_position) == (3, 7)
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=SnapshotRequest)
    assert not read.any_size
