"""A log is copied while it is written, snapshots are taken and its old files are removed."""

import shutil
import threading
from pathlib import Path

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind, HardState, Membership, SnapshotMark
from penstock.core.errors import DamagedFile, DirectoryRefused, Unavailable
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.storage import (
    Identity,
    LogJob,
    LogSettings,
    RealDisk,
    ShardLog,
    run,
)
from penstock.storage.log_copy import hold_log
from penstock.storage.reading_disk import ReadingDisk
from penstock.storage.repair import verify_directory

IDENTITY = Identity(cluster_id="test", shard=ShardId(1), node=NodeId(1))
COPIES = 40
EACH = 8


class BusyLog:
    """A log that is written and tidied as long as it is busy."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.durable = Index(0)
        self.removals = 0
        self._ended = threading.Event()
        self._log = ShardLog.open(
            RealDisk(),
            self.directory,
            identity=IDENTITY,
            settings=LogSettings(segment_bytes=4096, ballast_bytes=0),
            solo=True,
        )
        self._log.stage(hard_state=HardState(term=Term(3), vote=NodeId(1)))

    def _do(self, job: LogJob | None) -> None:
        if job is not None:
            run(job)
            self._log.complete(job)

    def write(self) -> None:
        """Some entries; then a snapshot, and what it covers goes."""
        first = self._log.last_index + 1
        self._log.stage(
            entries=[
                Entry(Index(index), Term(3), EntryKind.COMMAND, command(index))
                for index in range(first, first + EACH)
            ]
        )
        self._do(self._log.take_job())
        self.durable = self._log.durable_index
        if self.durable % (6 * EACH) == 0:
            mark = SnapshotMark(self.durable, Term(3), Membership((NodeId(1),)))
            self._do(self._log.snapshot_job(mark, b"state"))
            self._do(self._log.take_job())
            self._do(self._log.reclaim_job({}, Index(self.durable + 1)))
            self._do(self._log.take_job())
            self.removals += 1

    def work(self) -> None:
        while not self._ended.is_set():
            self.write()

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        self._log.close()


def command(index: int) -> bytes:
    """A command that no machine knows."""
    return msgspec.msgpack.encode(["entry", index, bytes(400)])


@pytest.mark.slow
def test_every_copy_of_a_busy_log_is_whole(tmp_path: Path) -> None:
    log = BusyLog(tmp_path / "log")
    log.write()
    worker = threading.Thread(target=log.work)
    worker.start()
    made = 0
    try:
        while made < COPIES:
            through = log.durable
            held = hold_log(ReadingDisk(), log.directory)
            try:
                held.plan(through)
            except Unavailable:  # A snapshot was faster.
                held.close()
                continue
            target = tmp_path / f"copy-{made}"
            held.copy_to(RealDisk(), str(target))
            held.close()
            assert (held.index, held.term) == (through, Term(3))
            assert verify_directory(RealDisk(), str(target)) == []
            shutil.rmtree(target)
            made += 1
    finally:
        log.end()
        worker.join()
        log.close()
    assert log.removals > 1, "nothing was removed meanwhile"


def test_a_copy_opens_as_a_log(tmp_path: Path) -> None:
    log = BusyLog(tmp_path / "log")
    for _ in range(10):
        log.write()
    log.close()
    held = hold_log(ReadingDisk(), log.directory)
    held.plan(None)
    held.copy_to(RealDisk(), str(tmp_path / "copy"))
    held.close()
    copy = ShardLog.open(RealDisk(), str(tmp_path / "copy"), identity=IDENTITY, solo=True)
    assert copy.last_index == log.durable
    assert copy.hard_state == HardState(Term(3), NodeId(0)), "a copy has given no vote"
    assert copy.committed_hint == log.durable
    copy.close()


def test_what_is_not_there_cannot_be_copied(tmp_path: Path) -> None:
    with pytest.raises(DirectoryRefused):
        hold_log(ReadingDisk(), str(tmp_path))
    log = BusyLog(tmp_path / "log")
    log.write()
    log.close()
    held = hold_log(ReadingDisk(), log.directory)
    with pytest.raises(DamagedFile):
        held.plan(Index(log.durable + 1))
    held.close()
