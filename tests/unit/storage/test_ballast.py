"""A full disk: appends are refused by the engine, everything else goes on."""

import pytest

from penstock.core.entries import HardState
from penstock.core.errors import DiskFull
from penstock.core.types import NodeId, Term
from penstock.storage.ballast import Ballast
from penstock.storage.job import run
from penstock.storage.settings import LogSettings
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    EntryMaker,
    complete,
    drain,
    everything,
    noop,
    open_log,
    write,
)

SETTINGS = LogSettings(segment_bytes=4096, ballast_bytes=16_384)


def test_a_full_disk_shows_at_a_roll_and_costs_the_ballast() -> None:
    disk = FaultyDisk()
    log = open_log(disk, settings=SETTINGS)
    entries = EntryMaker().run(1, 20)
    write(log, entries)
    disk.capacity_bytes = disk.used_bytes
    assert not log.statistics().full
    index = 21
    while not log.full:
        write(log, [noop(index)])
        entries.append(noop(index))
        index += 1
    assert not log.poisoned
    assert not disk.exists(f"{DIRECTORY}/ballast")
    log.stage(hard_state=HardState(Term(9), NodeId(2)), entries=[noop(index)])
    drain(log)
    assert log.durable_index == index, "votes and acknowledgements still work"
    job = log.regain()
    assert job is not None
    with pytest.raises(DiskFull, match="free some space") as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.full
    assert not log.poisoned
    disk.capacity_bytes *= 4
    complete(log, log.regain())
    assert not log.statistics().full
    assert log.regain() is None
    log.close()
    log = open_log(disk, settings=SETTINGS, verify_all=True)
    assert everything(log) == [*entries, noop(index)]
    assert not log.full


def test_without_ballast_left_the_log_is_poisoned() -> None:
    disk = FaultyDisk()
    settings = LogSettings(segment_bytes=4096, ballast_bytes=0)
    log = open_log(disk, settings=settings)
    write(log, EntryMaker().run(1, 5))
    disk.capacity_bytes = disk.used_bytes
    log.stage(entries=[noop(i) for i in range(6, 200)])
    job = log.take_job()
    assert job is not None
    with pytest.raises(DiskFull) as failure:
        run(job)
    log.fail(job, failure.value)
    assert log.poisoned
    log.close()
    disk.capacity_bytes *= 10
    assert open_log(disk, settings=settings).last_index >= 5


def test_a_log_opened_on_a_full_disk_knows_it() -> None:
    disk = FaultyDisk()
    write(open_log(disk, settings=SETTINGS), EntryMaker().run(1, 5))
    disk.kill()
    disk.remove(f"{DIRECTORY}/ballast")
    disk.capacity_bytes = disk.used_bytes + 1000
    log = open_log(disk, settings=SETTINGS)
    assert log.full
    assert log.free_bytes() <= 1000 + 16_384
    assert log.last_index == 5


def test_a_failed_making_leaves_nothing() -> None:
    disk = FaultyDisk()
    disk.make_directory("/data")
    ballast = Ballast(disk, "/data", size=1000, margin=0)
    disk.fail_next("allocate", error=DiskFull)
    with pytest.raises(DiskFull):
        ballast.make()
    assert disk.list("/data") == []
    assert not ballast.release()
    ballast.make()
    ballast.make()
    assert disk.list("/data") == ["ballast"]
    assert ballast.release()
    assert disk.list("/data") == []
