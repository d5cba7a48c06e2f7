"""A cluster is backed up while clients write and nodes are killed; then all of it is lost, and a
new one is made from the backup.

Clients write in pairs: first a step, to one topic, and when that is acknowledged a note of it, to
another, in another shard. So a backup that is one moment of the cluster may lack a note whose step
it has, and never the other way round. Beside that they overwrite the values of a few keys, in a
topic that is compacted. A node that is stopped in good order takes snapshots, so that the second
backup has some.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import penstock
from penstock import Client
from penstock.testing.local_cluster import LocalCluster
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

WRITERS = 6
PARTITIONS = 4
BODY = "x" * 2_000
SETTINGS = {"storage.segment_size": "1MiB", "storage.ballast_size": "1MiB"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "500",
}
PROGRESS_PAIRS = 60
BACKUP_SECONDS_MAX = 120


class Promised(NamedTuple):
    """What was acknowledged before a backup was begun."""

    steps: set[str]
    notes: set[str]
    values: dict[str, int]


class Pairs:
    """What was acknowledged, in order of acknowledgement."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.values: dict[str, int] = {}
        self.ended = False
        self.news = asyncio.Event()

    async def write(self, client: Client, writer: int) -> None:
        number = 0
        while not self.ended:
            number += 1
            name = f"{writer}-{number}"
            await client.send("steps", f"{name} {BODY}", key=name)
            self.steps.append(name)
            await client.send("notes", name, key=f"other {name}")
            self.notes.append(name)
            await client.send("values", f"{number} {BODY}", key=str(writer))
            self.values[str(writer)] = number
            self.news.set()

    def promised(self) -> Promised:
        return Promised(set(self.steps), set(self.notes), dict(self.values))

    async def wait_progress(self) -> None:
        wanted = len(self.notes) + PROGRESS_PAIRS
        async with asyncio.timeout(60):
            while len(self.notes) < wanted:
                self.news.clear()
                await self.news.wait()


def command(*arguments: str) -> tuple[int, str]:
    """Run `penstock` as a process; its exit code and all it said."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        capture_output=True,
        timeout=BACKUP_SECONDS_MAX,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def http_of(data: Path, node: int) -> str:
    class Ready(msgspec.Struct):
        http: str

    found = msgspec.json.decode((data / f"node-{node}.ready").read_bytes(), type=Ready)
    return found.http


async def stored(client: Client, topic: str) -> Counter[str]:
    found = [one.body.split()[0] async for one in client.read(topic, codec=str)]
    return Counter(found)


async def newest(client: Client, topic: str) -> dict[str, int]:
    """The last value of each key."""
    found: dict[str, int] = {}
    async for one in client.read(topic, codec=str):
        assert one.key is not None
        key = one.key.decode()
        found[key] = max(found.get(key, 0), int(one.body.split()[0]))
    return found


def test_everything_acknowledged_before_a_backup_is_in_it(tmp_path: Path) -> None:
    asyncio.run(back_up_and_restore(tmp_path))


async def back_up_and_restore(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    pairs = Pairs()
    with LocalCluster(3, data=old, settings=SETTINGS) as cluster:
        async with penstock.connect(cluster.url) as client:
            for topic in ("steps", "notes"):
                await client.create_topic(topic, partitions=PARTITIONS)
            await client.create_topic("values", partitions=PARTITIONS, configs=COMPACTED)
            writers = [asyncio.create_task(pairs.write(client, one)) for one in range(WRITERS)]
            await pairs.wait_progress()
            first = await back_up(old, 2, tmp_path / "first", pairs)
            await pairs.wait_progress()
            await asyncio.to_thread(cluster.terminate, 1)
            await asyncio.to_thread(cluster.restart, 1)
            cluster.kill(3)
            await pairs.wait_progress()
            second = await back_up(old, 1, tmp_path / "second", pairs)
            await pairs.wait_progress()
            pairs.ended = True
            await asyncio.gather(*writers)
        for node in cluster.running:
            cluster.kill(node)
    assert len(second.steps) > len(first.steps)
    assert list((tmp_path / "second").glob("shard-*/*.snap")), "there was no snapshot"
    await check_restored(tmp_path / "second", new, second)
    await check_restored(tmp_path / "first", tmp_path / "newer", first, nodes="7")


async def back_up(data: Path, node: int, target: Path, pairs: Pairs) -> Promised:
    """Take a backup of a running node; the steps and notes that must be in it."""
    before = pairs.promised()
    code, said = await asyncio.to_thread(
        command,
        *("backup", str(target), "--data", str(data / f"node-{node}")),
        *("--http", http_of(data, node)),
    )
    assert code == 0, said
    assert "one moment of the cluster" in said
    code, said = await asyncio.to_thread(command, "verify", str(target))
    assert code == 0, said
    return before


async def check_restored(
    backup: Path, data: Path, before: Promised, *, nodes: str = "1,2,3"
) -> None:
    """A cluster made from the backup has what it promised, and works."""
    count = len(nodes.split(","))
    target = data if count > 1 else data / f"node-{nodes}"
    code, said = await asyncio.to_thread(
        command, "restore", str(backup), "--data", str(target), "--nodes", nodes
    )
    assert code == 0, said
    if count == 1:
        return  # `LocalCluster` counts from 1; that it can be made for any node is enough here.
    with LocalCluster(count, data=data, settings=SETTINGS) as cluster:
        async with penstock.connect(cluster.url) as client:
            steps, notes = await stored(client, "steps"), await stored(client, "notes")
            assert before.steps <= steps.keys(), "a step was acknowledged and is not there"
            assert before.notes <= notes.keys(), "a note was acknowledged and is not there"
            assert notes.keys() <= steps.keys(), "a note is there and its step is not"
            assert max(steps.values()) == 1, "a step is there twice"
            found = await newest(client, "values")
            for key, number in before.values.items():
                assert found[key] >= number, "a value was acknowledged and is not there"
            cluster.kill(2)
            await client.send("steps", "after", key="after")
            assert "after" in await stored(client, "steps")


def test_a_backup_that_is_killed_is_none_and_a_killed_broker_can_be_backed_up(
    tmp_path: Path,
) -> None:
    asyncio.run(kill_and_back_up(tmp_path))


def begin_and_kill(data: Path, target: Path) -> None:
    """Begin a backup, and kill it as soon as there is something to be seen of it."""
    arguments = ("backup", str(target), "--data", str(data / "node-1"), "--http", http_of(data, 1))
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until((target / "shard-0").exists, "the beginning of a backup", seconds=60)
    process.kill()
    process.wait()


async def kill_and_back_up(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    pairs = Pairs()
    with LocalCluster(1, data=old, settings=SETTINGS) as cluster:
        async with penstock.connect(cluster.url) as client:
            for topic in ("steps", "notes", "values"):
                await client.create_topic(topic, partitions=PARTITIONS)
            writers = [asyncio.create_task(pairs.write(client, one)) for one in range(WRITERS)]
            await pairs.wait_progress()
            killed = tmp_path / "killed"
            await asyncio.to_thread(begin_and_kill, old, killed)
            await pairs.wait_progress()
            pairs.ended = True
            await asyncio.gather(*writers)
        cluster.kill(1)
    if not (killed / "backup").exists():  # It may have been faster than we were.
        code, said = command("verify", str(killed))
        assert code == 1
        assert "never finished" in said
    code, said = command("backup", str(tmp_path / "dead"), "--data", str(old / "node-1"))
    assert code == 0, said
    code, said = command("restore", str(tmp_path / "dead"), "--data", str(new / "node-1"))
    assert code == 0, said
    with LocalCluster(1, data=new, settings=SETTINGS) as cluster:
        async with penstock.connect(cluster.url) as client:
            assert set(pairs.steps) <= (await stored(client, "steps")).keys()
            assert set(pairs.notes) <= (await stored(client, "notes")).keys()
            assert (await newest(client, "values")) == pairs.values
