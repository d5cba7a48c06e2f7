"""The long history of a node on its disk: an append-only file, and the one before it.

A record is one column of the history: a time, and the values of curves. A curve is written out the
first time it appears in a file, and has a number from then on.

    length u32 · crc32c u32 · msgpack [time, [curve, …] new in this file, numbers, values]

Nothing is synced: what a power cut takes are points of a chart. A file that is full becomes the
earlier one; the two together are bounded. Where a record is damaged the file ends, and is
continued from there.
"""

import contextlib
import os
import struct
from array import array
from collections.abc import Iterator, Sequence

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import UNREADABLE, decode_msgpack
from penstock.core.errors import DiskFailed
from penstock.core.limits import HISTORY_FILE_BYTES_MAX
from penstock.storage import Disk, File

CURRENT = "history"
EARLIER = "history.earlier"
_FRAME = struct.Struct("<II")

Curve = tuple[tuple[str, ...], str]
"""The owner of a curve, and its name."""
Value = tuple[tuple[str, ...], str, float]


class _Record(msgspec.Struct, frozen=True, array_like=True):
    at_ms: int
    curves: tuple[Curve, ...]
    numbers: bytes
    values: bytes


class HistoryFile:
    """The history files of one node. The methods block; only one may run at a time."""

    def __init__(self, disk: Disk, folder: str, *, bytes_max: int = HISTORY_FILE_BYTES_MAX) -> None:
        self._disk = disk
        self._folder = folder
        self._bytes_max = bytes_max
        """The largest size of each of the two files."""
        self._file: File | None = None
        self._end = 0
        self._numbers: dict[Curve, int] = {}

    def open(self) -> Iterator[tuple[int, list[Value]]]:
        """The columns of both files, the oldest first; then the file is open for more."""
        self._disk.make_directory(self._folder)
        for name in (EARLIER, CURRENT):
            self._numbers = {}
            self._end = 0
            if self._disk.exists(self._path(name)):
                file = self._disk.open(self._path(name))
                try:
                    yield from self._columns(file)
                finally:
                    file.close()
        self._file = self._disk.open(self._path(CURRENT), create=True)
        self._file.truncate(self._end)

    def append(self, at_ms: int, values: Sequence[Value]) -> None:
        """Append a column; do nothing before the file is open."""
        if self._file is None:
            return
        data = self._encode(at_ms, values)
        if self._end and self._end + len(data) > self._bytes_max:
            self._turn_over()
            data = self._encode(at_ms, values)
        if len(data) <= self._bytes_max:
            self._file.write(self._end, [data])
            self._end += len(data)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _turn_over(self) -> None:
        self.close()
        with contextlib.suppress(DiskFailed):
            self._disk.remove(self._path(EARLIER))
        self._disk.rename(self._path(CURRENT), self._path(EARLIER))
        self._file = self._disk.open(self._path(CURRENT), create=True)
        self._end = 0
        self._numbers = {}

    def _encode(self, at_ms: int, values: Sequence[Value]) -> bytes:
        new: list[Curve] = []
        numbers, floats = array("I"), array("f")
        for key, name, value in values:
            curve = key, name
            number = self._numbers.get(curve)
            if number is None:
                number = self._numbers[curve] = len(self._numbers)
                new.append(curve)
            numbers.append(number)
            floats.append(value)
        record = _Record(at_ms, tuple(new), numbers.tobytes(), floats.tobytes())
        body = msgspec.msgpack.encode(record)
        return _FRAME.pack(len(body), crc32c(body)) + body

    def _columns(self, file: File) -> Iterator[tuple[int, list[Value]]]:
        data = file.read(0, min(file.size(), self._bytes_max))
        curves: list[Curve] = []
        while (record := _record(data, self._end)) is not None:
            curves += record.curves
            numbers, floats = array("I"), array("f")
            numbers.frombytes(record.numbers)
            floats.frombytes(record.values)
            if len(numbers) != len(floats) or max(numbers, default=0) >= max(len(curves), 1):
                return
            self._end += _FRAME.size + _FRAME.unpack_from(data, self._end)[0]
            self._numbers = {curve: number for number, curve in enumerate(curves)}
            yield (
                record.at_ms,
                [(*curves[number], value) for number, value in zip(numbers, floats, strict=True)],
            )


def _record(data: bytes, at: int) -> _Record | None:
    """The record at a place; None if there is no whole one."""
    if at + _FRAME.size > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, at)
    body = data[at + _FRAME.size : at + _FRAME.size + length]
    if len(body) != length or crc32c(body) != checksum:
        return None
    with contextlib.suppress(*UNREADABLE, ValueError):
        return decode_msgpack(body, _Record)
    return None
