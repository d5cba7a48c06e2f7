"""`penstock backup`, `restore` and `verify`: what is promised of them, on a real broker's files."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import run
from penstock.core.errors import DirectoryRefused, Unavailable
from penstock.core.types import Index, ShardId
from penstock.engine.cluster.backups.backup import BackupRun, shard_path, shards_in
from penstock.engine.cluster.backups.restore import (
    EPOCHS_SKIPPED,
    PRODUCER_IDS_SKIPPED,
    TERMS_SKIPPED,
)
from penstock.storage import RealDisk
from penstock.storage.log_copy import hold_log
from penstock.storage.reading_disk import ReadingDisk
from penstock.storage.repair import verify_directory
from tests.web_broker import WebBroker

MESSAGES = 90
SEED = 20
SMALL = {"LOCK", "lock", "ballast"}

Captured = pytest.CaptureFixture[str]


def fill(broker: WebBroker) -> None:
    broker.expect(
        201, "POST", "/v1/queues", {"name": "jobs", "settings": {"dead_letter_topic": ""}}
    )
    for first in range(0, MESSAGES, 45):
        messages = [{"body": f"job {first + one}"} for one in range(45)]
        broker.expect(201, "POST", "/v1/queues/jobs/messages", {"messages": messages})


def receive(broker: WebBroker, count: int) -> list[dict[str, Any]]:
    body = {"max": count, "lease_ms": 60_000}
    messages: list[dict[str, Any]] = broker.expect(200, "POST", "/v1/queues/jobs/receive", body)[
        "messages"
    ]
    return messages


def settle(broker: WebBroker, message: dict[str, Any]) -> str:
    """What becomes of an acknowledgement."""
    verdicts = {"verdicts": [{"receipt": message["receipt"], "verdict": "ack"}]}
    (outcome,) = broker.expect(200, "POST", "/v1/queues/jobs/settle", verdicts)["outcomes"]
    return str(outcome)


def said(capsys: Captured, *arguments: str, code: int = 0) -> str:
    """What a command prints; it must end like this."""
    found = run(arguments)
    captured = capsys.readouterr()
    assert found == code, captured.out + captured.err
    return captured.out + captured.err


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The data of a broker that was stopped."""
    data = tmp_path / "data"
    with WebBroker(data) as broker:
        fill(broker)
    return data


@pytest.mark.slow
def test_a_running_node_is_backed_up_and_comes_back(tmp_path: Path, capsys: Captured) -> None:
    backup, data = tmp_path / "backup", tmp_path / "new"
    with WebBroker(tmp_path / "data") as broker:
        fill(broker)
        before = receive(broker, 3)
        assert settle(broker, before[0]) == "done"
        told = said(
            capsys,
            *("backup", str(backup), "--data", str(tmp_path / "data"), "--http", broker.http),
            "--json",
        )
        document = json.loads(told)["backup"]
        assert document["kind"] == "moment"
        assert [one["shard"] for one in document["shards"]] == [0, 1, 2]
        after = receive(broker, 1)[0]
        ids = broker.node.engine.topics.catalog
        old_ids, old_term = ids._next_producer_id, broker.node.cluster.local_shard(ShardId(1)).term
        said(capsys, "verify", str(tmp_path / "data"), code=1)  # It runs.
    said(capsys, "verify", str(backup))
    said(capsys, "restore", str(backup), "--data", str(data))
    with WebBroker(data) as broker:
        catalog = broker.node.engine.topics.catalog
        assert catalog._next_producer_id >= old_ids + PRODUCER_IDS_SKIPPED
        assert broker.node.cluster.local_shard(ShardId(1)).term > old_term + TERMS_SKIPPED - 1
        # A lease that is in the backup can be settled; one that was given later cannot, although
        # the same message is leased again.
        assert settle(broker, before[1]) == "done"
        again = receive(broker, MESSAGES)
        assert len(again) == MESSAGES - 3
        assert after["offset"] in [one["offset"] for one in again]
        assert settle(broker, after) == "stale"
        assert settle(broker, again[0]) == "done"
        epochs = [work.epoch for work in works(broker)]
        assert min(epochs) > EPOCHS_SKIPPED


def works(broker: WebBroker) -> list[Any]:
    found = []
    for shard in (ShardId(1), ShardId(2)):
        running = broker.node.shards.get(shard)
        assert running is not None
        for queue in running.machine.queues._queues.values():
            found += list(queue.groups.values())
    return found


@pytest.mark.slow
def test_a_flipped_bit_is_found_and_named(stopped: Path, tmp_path: Path, capsys: Captured) -> None:
    backup = tmp_path / "backup"
    said(capsys, "backup", str(backup), "--data", str(stopped))
    chance = random.Random(SEED)
    for directory in (backup, stopped):
        said(capsys, "verify", str(directory))
        for path in sorted(directory.rglob("*")):
            if path.is_dir() or path.name in SMALL or not path.stat().st_size:
                continue
            whole = path.read_bytes()
            used = len(whole.rstrip(b"\0"))
            at = chance.randrange(used)
            if path.name in ("vote", "vote.copy", "marker"):
                at = chance.choice(_slot_bytes(whole))
            rotten = bytearray(whole)
            rotten[at] ^= 1 << chance.randrange(8)
            path.write_bytes(rotten)
            told = said(capsys, "verify", str(directory), code=1)
            assert path.name in told, f"byte {at} of {path} was changed, seed {SEED}: {told}"
            path.write_bytes(whole)
    said(capsys, "verify", str(backup), str(stopped))


def _slot_bytes(data: bytes) -> list[int]:
    """The places of a slot file that were written."""
    return [at for start in (0, 4096) for at in range(start, start + 48) if data[start : start + 1]]


@pytest.mark.slow
def test_a_file_that_is_missing_is_named(stopped: Path, tmp_path: Path, capsys: Captured) -> None:
    backup = tmp_path / "backup"
    said(capsys, "backup", str(backup), "--data", str(stopped))
    gone = next(backup.glob("shard-1/*.log"))
    gone.unlink()
    assert gone.name in said(capsys, "verify", str(backup), code=1)
    assert gone.name in said(
        capsys, "restore", str(backup), "--data", str(tmp_path / "new"), code=1
    )
    assert not (tmp_path / "new" / "node").exists(), "a half restored directory could be started"


@pytest.mark.slow
def test_what_was_held_is_copied_though_the_node_has_removed_it(
    stopped: Path, tmp_path: Path
) -> None:
    taking = BackupRun(ReadingDisk(), str(stopped))
    taking.hold(None, running=False)
    for path in stopped.glob("shard-*/*.snap"):
        path.unlink()
    for path in stopped.glob("shard-*/*.log"):
        path.unlink()
    made = taking.copy_to(RealDisk(), str(tmp_path / "backup"), kind="stopped", now_ms=1)
    taking.close()
    for copy in made.shards:
        copied = shard_path(str(tmp_path / "backup"), copy.shard)
        assert not verify_directory(RealDisk(), copied)


@pytest.mark.slow
def test_a_copy_ends_where_it_is_told_to(stopped: Path, tmp_path: Path) -> None:
    held = hold_log(ReadingDisk(), str(stopped / "shard-0"))
    mark = held.manifest.snapshot
    assert mark is not None, "a clean stop takes a snapshot"
    with pytest.raises(Unavailable):
        held.plan(Index(mark.mark.index - 1))
    held.close()
    with WebBroker(tmp_path / "other") as broker:
        fill(broker)
        running = broker.node.shards.get(ShardId(1))
        assert running is not None
        last = running.replica.applied_index
        for through in range(1, last + 1):
            held = hold_log(ReadingDisk(), str(tmp_path / "other" / "shard-1"))
            held.plan(Index(through))
            target = str(tmp_path / f"through-{through}")
            held.copy_to(RealDisk(), target)
            held.close()
            assert held.index == through
            assert not verify_directory(RealDisk(), target)


@pytest.mark.slow
def test_what_cannot_be_done_is_refused(stopped: Path, tmp_path: Path, capsys: Captured) -> None:
    backup = tmp_path / "backup"
    said(capsys, "backup", str(backup), "--data", str(stopped))
    for directory, wanted in ((backup, "not empty"), (tmp_path / "one", "no directory")):
        data = stopped if directory is backup else tmp_path / "nowhere"
        assert wanted in said(capsys, "backup", str(directory), "--data", str(data), code=1)
    assert "not empty" in said(capsys, "restore", str(backup), "--data", str(stopped), code=1)
    unfinished = tmp_path / "unfinished"
    shutil.copytree(backup, unfinished)
    (unfinished / "backup").unlink()
    for command in (("verify",), ("restore", "--data", str(tmp_path / "two"))):
        told = said(capsys, command[0], str(unfinished), *command[1:], code=1)
        assert "never finished" in told
    partial = json.loads((backup / "backup").read_bytes().splitlines()[0])
    assert [one["shard"] for one in partial["shards"]] == shards_in(ReadingDisk(), str(backup))
    with pytest.raises(DirectoryRefused):
        BackupRun(ReadingDisk(), str(tmp_path))


@pytest.mark.slow
def test_the_backup_that_reaches_furthest_counts(tmp_path: Path, capsys: Captured) -> None:
    data, early, late = (tmp_path / name for name in ("data", "early", "late"))
    with WebBroker(data) as broker:
        fill(broker)
    said(capsys, "backup", str(early), "--data", str(data))
    with WebBroker(data) as broker:
        broker.expect(201, "POST", "/v1/queues/jobs/messages", {"messages": [{"body": "more"}]})
    said(capsys, "backup", str(late), "--data", str(data))
    said(capsys, "restore", str(early), str(late), "--data", str(tmp_path / "new"))
    with WebBroker(tmp_path / "new") as broker:
        assert receive(broker, MESSAGES + 5)[-1]["body"] == "more"


@pytest.mark.slow
def test_without_a_moment_each_shard_stops_where_it_is(tmp_path: Path, capsys: Captured) -> None:
    backup = tmp_path / "backup"
    with WebBroker(tmp_path / "data") as broker:
        fill(broker)
        nobody = ("--http", "127.0.0.1:1")
        said(capsys, "backup", str(backup), "--data", str(tmp_path / "data"), *nobody, code=1)
        told = said(
            capsys, "backup", str(backup), "--data", str(tmp_path / "data"), *nobody, "--apart"
        )
        assert "not at one moment" in told
    said(capsys, "restore", str(backup), "--data", str(tmp_path / "new"))
    with WebBroker(tmp_path / "new") as broker:
        assert len(receive(broker, MESSAGES)) == MESSAGES


@pytest.mark.slow
def test_the_moment_of_another_node_is_not_taken(tmp_path: Path, capsys: Captured) -> None:
    with WebBroker(tmp_path / "one"), WebBroker(tmp_path / "two") as other:
        told = said(
            capsys,
            *("backup", str(tmp_path / "backup"), "--data", str(tmp_path / "one")),
            *("--http", other.http),
            code=1,
        )
    assert "say where that cluster is with --url" in told
