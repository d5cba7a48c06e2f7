"""What this test needs of a Kafka client, whichever it is: send everything; be a member of a group.

Each client is used the way its own documentation shows, as an idempotent producer with acks=all and
as a member that commits what it has read before it reads on. None is told that the broker will be
killed: it gets over that by itself, or the test fails.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_MS = 500
POLL_MS = 200
POLL_RECORDS_MAX = 500


class Record(NamedTuple):
    """One message as a member got it."""

    partition: int
    offset: int
    value: bytes


class Member(Protocol):
    """A member of a group; used by one thread."""

    def poll(self) -> list[Record]:
        """What has come within a moment; perhaps nothing."""

    def commit(self, positions: Mapping[int, int]) -> bool:
        """Store where it stands, by partition; False if that is not certain."""

    def close(self) -> None:
        """Leave the group."""


SendAll = Callable[[str, str, str, Iterable[tuple[int, bytes]]], int]
"""(bootstrap, topic, codec, (partition, value)…) -> how many were acknowledged. Raises if one of
them was not."""
Join = Callable[[str, str, str], Member]
"""(bootstrap, group, topic)."""


class Kind(NamedTuple):
    """One client library."""

    name: str
    send_all: SendAll
    join: Join
