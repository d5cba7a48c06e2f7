"""Encoded Metadata answers, kept until something in them may have changed.

After a leader has moved, every client asks at once, and often for the same topics; an answer about
ten thousand partitions takes some milliseconds to put together. What an answer depends on is small
enough to be compared each time: the catalog's revision, the leaders, the nodes that are up.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING

from penstock.core.limits import KAFKA_METADATA_CACHE_BYTES_MAX
from penstock.core.types import ShardId

if TYPE_CHECKING:
    from penstock.engine.engine import Engine


class MetadataCache:
    """Answers by what was asked."""

    def __init__(self) -> None:
        self._state: Hashable = None
        self._bodies: dict[Hashable, bytes] = {}
        self._held_bytes = 0

    def find(self, engine: "Engine", question: Hashable) -> bytes | None:
        """The answer to the same question, if nothing has changed since."""
        leaders = tuple(engine.topics.leader(ShardId(shard)) for shard in engine.topics.shards())
        state = (engine.topics.catalog.revision, leaders, engine.topics.alive())
        if state != self._state:
            self._state = state
            self._bodies.clear()
            self._held_bytes = 0
        return self._bodies.get(question)

    def keep(self, question: Hashable, body: bytes) -> None:
        """Remember an answer that was put together right after `find`."""
        if self._held_bytes + len(body) <= KAFKA_METADATA_CACHE_BYTES_MAX:
            self._bodies[question] = body
            self._held_bytes += len(body)
