"""Reading entries back: by index for Raft, and in bulk for a follower that needs everything.

Every record is verified whole (header, payload, order, chain) before an entry is made of it. The
entries after the durable index are not in any file that may be believed yet; they come from the
appender's tail.
"""

from penstock.core.append_payload import STAMP_BYTES, read_stamp
from penstock.core.entries import Entry, EntryKind, Membership, decode_membership
from penstock.core.types import Index, Term
from penstock.storage.appender import Appender
from penstock.storage.directory import LogDirectory
from penstock.storage.record import RECORD_HEADER_BYTES, Scan
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList

_CHUNK_BYTES_MIN = 4096
_CHUNK_BYTES_MAX = 1 << 20
_SKIPPED_SHARE = 8
"""A transfer step may pass over this many times its bound of entries that are not sent."""


class EntryReader:
    """Reads entries from segments and the tail."""

    def __init__(self, home: LogDirectory, segments: SegmentList, appender: Appender) -> None:
        self._home = home
        self._segments = segments
        self._appender = appender

    def term(self, index: Index) -> Term:
        """The term of an entry of the contiguous log, or of the one before it."""
        first = self._segments.first_index
        assert first - 1 <= index <= self._appender.last_index, f"term of {index}, {first=}"
        return self._segments.find(max(index, first)).term(index)

    def entries(self, low: Index, high: Index, bytes_max: int) -> tuple[Entry, ...]:
        """At least one entry from `low` on, all below `high`, up to about `bytes_max`."""
        assert self._segments.first_index <= low < high <= self._appender.last_index + 1, (
            f"{low} to {high} of {self._segments.first_index} to {self._appender.last_index}"
        )
        found: list[Entry] = []
        room = bytes_max
        durable = self._appender.durable_index
        while low < high and low <= durable:
            room = self._collect(found, low, min(high, Index(durable + 1)), room)
            low = Index(found[-1].index + 1)
            if room <= 0:
                return tuple(found)
        for staged in self._appender.tail[low - durable - 1 : high - durable - 1]:
            room -= len(staged.entry.payload)
            if found and room < 0:
                break
            found.append(staged.entry)
        return tuple(found)

    def _collect(self, found: list[Entry], low: Index, high: Index, room: int) -> int:
        """Read on in the segment that holds `low`; returns the room that is left."""
        segment = self._segments.find(low)
        start, end = segment.index.position(low), segment.index.position(high)
        chunk = min(max(room + RECORD_HEADER_BYTES, _CHUNK_BYTES_MIN), _CHUNK_BYTES_MAX)
        scan = self._scan(segment, start, end, last=Index(low - 1), chunk_bytes=chunk)
        for _, header, payload in scan:
            if found and header.length > room:
                return 0
            found.append(
                Entry(header.index, header.term, EntryKind(header.kind), payload.tobytes())
            )
            room -= header.length
            if room <= 0:
                return 0
        self._check_end(segment, scan, end)
        return room

    def _scan(
        self, segment: Segment, start: int, end: int, *, last: Index, chunk_bytes: int
    ) -> Scan:
        return Scan(
            self._home.files.get(segment.name),
            position=start,
            end=end,
            salt=segment.salt,
            sparse=segment.sparse,
            last=last,
            chain=None,
            chunk_bytes=chunk_bytes,
        )

    def _check_end(self, segment: Segment, scan: Scan, end: int) -> None:
        if scan.position != end:
            problem = scan.problem or f"there are zeros where entry {scan.last + 1} was written"
            raise self._home.damaged(segment.name, scan.position, problem)

    def append_time(self, segment: Segment, index: Index) -> int:
        """The log time of a durable APPEND entry of any segment."""
        start, end = segment.index.position(index), segment.index.position(Index(index + 1))
        chunk = min(max(end - start, _CHUNK_BYTES_MIN), _CHUNK_BYTES_MAX)
        scan = self._scan(segment, start, end, last=Index(index - 1), chunk_bytes=chunk)
        for _, _, payload in scan:
            return read_stamp(payload)
        self._check_end(segment, scan, end)
        raise AssertionError(f"segment {segment.name} has no entry {index}")

    def peek_append_time(self, segment: Segment, index: Index) -> int:
        """Read the append time of an entry in one small read, without verification."""
        position = segment.index.position(index) + RECORD_HEADER_BYTES
        return read_stamp(self._home.files.get(segment.name).read(position, STAMP_BYTES))

    def memberships(self, after: Index) -> list[tuple[Index, Membership]]:
        """MEMBERSHIP entries of the contiguous log later than `after`, in order."""
        found: list[tuple[Index, Membership]] = []
        first = self._segments.first_index
        for segment in self._segments.after(max(after, Index(first - 1))):
            for index, _ in segment.index.memberships:
                if index > after:
                    (entry,) = self.entries(index, Index(index + 1), 0)
                    found.append((index, decode_membership(entry.payload)))
        staged = [entry for entry, *_ in self._appender.tail if entry.index > after]
        return found + [
            (entry.index, decode_membership(entry.payload))
            for entry in staged
            if entry.kind == EntryKind.MEMBERSHIP
        ]

    def live_records(
        self, after: Index, through: Index, bytes_max: int
    ) -> tuple[tuple[Entry, ...], Index]:
        """APPEND entries that still exist with after < index ≤ through, and how far this looked."""
        found: list[Entry] = []
        room, effort = bytes_max, bytes_max * _SKIPPED_SHARE
        durable = self._appender.durable_index
        assert through <= durable, f"records through {through}, but only {durable} is durable"
        for segment in self._segments.after(after):
            if segment.base > through:
                break
            start = segment.index.position(Index(after + 1))
            end = segment.index.position(Index(through + 1))
            last = Index(max(after, segment.base - 1))
            scan = self._scan(segment, start, end, last=last, chunk_bytes=_CHUNK_BYTES_MAX)
            for _, header, payload in scan:
                if header.kind == EntryKind.APPEND:
                    found.append(
                        Entry(header.index, header.term, EntryKind.APPEND, payload.tobytes())
                    )
                    room -= header.length
                effort -= RECORD_HEADER_BYTES + header.length
                if room <= 0 or effort <= 0:
                    done = header.index == through
                    return tuple(found), through if done else header.index
            self._check_end(segment, scan, end)
        return tuple(found), through
