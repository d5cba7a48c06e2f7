"""The positions of a reader in its partitions.

    log:   ........|------ finished ------|-- in hand --|-- fetched --|...........
                   ^ committed            ^ done        ^ position    ^ fetched

A `Place` is one partition that is being read. At first its start is unknown: it has to be
settled. What has been fetched waits in it as stored batches,
unopened. `position` is the next message to hand out, `done` the end of what the program has
finished, and only that is ever committed by itself.

Rules that hold here:

- `done` ≤ `position` ≤ `fetched`, always.
- Whatever moves a place by hand (a seek) gives it a new `version`; a message in hand or a commit
  that belongs to an older version no longer counts.
- Whatever drops what was fetched gives it a new `fetch_version`: the answer to an older fetch would
  leave a gap.
"""

from collections import deque
from typing import NamedTuple

from penstock.core.message_batches import OpenBatch, iter_batches
from penstock.core.records import read_outline


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic."""

    topic: str
    partition: int


class StoredBatch(NamedTuple):
    """A batch as it came, with the little that its head says."""

    data: memoryview
    base_offset: int
    end_offset: int

    @property
    def messages(self) -> int:
        """The number of offsets it spans; compaction may have left fewer messages."""
        return self.end_offset - self.base_offset

    def open(self) -> OpenBatch:
        """Unpack it; `InvalidBatch` if it is damaged."""
        return OpenBatch(self.data)


class Place:
    """The state of one partition that is being read."""

    __slots__ = (
        "batches", "buffered_bytes", "buffered_messages", "committed", "done", "end",
        "fetch_version", "fetched", "is_leaving", "is_listed", "is_paused", "is_settled",
        "log_start", "part", "position", "topic_id", "version", "was_out_of_range",
    )  # fmt: skip

    def __init__(self, part: TopicPartition) -> None:
        self.part = part
        self.topic_id = b""
        self.position = 0
        self.done = 0
        self.fetched = 0
        self.committed: int | None = None
        """The offset that the coordinator has committed; None if it has none or another one."""
        self.log_start = -1
        self.end = -1
        """The high watermark, as of the last fetch; -1 if there was none."""
        self.is_paused = False
        self.is_leaving = False
        """It goes to another member; it is paused until then."""
        self.is_settled = False
        """True once the start offset is known."""
        self.is_listed = False
        """True while it waits its turn to hand out records."""
        self.was_out_of_range = False
        """True if its committed offset lies outside of the log."""
        self.version = 0
        self.fetch_version = 0
        self.batches: deque[StoredBatch] = deque()
        self.buffered_bytes = 0
        self.buffered_messages = 0

    def settle(self, topic_id: bytes, offset: int, committed: int | None) -> None:
        """Set the start offset. If the group has not committed it, it will."""
        self.topic_id = topic_id
        self.position = self.done = offset
        self.committed = committed
        self.is_settled = True
        self.was_out_of_range = False
        self.version += 1
        self.rewind()

    def unsettle(self, *, out_of_range: bool) -> None:
        """Discard the start offset: it has to be looked up again."""
        self.rewind()
        self.is_settled = False
        self.was_out_of_range = out_of_range
        self.version += 1

    def move(self, offset: int) -> None:
        """Reset offsets. The new place is to be committed, even if it lies further back."""
        self.position = self.done = offset
        self.committed = None
        self.version += 1
        self.rewind()

    def rewind(self) -> None:
        """Drop the fetched records that were not handed out; they will be fetched again."""
        self.fetched = self.position
        self.fetch_version += 1
        self.batches.clear()
        self.buffered_bytes = 0
        self.buffered_messages = 0

    def add(self, data: memoryview) -> None:
        """Batches have come that begin where the last ones ended."""
        for batch in iter_batches(data):
            base_offset, size, count, _, _ = read_outline(batch, 0)
            end = base_offset + count
            if end <= self.fetched:
                continue
            self.batches.append(StoredBatch(batch, base_offset, end))
            self.buffered_bytes += size
            self.buffered_messages += count
            self.fetched = end

    def take_batch(self) -> StoredBatch:
        """The next batch in order, to be opened and handed out."""
        batch = self.batches.popleft()
        self.buffered_bytes -= len(batch.data)
        self.buffered_messages -= batch.messages
        return batch
