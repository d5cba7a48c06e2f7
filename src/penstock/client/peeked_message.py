"""A message that was looked at without touching it: no lease, no delivery, no effect."""

from datetime import datetime
from typing import Generic, TypeVar

from penstock.client.codecs import Codec
from penstock.client.descriptions import from_milliseconds
from penstock.client.record import Record
from penstock.core.message_states import current_state
from penstock.wire.requests import BrowsedOne

T = TypeVar("T")


class PeekedMessage(Record[T], Generic[T]):
    """A record of a queue, and what state it is in."""

    __slots__ = ("_seen",)

    def __init__(
        self, queue: str, topic_id: bytes, partition: int, seen: BrowsedOne, codec: Codec[T]
    ) -> None:
        super().__init__(queue, topic_id, partition, seen.message, codec)
        self._seen = seen

    @property
    def queue(self) -> str:
        """The name of the queue it is in."""
        return self.topic

    @property
    def state(self) -> str:
        """`ready`, `leased`, `delayed` or `dead`."""
        return current_state(self._seen.state)

    @property
    def deliveries(self) -> int:
        """The number of deliveries."""
        return self._seen.deliveries

    @property
    def until(self) -> datetime | None:
        """The time when its lease or delay ends; the time of death if it is dead."""
        return None if self._seen.until_ms < 0 else from_milliseconds(self._seen.until_ms)

    @property
    def reason(self) -> str:
        """The reason why it is dead; empty if it is not."""
        return self._seen.reason
