"""A week of curves, and the file in which it is kept."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.core.limits import HISTORY_LONG_STEP_MS
from penstock.storage import RealDisk
from penstock.storage.memory_disk import MemoryDisk
from penstock.watch.history import CLUSTER, Curves, History, queue_key
from penstock.watch.history_file import CURRENT, EARLIER, HistoryFile
from penstock.watch.long_history import LongHistory
from tests.unit.watch.looped import on_a_loop
from tests.unit.watch.made import WALL_MS, queue, readings

JOBS = queue_key("jobs", "queue")
HOUR_S, DAY_S = 3_600, 86_400


class Kept:
    """A node that looks every ten seconds, and its histories."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._fine = History()
        self.long = LongHistory(self._fine, disk, "watch")
        self.now_s = 0

    async def look(self, until_s: int, ready: Iterable[int] = (6,)) -> None:
        values = list(ready)
        while self.now_s < until_s:
            value = values[self.now_s // 10 % len(values)]
            at_ms = WALL_MS + 1_000 * self.now_s
            self._fine.note(readings(queue(ready=value), at_ms=at_ms))
            for column in self.long.steps(at_ms):
                if column is not None:
                    await self.long.write(at_ms, column)
            self.now_s += 10

    def curves(self, seconds: int) -> Curves:
        at_ms = WALL_MS + 1_000 * (self.now_s - 10)
        return self.long.curves(JOBS, ("ready",), at_ms - 1_000 * seconds, at_ms)


@on_a_loop
async def test_an_hour_is_fine_and_a_day_is_coarse() -> None:
    kept = Kept(MemoryDisk())
    await kept.long.load()
    await kept.look(2 * HOUR_S + 30, ready=(0, 12))
    hour = kept.curves(HOUR_S)
    assert len(hour.times) == 361
    assert set(hour.series["ready"]) == {0, 12}
    day = kept.curves(DAY_S)
    steps = 2 * HOUR_S * 1_000 // HISTORY_LONG_STEP_MS
    assert len(day.times) == steps + 2, "and the fine points since the last of them"
    assert all(value == pytest.approx(6, abs=0.5) for value in day.series["ready"][:steps])


@on_a_loop
async def test_a_restart_forgets_nothing_and_leaves_a_gap() -> None:
    disk = MemoryDisk()
    first = Kept(disk)
    await first.long.load()
    await first.look(HOUR_S)
    first.long.close()
    second = Kept(disk)
    second.now_s = 3 * HOUR_S
    await second.long.load()
    await second.look(3 * HOUR_S + 20)
    for seconds, points in ((DAY_S, 11), (3 * HOUR_S, 11)):
        found = second.curves(seconds)
        assert found.times == sorted(found.times)
        assert found.series["ready"] == [6] * points + [None] + [6] * 2
    assert second.curves(HOUR_S).series["ready"] == [6] * 2


@on_a_loop
async def test_a_week_is_kept() -> None:
    kept = Kept(MemoryDisk())
    long = kept.long
    at_ms = WALL_MS
    for number in range(2_500):
        at_ms = WALL_MS + number * HISTORY_LONG_STEP_MS
        kept._fine.note(readings(queue(ready=1), at_ms=at_ms))
        for column in long.steps(at_ms):
            if column is not None:
                await long.write(at_ms, column)
    found = long.curves(JOBS, ("ready",), 0, at_ms)
    assert len(found.times) == 2_016


def test_the_files_are_bounded() -> None:
    disk = MemoryDisk()
    file = HistoryFile(disk, "watch", bytes_max=1_000)
    assert list(file.open()) == []
    for number in range(200):
        file.append(number, [(JOBS, "ready", float(number)), (CLUSTER, "ready", 1.0)])
    file.close()
    assert sorted(disk.list("watch")) == [CURRENT, EARLIER]
    for name in disk.list("watch"):
        assert disk.open(f"watch/{name}").size() <= 1_000
    found = list(HistoryFile(disk, "watch", bytes_max=1_000).open())
    assert [at_ms for at_ms, _ in found] == list(range(found[0][0], 200))
    assert found[-1][1] == [(JOBS, "ready", 199.0), (CLUSTER, "ready", 1.0)]


@pytest.mark.parametrize("harm", ["cut", "flipped", "junk"])
def test_a_damaged_file_is_read_up_to_there_and_goes_on(tmp_path: Path, harm: str) -> None:
    folder = str(tmp_path / "watch")
    file = HistoryFile(RealDisk(), folder)
    assert list(file.open()) == []
    for number in range(3):
        file.append(number, [(JOBS, "ready", 1.0)])
    file.close()
    path = tmp_path / "watch" / CURRENT
    data = bytearray(path.read_bytes())
    if harm == "cut":
        del data[-1]
    elif harm == "flipped":
        data[-1] ^= 1
    else:
        data += b"\xff" * 40
    path.write_bytes(data)
    again = HistoryFile(RealDisk(), folder)
    read = [at_ms for at_ms, _ in again.open()]
    assert read == ([0, 1, 2] if harm == "junk" else [0, 1])
    again.append(9, [(JOBS, "ready", 1.0), (CLUSTER, "lag", 2.0)])
    again.close()
    assert [at_ms for at_ms, _ in HistoryFile(RealDisk(), folder).open()] == [*read, 9]


@on_a_loop
async def test_a_disk_that_fails_costs_the_history_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "watch").write_text("a file, where a folder should be")
    long = LongHistory(History(), RealDisk(), str(tmp_path / "watch"))
    await long.load()
    await long.write(1, [])
    long.close()
