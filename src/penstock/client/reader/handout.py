"""Hands out fetched records one at a time, and tracks the record that the program holds.

Partitions take turns, a stored batch each, and within a partition the order is that of offsets. A
batch is opened when its turn comes; one that is compressed is opened beside the loop, which has
more to do meanwhile.

A message is *in hand* from when it is handed out until the next one is asked for: then the program
is done with it.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator
from typing import Final, Generic, TypeVar

from penstock.client.codecs import Codec
from penstock.client.reader.positions import Place, StoredBatch
from penstock.client.record import Record
from penstock.core.errors import InvalidBatch
from penstock.core.limits import KIB
from penstock.core.message import Message
from penstock.core.message_batches import OpenBatch
from penstock.core.record_bodies import CODEC_MASK

T = TypeVar("T")

_ATTRIBUTES_AT: Final = 21
_SMALL_BYTES: Final = 16 * KIB
"""A compressed batch of this size is opened at once: going to a thread would take longer."""


class HandOut(Generic[T]):
    def __init__(self, codec: Codec[T], *, done_at_once: bool) -> None:
        """With `done_at_once`, records count as processed when they are handed out."""
        self._codec = codec
        self._done_at_once = done_at_once
        self._row: deque[Place] = deque()
        self._place: Place | None = None
        self._version = -1
        self._messages: Iterator[Message] | None = None
        self._in_hand: dict[Place, tuple[int, int]] = {}
        self._idle: asyncio.Future[None] | None = None
        self.count = 0
        """The number of records handed out."""

    def note(self, place: Place) -> None:
        """The place may have something to hand out."""
        if place.batches and not place.is_listed:
            place.is_listed = True
            self._row.append(place)

    # Handing out.

    def next_now(self) -> Record[T] | None:
        """The next message of the open batch; None if there is none."""
        messages, place = self._messages, self._place
        if messages is None or place is None:
            return None
        if place.version != self._version or place.is_paused:
            self.drop()
            return None
        position = place.position
        try:
            for message in messages:
                offset = message.offset
                if offset >= position:
                    break
            else:
                self._messages = None
                return None
        except InvalidBatch as error:
            self.drop()
            raise unreadable(place, error) from error
        place.position = offset + 1
        if self._done_at_once:
            place.done = offset + 1
        self._in_hand[place] = (self._version, offset + 1)
        self.count += 1
        part = place.part
        return Record(part.topic, place.topic_id, part.partition, message, self._codec)

    @property
    def is_open(self) -> bool:
        """True if a batch is open that may have more records."""
        return self._messages is not None

    @property
    def has_batches(self) -> bool:
        """Some place has something to hand out."""
        while self._row:
            place = self._row[0]
            if place.batches and not place.is_paused:
                return True
            place.is_listed = False
            self._row.popleft()
        return False

    async def open_next(self) -> tuple[Place, StoredBatch] | None:
        """Open the next batch; None if there is none. If the place is revoked or moved meanwhile,
        its batch is dropped."""
        while self.has_batches:
            place = self._row.popleft()
            place.is_listed = False
            version = place.version
            batch = place.take_batch()
            self.note(place)
            try:
                opened = await open_batch(batch)
            except BaseException as error:
                # Also if the caller is cancelled: what was taken here comes again.
                if place.version == version:
                    place.rewind()
                if isinstance(error, InvalidBatch):
                    raise unreadable(place, error) from error
                raise
            if place.version == version and not place.is_paused:
                self._place, self._version = place, version
                self._messages = opened.messages()
                return place, batch
            if place.version == version:
                place.rewind()
        return None

    def drop(self) -> None:
        """Stop in the middle of the open batch; if the place is still the same, it comes again."""
        self._messages = None
        if self._place is not None and self._place.version == self._version:
            self._place.rewind()

    # In hand.

    def finish(self) -> None:
        """Count the record in hand as processed."""
        for place, (version, end) in self._in_hand.items():
            if place.version == version and place.done < end:
                place.done = end
        self._in_hand.clear()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def take_back(self, place: Place, offset: int) -> None:
        """Take back records of a place from this offset on: the program did not get them."""
        version, _ = self._in_hand.pop(place, (-1, 0))
        if place.version == version:
            place.position = offset
            place.done = min(place.done, offset)
            place.rewind()
            if self._place is place:
                self._messages = None

    async def wait_idle(self, places: Collection[Place], seconds: float) -> None:
        """Return when nothing of these places is in hand, or when the time is up."""
        if any(place in self._in_hand for place in places):
            self._idle = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._idle], timeout=seconds)
            self._idle = None


async def open_batch(batch: StoredBatch) -> OpenBatch:
    """Unpack a batch, beside the loop if that may take long."""
    if len(batch.data) > _SMALL_BYTES and batch.data[_ATTRIBUTES_AT + 1] & CODEC_MASK:
        return await asyncio.to_thread(batch.open)
    return batch.open()


def unreadable(place: Place, error: InvalidBatch) -> InvalidBatch:
    """Return the error for a batch that cannot be read, with its place and how to get past it."""
    part = place.part
    return InvalidBatch(
        f"partition {part.partition} of {part.topic} cannot be read at offset {place.position}"
        f" ({error}); seek to a later offset to go on without it"
    )
