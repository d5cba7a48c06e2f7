r"""Small files that are replaced whole: one line of JSON and a line with its CRC-32C.

    {"format":1,…}\n
    1c291ca3\n

A person can read them with `cat`. They are written aside, synced, renamed over the old one, and the
directory synced, so a crash leaves the old or the new content and nothing between. The envelope is
the same in every future format, so that an old program can tell "newer" from "damaged".
"""

import os
from typing import TypeVar

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.decoders import decode_json
from penstock.storage.disk import Buffer, Disk

ASIDE = ".new"
"""Suffix of a file that is not complete yet; leftovers are removed when a log is opened."""

ENVELOPE_BYTES_MAX = 16 << 20

T = TypeVar("T")


def seal(content: msgspec.Struct) -> bytes:
    """The bytes of a file that holds `content`."""
    line = msgspec.json.encode(content) + b"\n"
    return line + b"%08x\n" % crc32c(line)


def unseal(data: bytes, kind: type[T]) -> T | None:
    """Decode what `seal` wrote; None if `data` is anything else."""
    line, checksum = data[:-9], data[-9:]
    if not line.endswith(b"\n") or checksum != b"%08x\n" % crc32c(line):
        return None
    try:
        return decode_json(line, kind)
    except msgspec.DecodeError:
        return None


class _Formatted(msgspec.Struct):
    format: int


def sealed_format(data: bytes) -> int | None:
    """Return the `format` field of an undamaged envelope, whatever the rest of its content is."""
    formatted = unseal(data, _Formatted)
    return formatted.format if formatted else None


def read_whole(disk: Disk, path: str) -> bytes | None:
    """A small file's bytes; None if there is no such file."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        return file.read(0, min(file.size(), ENVELOPE_BYTES_MAX))
    finally:
        file.close()


def write_aside(disk: Disk, path: str, buffers: list[Buffer], *, private: bool = False) -> None:
    """Write `path` + ASIDE and sync it, replacing any previous file."""
    file = disk.open(path + ASIDE, create=True, private=private)
    try:
        file.truncate(0)
        file.write(0, buffers)
        file.sync()
    finally:
        file.close()


def replace_whole(disk: Disk, path: str, data: bytes, *, private: bool = False) -> None:
    """Make `data` the durable content of `path`, in one step as far as a crash can see."""
    write_aside(disk, path, [data], private=private)
    disk.rename(path + ASIDE, path)
    disk.sync_directory(os.path.dirname(path))
