"""The identity of a batch: not only its number, but also the offsets that Spark planned for it.

Before Spark runs a micro-batch it writes into the checkpoint what the batch reads, and when: the
file `offsets/<number>`. A batch that is repeated after a crash is run from that file, so the file
tells a batch that is repeated from another batch of the same number. There is such a one if two
drivers run one query with copies of its checkpoint, or one that was restored from a backup: their
batches 7 begin alike and need not end alike, and to take one for the other loses rows or doubles
them.

A checkpoint that this process cannot read, on another kind of file system, is not looked into: then
the query's id and the number must do.
"""

import hashlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

DIGEST_CHARACTERS = 16


def plan_of(checkpoint: str | None, batch: int) -> str:
    """A short text that differs between batches that were planned apart; empty if unknown."""
    directory = _directory(checkpoint)
    if directory is None:
        return ""
    try:
        written = (directory / "offsets" / str(batch)).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(written).hexdigest()[:DIGEST_CHARACTERS]


def _directory(checkpoint: str | None) -> Path | None:
    """The directory of a checkpoint, if it is on a disk of this machine."""
    if not checkpoint:
        return None
    if "://" not in checkpoint and not checkpoint.startswith("file:"):
        return Path(checkpoint)
    place = urlsplit(checkpoint)
    if place.scheme != "file" or place.netloc:
        return None
    return Path(unquote(place.path))
