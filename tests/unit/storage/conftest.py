"""Every log test runs on the real disk and on the one that can fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.storage.disk import RealDisk
from penstock.testing.disk import FaultyDisk
from tests.unit.storage.logs import Place


@pytest.fixture(params=["real", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "real":
        made = Place(RealDisk(), str(tmp_path / "shard"))
    else:
        made = Place(FaultyDisk(), "/data/shard-0")
    yield made
    made.close()
