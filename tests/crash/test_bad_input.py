"""The world at its worst: what is not ours, not readable, not whole, full, or failing.

Every refusal is one sentence that names the thing and the way out; never a traceback, and never a
silent repair of something that was promised.
"""

import asyncio
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.cli.main import run as run_command
from penstock.core.entries import HardState
from penstock.core.errors import (
    DirectoryInUse,
    DiskFailed,
    ForeignDirectory,
    NewerFormat,
    PenstockError,
    StorageFull,
)
from penstock.core.types import NodeId, Offset, PartitionId, ShardId, Term
from penstock.engine.replica.shard import Shard
from penstock.machines.commands import TrimPartition
from penstock.storage import Identity, LogSettings, RealDisk, ShardLog
from penstock.storage.envelope import seal
from penstock.storage.identity import StoredIdentity
from tests.crash.images import mounted_memory, mounting_missing, workspace
from tests.crash.ledger import Ledger
from tests.crash.processes import Child, strace_missing, tampering
from tests.crash.writer import (
    EXIT_HALTED,
    EXIT_REFUSED,
    IDENTITY,
    KEPT,
    TRIMMED,
    batch_of,
    batches_in,
    open_shard,
)
from tests.unit.storage.logs import EntryMaker, drain, write

pytestmark = [pytest.mark.crash, pytest.mark.slow]

WRITER = "tests.crash.writer"
KILLS = 25
PENSTOCK = os.path.join(os.path.dirname(sys.executable), "penstock")


@pytest.fixture
def space() -> Iterator[str]:
    """A directory in memory, if there is such a place: nothing here is about the device."""
    with workspace() as directory:
        yield directory


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory with several segments, indexes and a snapshot, left by a killed writer."""
    directory = str(tmp_path_factory.mktemp("sound") / "shard")
    with workspace() as space:
        place = os.path.join(space, "shard")
        with Child(WRITER, "write", place, "--life", "1") as child:
            assert child.until("ready")
            assert all(child.until("ack") for _ in range(700))
            child.kill()
        shutil.copytree(place, directory)
    return directory


def files_of(directory: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(directory).iterdir() if path.is_file()}


def open_as(directory: str, identity: Identity = IDENTITY, *, solo: bool = True) -> ShardLog:
    return ShardLog.open(
        RealDisk(),
        directory,
        identity=identity,
        settings=LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20),
        solo=solo,
    )


def refusal_of(directory: str) -> str:
    """What a process says that cannot open a directory: one line, and no traceback."""
    with Child(WRITER, "read", directory) as child:
        assert child.wait() == EXIT_REFUSED, child.errors()
        said = child.errors()
    assert "Traceback" not in said
    assert said.count("\n") == 0, said
    return said


# Not ours.


def test_a_directory_that_holds_something_else(space: str) -> None:
    Path(space, "notes.txt").write_text("mine")
    said = refusal_of(space)
    assert space in said
    assert "notes.txt" in said
    assert "a directory of its own" in said
    assert files_of(space)["notes.txt"] == b"mine"


@pytest.mark.parametrize(
    "other",
    [
        Identity("crash-test", ShardId(0), NodeId(2)),
        Identity("crash-test", ShardId(1), NodeId(1)),
        Identity("another", ShardId(0), NodeId(1)),
    ],
    ids=["node", "shard", "cluster"],
)
def test_the_log_of_somebody_else(space: str, other: Identity) -> None:
    directory = os.path.join(space, "shard")
    open_as(directory, other).close()
    before = files_of(directory)
    said = refusal_of(directory)
    assert other.describe() in said
    assert IDENTITY.describe() in said
    assert "identity" in said
    assert files_of(directory) == before
    for solo in (True, False):
        with pytest.raises(ForeignDirectory):
            open_as(directory, solo=solo)
    # Without its identity file, the log still knows whose it is.
    os.unlink(os.path.join(directory, "identity"))
    with pytest.raises(ForeignDirectory):
        open_as(directory)


def test_a_directory_of_a_later_version(sound: str, space: str) -> None:
    directory = os.path.join(space, "shard")
    shutil.copytree(sound, directory)
    later = StoredIdentity(format=99, identity=IDENTITY)
    Path(directory, "identity").write_bytes(seal(later))
    before = files_of(directory)
    said = refusal_of(directory)
    assert "format 99" in said
    assert os.path.join(directory, "identity") in said
    assert "start the version that wrote it" in said
    for solo in (True, False):
        with pytest.raises(NewerFormat):
            open_as(directory, solo=solo)
    for command in ("describe", "verify", "repair"):
        code, said = in_words("log", command, directory, *(["--yes"] * (command == "repair")))
        assert (code, "format 99" in said) == (1, True), f"{command}: {said}"
    assert files_of(directory) == before


def test_two_processes_on_one_directory(space: str) -> None:
    directory = os.path.join(space, "shard")
    with Child(WRITER, "write", directory) as first:
        assert first.until("ack")
        said = refusal_of(directory)
        assert os.path.join(directory, "LOCK") in said
        assert "another process" in said
        with pytest.raises(DirectoryInUse):
            open_as(directory)
        for command in ("verify", "repair"):
            code, said = in_words("log", command, directory, *(["--yes"] * (command == "repair")))
            assert (code, "another process" in said) == (1, True), f"{command}: {said}"
        assert all(first.until("ack") for _ in range(50)), "the first one was disturbed"


def test_a_running_log_can_be_described(space: str) -> None:
    """Files come and go meanwhile."""
    directory = os.path.join(space, "shard")
    with Child(WRITER, "write", directory) as child:
        for _ in range(40):
            assert all(child.until("ack") for _ in range(25))
            code, said = in_words("log", "describe", directory)
            assert code == 0, said


# Not readable.


def test_a_file_where_a_directory_should_be(space: str) -> None:
    path = os.path.join(space, "shard")
    Path(path).write_text("a file")
    assert path in refusal_of(path)
    assert path in refusal_of(os.path.join(path, "below"))
    for command in ("describe", "verify", "repair"):
        code, said = in_words("log", command, path)
        assert (code, path in said) == (1, True), f"{command}: {said}"


def test_a_directory_that_may_not_be_read(sound: str, space: str) -> None:
    directory = os.path.join(space, "shard")
    shutil.copytree(sound, directory)
    os.chmod(space, 0o711)
    os.chmod(directory, 0o700)
    with as_nobody(), pytest.raises(DiskFailed, match=re.escape(directory)):
        open_as(directory)
    os.chmod(directory, 0o755)
    with as_nobody(), pytest.raises(DiskFailed, match="Permission denied"):
        open_as(directory)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything; for a moment we are somebody who may not."""
    if os.geteuid() != 0:
        pytest.skip("permissions were not tried: taking them away needs root")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# Full.


def test_a_full_disk_refuses_appends_and_nothing_else(space: str) -> None:
    """Filled to the brim; then room is made by trimming alone, and appends go on."""
    _skip_unless_mounting()

    async def story(place: str) -> None:
        shard = await open_shard(os.path.join(place, "shard"))
        acked = await _append_until_full(shard)
        assert len(acked) >= 100
        with pytest.raises(StorageFull):
            await shard.append(KEPT, batch_of("again"))
        assert [value for _, value in batches_in(shard, TRIMMED)] == list(acked.values())
        before = list(acked)[-20]
        await shard.change(TrimPartition(partition=TRIMMED, before=Offset(before)))
        acked = {offset: value for offset, value in acked.items() if offset >= before}
        await _append_when_possible(shard, acked)
        await shard.close()
        shard = await open_shard(os.path.join(place, "shard"))
        there = dict(batches_in(shard, TRIMMED))
        assert {offset: there.get(offset) for offset in acked} == acked
        await shard.close()

    with mounted_memory(20 << 20, os.path.join(space, "small")) as place:
        asyncio.run(story(place))


def test_appends_go_on_when_somebody_else_makes_room(space: str) -> None:
    _skip_unless_mounting()

    async def story(place: str) -> None:
        filler = os.path.join(place, "filler")
        shard = await open_shard(os.path.join(place, "shard"))
        fill(filler, shard.replica.log.free_bytes() - (3 << 20))
        acked = await _append_until_full(shard)
        os.unlink(filler)
        await _append_when_possible(shard, acked)
        assert dict(batches_in(shard, TRIMMED)) == acked
        await shard.close()

    with mounted_memory(32 << 20, os.path.join(space, "small")) as place:
        asyncio.run(story(place))


def test_votes_are_kept_on_a_full_disk(space: str) -> None:
    """The ballast is there for this: a node that cannot vote may stop the whole cluster."""
    _skip_unless_mounting()
    with mounted_memory(2 << 20, os.path.join(space, "small")) as place:
        settings = LogSettings(segment_bytes=64 << 10, ballast_bytes=128 << 10)
        directory = os.path.join(place, "shard")
        log = ShardLog.open(RealDisk(), directory, identity=IDENTITY, settings=settings, solo=False)
        maker = EntryMaker()
        index = 0
        while not log.full:
            index += 1
            write(log, [maker.append(index, value=b"v" * 20_000)])
        for term in range(2, 40):
            log.stage(hard_state=HardState(Term(term), NodeId(1)))
            drain(log)
        log.close()
        log = ShardLog.open(RealDisk(), directory, identity=IDENTITY, settings=settings, solo=False)
        assert log.quarantine is None
        assert (log.hard_state.term, log.last_index) == (39, index)
        log.close()


def fill(path: str, size: int) -> None:
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


async def _append_until_full(shard: Shard) -> dict[int, str]:
    acked: dict[int, str] = {}
    with contextlib.suppress(StorageFull):
        while True:
            value = f"fill-{len(acked)}t"
            acked[(await shard.append(TRIMMED, batch_of(value))).base_offset] = value
    assert shard.replica.log.full
    assert not shard.halted.done()
    return acked


async def _append_when_possible(shard: Shard, acked: dict[int, str]) -> None:
    """The shard looks at the space it has every few ticks; then there are fifty appends more."""
    end = len(acked) + 50
    while len(acked) < end:
        value = f"later-{len(acked)}t"
        try:
            acked[(await shard.append(TRIMMED, batch_of(value))).base_offset] = value
        except StorageFull:
            await asyncio.sleep(0.01)


def _skip_unless_mounting() -> None:
    missing = mounting_missing()
    if missing is not None:
        pytest.skip(f"no disk was filled: {missing}")


# Failing.


@pytest.mark.parametrize("number", [1, 7, 60])
@pytest.mark.parametrize("call", ["fdatasync", "pwritev2", "fsync"])
def test_a_failed_call_ends_all_acknowledgements(space: str, call: str, number: int) -> None:
    """One error of the device, and then all goes well again: the process must not believe it."""
    missing = strace_missing()
    if missing is not None:
        pytest.skip(f"no {call} was made to fail: {missing}")
    directory = os.path.join(space, "shard")
    ledger = Ledger()
    with Child(WRITER, "write", directory, "--life", "1") as child:
        assert all(child.until("ack") for _ in range(20))
        child.kill()
        assert not ledger.hear(child.lines)
    under = tampering(call, f"error=EIO:when={number}")
    arguments = ["--life", "2"]
    if call == "fdatasync":
        arguments.append("--two-calls")  # Else most syncs are part of a write.
    with Child(WRITER, "write", directory, *arguments, under=under) as child:
        code = child.wait()
        assert code in (EXIT_HALTED, EXIT_REFUSED), f"exit {code}: {child.errors()}"
        assert "Input/output error" in child.errors()
        assert "Traceback" not in child.errors()
        assert not ledger.hear(child.lines)
    with Child(WRITER, "read", directory) as child:
        assert child.wait() == 0, child.errors()
        assert not ledger.hear(child.lines)


def test_nothing_acknowledged_is_lost_in_a_series_of_kills(space: str) -> None:
    random = Random(1)
    ledger = Ledger()
    directory = os.path.join(space, "shard")
    for life in range(KILLS):
        with Child(WRITER, "write", directory, "--life", str(life)) as child:
            assert child.until("ready"), child.errors()
            assert all(child.until("ack") for _ in range(random.randrange(400)))
            child.kill()
            complaints = ledger.hear(child.lines)
        assert not complaints, f"after kill {life}: " + "\n".join(complaints)
    with Child(WRITER, "read", directory) as child:
        assert child.wait() == 0, child.errors()
        assert not ledger.hear(child.lines)
    assert len(ledger.acked) >= KILLS * 50


# Not whole.


def test_the_commands_as_processes(sound: str, space: str) -> None:
    """Exit codes and words of describe, verify and repair, as an operator meets them."""
    directory = os.path.join(space, "shard")
    shutil.copytree(sound, directory)
    assert _penstock("log", "verify", directory)[0] == 0
    segment = sorted(name for name in os.listdir(directory) if name.endswith(".log"))[1]
    flip(os.path.join(directory, segment), 3_000, 4)
    assert _penstock("log", "describe", directory)[0] == 0
    code, said = _penstock("log", "verify", directory)
    assert (code, segment in said, f"penstock log repair {directory}" in said) == (1, True, True)
    code, said = _penstock("log", "repair", directory)
    assert (code, "--yes" in said) == (1, True)
    assert _penstock("log", "verify", directory)[0] == 1, "repaired without being asked to"
    code, said = _penstock("log", "repair", directory, "--yes")
    assert (code, "lost: entries" in said, "set aside" in said) == (0, True, True)
    assert _penstock("log", "verify", directory)[0] == 0
    with Child(WRITER, "read", directory) as child:
        assert child.wait() == 0, child.errors()
        assert not any("altered" in line for line in child.lines)


@pytest.mark.parametrize("part", range(4))
def test_an_only_copy_never_starts_with_damage_and_can_be_repaired(
    sound: str, space: str, part: int
) -> None:
    """Random damage to an only copy: no answer of any command is a traceback."""
    outcomes = set()
    for number in range(part * 15, part * 15 + 15):
        directory = os.path.join(space, f"{number}")
        shutil.copytree(sound, directory)
        what = damage(directory, Random(number))
        outcomes.add(_examine_and_repair(directory, what))
        shutil.rmtree(directory)
    assert "repaired" in outcomes


def _examine_and_repair(directory: str, what: str) -> str:
    assert in_words("log", "describe", directory)[0] in (0, 1), what
    code, said = in_words("log", "verify", directory)
    assert code in (0, 1), what
    if code == 0:
        open_as(directory).close()
        return "harmless"
    assert directory in said, what
    code, said = in_words("log", "repair", directory, "--yes")
    if code != 0:
        assert "backup" in said, f"{what}: {said}"
        return "beyond repair"
    assert in_words("log", "verify", directory)[0] == 0, f"{what}: {said}"
    try:
        log = open_as(directory)
    except PenstockError as error:
        raise AssertionError(f"{what}: cannot be opened after its repair: {error}") from error
    for partition in (KEPT, TRIMMED):
        log.read(PartitionId(partition), Offset(0), 1 << 24, Offset(1 << 40))
    log.close()
    return "repaired"


def damage(directory: str, random: Random) -> str:
    """Flip a bit of a file, cut it, or take it away."""
    names = sorted(name for name in os.listdir(directory) if name != "LOCK")
    if random.random() < 0.5:
        names = [name for name in names if name.endswith(".log")]
    name = random.choice(names)
    path = os.path.join(directory, name)
    size = os.path.getsize(path)
    position, bit = random.randrange(size or 1), random.randrange(8)
    how = random.choice(["flip", "flip", "cut", "remove"]) if size else "remove"
    if how == "remove":
        os.unlink(path)
    elif how == "cut":
        os.truncate(path, position)
    else:
        flip(path, position, bit)
    return f"{how} {name}, bit {bit} of byte {position} of {size}"


def flip(path: str, position: int, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def in_words(*arguments: str) -> tuple[int, str]:
    """A command in this process: its exit code and all it said. An exception would be a bug."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(arguments)
    said = out.getvalue() + err.getvalue()
    assert "Traceback" not in said
    return code, said


def _penstock(*arguments: str) -> tuple[int, str]:
    """The same as a process."""
    done = subprocess.run(
        [PENSTOCK, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return done.returncode, said
