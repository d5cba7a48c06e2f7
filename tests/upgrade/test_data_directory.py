"""What 0.1.0 has left on disk opens under the present version, and all of it is there.

Four ways: a directory whose broker was killed, so that everything is read from logs; one whose
broker was stopped in good order and has left snapshots; a backup, which is restored; and a
directory of the engine inside a program.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock
from tests.cluster.processes import PRESENT, Build, Cluster
from tests.interop.served import Served
from tests.upgrade.contents import Content, Site, contents, states
from tests.upgrade.old_version import RUN_SECONDS_MAX, missing, old_version

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

FLAGS = ("--storage.segment-size", "1MiB", "--storage.ballast-size", "1MiB")


def broker(directory: Path, build: Build) -> Cluster:
    return Cluster(directory, nodes=1, shards=2, flags=FLAGS, build=build)


async def for_each(cluster: Cluster, things: Sequence[Content], what: str) -> None:
    """Write or check all of them, and say which one it was if that fails."""
    served = Served(cluster)
    async with penstock.connect(f"penstock://{served.kafka}") as client:
        site = Site(client, served.kafka, served.client())
        for thing in things:
            try:
                await getattr(thing, what)(site)
            except Exception as error:
                error.add_note(f"in {what} of {type(thing).__name__}")
                raise


def check(directory: Path, data: Path, things: Sequence[Content]) -> None:
    """Start the present version with this data, and look."""
    with broker(directory, PRESENT) as cluster:
        shutil.move(data, cluster.nodes[1].data)
        cluster.start()
        asyncio.run(for_each(cluster, things, "check"))
        cluster.terminate(1)
        cluster.start()  # What it has written since, it reads again.
        assert cluster.complaints() == []


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[Content]]:
    """Directories `killed` and `stopped`, and a `backup`, of one broker of 0.1.0."""
    home = tmp_path_factory.mktemp("old")
    things = contents()
    old = old_version()
    with broker(home, old.build()) as cluster:
        data = cluster.nodes[1].data
        cluster.start()
        asyncio.run(for_each(cluster, things, "write"))
        cluster.kill(1)
        shutil.copytree(data, home / "killed")
        old.run("backup", str(home / "backup"), "--data", str(data))
        cluster.start()
        assert cluster.terminate(1) == 0
        shutil.copytree(data, home / "stopped")
        assert cluster.complaints() == []
    return home, things


def test_a_directory_of_a_broker_that_was_killed(
    left_behind: tuple[Path, Sequence[Content]], tmp_path: Path
) -> None:
    home, things = left_behind
    check(tmp_path, home / "killed", things)


def test_a_directory_of_a_broker_that_was_stopped(
    left_behind: tuple[Path, Sequence[Content]], tmp_path: Path
) -> None:
    home, things = left_behind
    assert list((home / "stopped").rglob("*.snap")), "there are no snapshots to be read"
    check(tmp_path, home / "stopped", things)


def test_a_backup(left_behind: tuple[Path, Sequence[Content]], tmp_path: Path) -> None:
    home, things = left_behind
    for arguments in (
        ("verify", str(home / "backup")),
        ("restore", str(home / "backup"), "--data", str(tmp_path / "restored")),
    ):
        done = subprocess.run(
            [*PRESENT.command, *arguments],
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    check(tmp_path / "broker", tmp_path / "restored", things)


WRITE_EMBEDDED = """
import asyncio, sys, penstock

async def main():
    async with penstock.connect(f"file:{sys.argv[1]}") as client:
        await client.create_queue("jobs", deliveries_max=3)
        await client.send_many("jobs", ["one", "two", "three"])
        (leased,) = await client.receive("jobs", 1, lease=3600)
        await client.send("jobs", "later", delay=3600)
        await client.send_many("log", [f"row {number}" for number in range(100)], partition=0)

asyncio.run(main())
"""


def test_a_directory_of_an_embedded_engine(tmp_path: Path) -> None:
    old_version().run_code(WRITE_EMBEDDED, str(tmp_path / "data"))

    async def look() -> None:
        async with penstock.connect(f"file:{tmp_path / 'data'}") as client:
            configs = (await client.describe_queue("jobs")).configs
            assert configs["queue.deliveries.max"] == "3"
            jobs = client.queue("jobs", codec=str)
            assert states(await jobs.stats()) == {"ready": 2, "leased": 1, "delayed": 1, "dead": 0}
            assert [one.body for one in await jobs.receive(10)] == ["two", "three"]
            rows = [one.body async for one in client.read("log", codec=str)]
            assert rows == [f"row {number}" for number in range(100)]

    asyncio.run(look())
