"""The delivery history: a ring buffer of what happened to messages, on every replica of a shard.

A queue remembers what is: who has a message, how often it was delivered. What was, it forgets, as
it must. The history keeps some of it: every command that leased, settled, moved, buried, revived,
cancelled or purged messages, or stored a consumer's offset, as it stands in the log, with what came
of it. `engine.inspection.traces` reads it.

    line    index, term │ the command as it was applied │ what came of it
    page    lines side by side, in one buffer
    history pages; when there are too many bytes, the oldest page goes

- Written where entries are applied, from the entry and the reply alone. Replicas apply the same
  entries, so their histories are equal, and the next leader knows what the last one knew.
- A line costs what a command costs, never what its messages do: it is copied, not read. A thousand
  messages that are leased together are one line. A receive that got nothing is no line.
- Nothing is kept on disk. A node that starts again applies what its log holds after its snapshot,
  and its history begins there; one that gets a snapshot begins where that ends. Others, who were
  there, know more: a query asks all replicas.
- It says how far back it reaches: everything from the entry `first_index` on is in it.

Who received stands in the command (`Acquire.receiver`). To keep it out of the log, and tell it from
node to node beside it, would save some bytes, and lose it exactly when it is wanted: when a node
was lost.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.core.decoders import msgpack_decoder
from penstock.core.entries import Entry, EntryKind
from penstock.core.limits import DELIVERY_HISTORY_BYTES_MAX, KIB
from penstock.core.types import NO_INDEX, Index, Offset, Term
from penstock.core.verdicts import Outcome
from penstock.machines.groups import GroupUpdated
from penstock.machines.machine import Reply
from penstock.machines.queues import Acquired, CumulativeAckResult, QueueChanged, Settled
from penstock.machines.work_records import GrantedRun

PAGE_BYTES: Final = 64 * KIB
LINE_BYTES: Final = 4
"""Of the place where a line ends."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_BEGIN_ANEW: Final = (b"\xaareset_work", b"\xaaclose_work")
_STORE: Final = b"\xadstore_offsets"
_TAG: Final = 1
"""Where a command's tag begins: behind the head of a short array."""


class Line(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One command, and what came of it."""

    index: Index
    term: Term
    payload: bytes
    epoch: int = 0
    until_ms: int = -1
    runs: tuple[GrantedRun, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    upto: Offset = Offset(0)


_LINES: Final[msgspec.msgpack.Decoder[Line]] = msgpack_decoder(Line)


class _Page:
    """Lines side by side."""

    __slots__ = ("data", "ends", "first")

    def __init__(self, first: Index) -> None:
        self.first = first
        """Everything from this entry on is here, or on a later page."""
        self.data = bytearray()
        self.ends = array("I")

    @property
    def bytes(self) -> int:
        return len(self.data) + LINE_BYTES * len(self.ends)


class DeliveryHistory:
    """Of one shard on one node; see the top of this module."""

    def __init__(self, bytes_max: int = DELIVERY_HISTORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._pages: deque[_Page] = deque()
        self._full_bytes = 0
        """Of all pages but the last."""
        self._next: Index = NO_INDEX

    @property
    def first_index(self) -> Index:
        """From this entry on, nothing is missing; 0 if nothing was ever applied."""
        return self._pages[0].first if self._pages else NO_INDEX

    @property
    def bytes(self) -> int:
        """What it takes in memory, about."""
        return self._full_bytes + (self._pages[-1].bytes if self._pages else 0)

    def __len__(self) -> int:
        return sum(len(page.ends) for page in self._pages)

    # Writing.

    def note(self, entry: Entry, replies: tuple[Reply, ...]) -> None:
        """An entry was applied."""
        if entry.index != self._next:
            self._begin(entry.index)
        self._next = Index(entry.index + 1)
        if entry.kind is not EntryKind.COMMAND or not replies:
            return
        line = _line(entry, replies[0])
        if line is None:
            return
        page = self._pages[-1]
        if len(page.data) >= PAGE_BYTES:
            page = self._turn_page(entry.index)
        _ENCODER.encode_into(line, page.data, -1)
        page.ends.append(len(page.data))

    def _begin(self, index: Index) -> None:
        """What was before is not known: a start, or a snapshot."""
        self._pages.clear()
        self._full_bytes = 0
        self._pages.append(_Page(index))

    def _turn_page(self, index: Index) -> _Page:
        self._full_bytes += self._pages[-1].bytes
        page = _Page(index)
        self._pages.append(page)
        while self._full_bytes + PAGE_BYTES > self._bytes_max and len(self._pages) > 1:
            self._full_bytes -= self._pages.popleft().bytes
        return page

    # Reading.

    def pages(self, *, latest: int | None = None) -> Iterator[list[Line]]:
        """All lines, or those of the latest pages, a page at a time, oldest first; as of the moment
        of the call, also if lines are written meanwhile."""
        kept = [(page, len(page.ends)) for page in self._pages]
        kept = kept if latest is None else kept[-latest:]
        return (_read(page, count) for page, count in kept)


def _line(entry: Entry, reply: Reply) -> Line | None:
    """What is written down of a command; None if it did nothing to a message."""
    kind = type(reply)
    if kind is Acquired:
        assert isinstance(reply, Acquired), f"{reply} has the type of another"
        if not reply.runs:
            return None
        return Line(entry.index, entry.term, entry.payload, reply.epoch, reply.until_ms, reply.runs)
    if kind is Settled:
        assert isinstance(reply, Settled), f"{reply} has the type of another"
        return Line(entry.index, entry.term, entry.payload, outcomes=reply.outcomes)
    if kind is CumulativeAckResult:
        assert isinstance(reply, CumulativeAckResult), f"{reply} has the type of another"
        if not reply.count:
            return None
        return Line(entry.index, entry.term, entry.payload, upto=reply.upto)
    if kind is QueueChanged:
        assert isinstance(reply, QueueChanged), f"{reply} has the type of another"
        if not reply.count and not entry.payload.startswith(_BEGIN_ANEW, _TAG):
            return None
        return Line(entry.index, entry.term, entry.payload)
    if kind is GroupUpdated and entry.payload.startswith(_STORE, _TAG):
        return Line(entry.index, entry.term, entry.payload)
    return None


def _read(page: _Page, count: int) -> list[Line]:
    view = memoryview(page.data)
    lines: list[Line] = []
    start = 0
    for end in page.ends[:count]:
        lines.append(_LINES.decode(view[start:end]))
        start = end
    view.release()
    return lines
