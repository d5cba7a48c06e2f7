"""The manifest and the other small files that are replaced whole."""

from random import Random

import pytest

from penstock.core.entries import Membership, SnapshotMark
from penstock.core.errors import NewerFormat
from penstock.core.types import Index, NodeId, Term
from penstock.storage.envelope import replace_whole, seal, unseal
from penstock.storage.identity import StoredIdentity
from penstock.storage.manifest import (
    ActiveRow,
    Manifest,
    SegmentRow,
    SnapshotRow,
    copy_manifest,
    load_manifest,
    named_files,
    store_manifest,
)
from penstock.storage.quarantine import Quarantine, load_quarantine, store_quarantine
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.unit.storage.logs import IDENTITY


def manifest(generation: int) -> Manifest:
    return Manifest(
        generation=generation,
        identity=IDENTITY,
        next_number=8,
        segments=[
            SegmentRow(
                number=1, base=Index(1), last=Index(9), end=500, chain=(1 << 32) - 1, sparse=False
            )
        ],
        active=ActiveRow(number=2, base=Index(10)),
        snapshot=SnapshotRow(
            number=3, mark=SnapshotMark(Index(7), Term(2), Membership((NodeId(1),)))
        ),
    )


@pytest.fixture
def disk() -> FaultyDisk:
    disk = FaultyDisk()
    disk.make_directory("/d")
    disk.sync_directory("/")
    store_manifest(disk, "/d", manifest(1))
    disk.sync_directory("/d")
    return disk


def test_what_is_stored_is_loaded(disk: FaultyDisk) -> None:
    assert load_manifest(disk, "/d") == manifest(1)
    assert disk.image("/d/manifest").count(b"\n") == 2, "a person can read it"
    assert named_files(manifest(1)) == {
        "00000000000000000001-000001.log",
        "00000000000000000001-000001.index",
        "00000000000000000010-000002.log",
        "00000000000000000010-000002.index",
        "snapshot-00000000000000000007-000003.snap",
    }


@pytest.mark.parametrize("name", ["manifest", "manifest.copy"])
def test_one_rotten_copy_costs_nothing(disk: FaultyDisk, name: str) -> None:
    for position in range(0, len(disk.image(f"/d/{name}")), 11):
        fork = disk.fork()
        fork.flip_bit(f"/d/{name}", position, position % 8)
        found = load_manifest(fork, "/d")
        assert found == manifest(1)
        copy_manifest(fork, "/d", manifest(1))
        assert fork.image("/d/manifest") == fork.image("/d/manifest.copy")


def test_two_rotten_copies_are_noticed(disk: FaultyDisk) -> None:
    disk.flip_bit("/d/manifest", 20, 1)
    disk.truncate_file("/d/manifest.copy", 30)
    assert load_manifest(disk, "/d") is None


def test_a_power_cut_leaves_the_old_or_the_new(disk: FaultyDisk) -> None:
    for operations in range(1, 12):
        for seed in range(5):
            fork = disk.fork()
            fork.cut_power_after(operations)
            try:
                store_manifest(fork, "/d", manifest(2))
                stored = True
            except PowerCut:
                stored = False
            fork.crash(Random(seed))
            found = load_manifest(fork, "/d")
            assert found == manifest(2) or (found == manifest(1) and not stored)


def test_a_newer_one_is_refused(disk: FaultyDisk) -> None:
    replace_whole(disk, "/d/manifest", seal(StoredIdentity(format=9, identity=IDENTITY)))
    with pytest.raises(NewerFormat, match="format 9"):
        load_manifest(disk, "/d")


def test_an_envelope_with_other_content_is_not_believed() -> None:
    stored = StoredIdentity(format=1, identity=IDENTITY)
    data = seal(stored)
    assert unseal(data, StoredIdentity) == stored
    assert unseal(data, Manifest) is None
    assert unseal(data[:-1], StoredIdentity) is None
    assert unseal(b"", StoredIdentity) is None


def test_an_unreadable_quarantine_trusts_nothing(disk: FaultyDisk) -> None:
    assert load_quarantine(disk, "/d") is None
    quarantine = Quarantine(reason="rot", file="x.log", position=7, trusted_index=Index(40))
    store_quarantine(disk, "/d", quarantine)
    assert load_quarantine(disk, "/d") == quarantine
    assert quarantine.describe() == "to be repaired: x.log at byte 7: rot; trusted up to 40"
    disk.flip_bit("/d/QUARANTINE", 15, 2)
    found = load_quarantine(disk, "/d")
    assert found is not None
    assert (found.trusted_index, found.repaired) == (0, False)
