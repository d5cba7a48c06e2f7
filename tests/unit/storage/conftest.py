"""Every log test runs on the real disk, on the one that can fail and on the one in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.disk import Disk, RealDisk
from penstock.storage.memory_disk import MemoryDisk
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import Place


@pytest.fixture(params=["real", "faulty", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "real":
        made = Place(RealDisk(), str(tmp_path / "shard"))
    else:
        disk: Disk = FaultyDisk() if request.param == "faulty" else MemoryDisk()
        made = Place(disk, "/data/shard-0")
    yield made
    made.close()
