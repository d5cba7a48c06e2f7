"""Rot in what a log has twice, or can make again: nothing is lost by it, and a start mends it.

A start needs one good copy of a vote or a manifest, and rebuilds a damaged side index without a
line in the log. A verification must find every byte that is not what was written, also in copies
that are redundant today. So each of these is checked by itself.
"""

import os
from array import array
from collections.abc import Callable

import msgspec

from penstock.core.checksum import crc32c
from penstock.storage.disk import Disk, File
from penstock.storage.envelope import read_whole, unseal
from penstock.storage.files import PAGE_BYTES
from penstock.storage.identity import IDENTITY_NAME, StoredIdentity
from penstock.storage.index_file import read_index_header
from penstock.storage.manifest import (
    MANIFEST_COPY_NAME,
    MANIFEST_NAME,
    Manifest,
    load_manifest,
    named_files,
)
from penstock.storage.marker import MARKER_NAME
from penstock.storage.names import INDEX_SUFFIX
from penstock.storage.repair import Finding
from penstock.storage.slots import SLOT_B, SLOT_BYTES
from penstock.storage.vote import VOTE_NAMES

_CHECKSUM_BYTES = 4
_MENDED = "nothing is lost: the next start makes it again"


def spare_findings(disk: Disk, directory: str) -> list[Finding]:
    """Return the damaged files that can be spared."""
    findings = []
    sealed: tuple[tuple[str, type[msgspec.Struct]], ...] = (
        (IDENTITY_NAME, StoredIdentity),
        (MANIFEST_NAME, Manifest),
        (MANIFEST_COPY_NAME, Manifest),
    )
    for name, kind in sealed:
        path = os.path.join(directory, name)
        data = read_whole(disk, path)
        if data is not None and unseal(data, kind) is None:
            findings.append(Finding(path, 0, f"it does not match its CRC-32C; {_MENDED}"))
    for name in (*VOTE_NAMES, MARKER_NAME):
        findings += _look(disk, os.path.join(directory, name), _rotten_slot)
    manifest = load_manifest(disk, directory)
    for name in sorted(named_files(manifest)) if manifest is not None else ():
        if name.endswith(INDEX_SUFFIX):
            findings += _look(disk, os.path.join(directory, name), _rotten_page)
    return findings


def _look(disk: Disk, path: str, find: Callable[[File], int | None]) -> list[Finding]:
    if not disk.exists(path):
        return []
    file = disk.open(path)
    try:
        position = find(file)
    finally:
        file.close()
    if position is None:
        return []
    return [Finding(path, position, f"it does not match its CRC-32C; {_MENDED}")]


def _rotten_slot(file: File) -> int | None:
    """The position of a slot that was written and is damaged."""
    for position in (0, SLOT_B):
        data = file.read(position, SLOT_BYTES)
        checksum = int.from_bytes(data[-_CHECKSUM_BYTES:], "little")
        if data.strip(b"\0") and checksum != crc32c(data[:-_CHECKSUM_BYTES]):
            return position
    return None


def _rotten_page(file: File) -> int | None:
    """The position of a damaged page in a side index."""
    found = read_index_header(file)
    if found is None:
        return 0
    header, start = found
    for number, checksum in enumerate(array("I", header.checksums)):
        position = start + number * PAGE_BYTES
        if crc32c(file.read(position, PAGE_BYTES)) != checksum:
            return position
    return None
