"""The identity of a log. A log opened as that of another cluster, shard or node would be a forged
vote.

The file is written once, last of all when a log is made, so its presence says the making was
finished. The same facts stand in the manifest (from which a damaged identity is restored) and,
hashed, in the header of every segment.
"""

import hashlib

import msgspec

from penstock.core.errors import ForeignDirectory, NewerFormat
from penstock.core.types import NodeId, ShardId

IDENTITY_NAME = "identity"
FORMAT = 1
"""Of the directory as a whole. A larger number in a file means a later program wrote it."""


class Identity(msgspec.Struct, frozen=True):
    """The owner of a log."""

    cluster_id: str
    shard: ShardId
    node: NodeId

    def cluster_hash(self) -> int:
        """64 bits of the cluster id, for segment headers."""
        digest = hashlib.blake2b(self.cluster_id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def describe(self) -> str:
        return f"node {self.node} of shard {self.shard} of cluster {self.cluster_id!r}"


class StoredIdentity(msgspec.Struct, frozen=True):
    """The content of the identity file."""

    format: int
    identity: Identity


def check_identity(path: str, stored: StoredIdentity, expected: Identity) -> None:
    """Refuse a log that is another's, or that a later version wrote."""
    check_format(path, stored.format)
    if stored.identity != expected:
        raise ForeignDirectory(
            f"{path} says this is the log of {stored.identity.describe()}, but it was opened as "
            f"{expected.describe()}; start that node here, or give this one its own directory"
        )


def check_format(path: str, found: int) -> None:
    """Refuse what a later version wrote."""
    if found > FORMAT:
        raise NewerFormat(
            f"{path} has format {found} and this version of Penstock reads up to {FORMAT}; "
            "start the version that wrote it, or a later one"
        )
