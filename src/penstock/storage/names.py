"""The names of numbered files. A number is never used twice in a directory, so nor is a name."""

import re

from penstock.core.types import Index

INDEX_SUFFIX = ".index"
SEGMENT_SUFFIX = ".log"
SNAPSHOT_SUFFIX = ".snap"
_NUMBER = re.compile(r"-(\d+)\.(?:log|index|snap)")


def number_in(name: str) -> int | None:
    """The number in a file's name, if it has one."""
    found = _NUMBER.search(name)
    return int(found.group(1)) if found else None


def segment_name(base: Index, number: int) -> str:
    """The file of a segment that begins at `base`."""
    return f"{base:020d}-{number:06d}{SEGMENT_SUFFIX}"


def index_name(segment: str) -> str:
    """The side index of a segment's file."""
    return segment.removesuffix(SEGMENT_SUFFIX) + INDEX_SUFFIX


def snapshot_name(index: Index, number: int) -> str:
    """The file of a snapshot at `index`."""
    return f"snapshot-{index:020d}-{number:06d}{SNAPSHOT_SUFFIX}"
