"""The fields of many records at once: positions and lengths in a buffer, no bytes of their own.

    record   length           varint   bytes after this field
             attributes       i8       unused
             timestamp delta  varint
             offset delta     varint
             key              varint length, bytes; length -1: none
             value            varint length, bytes; length -1: none
             headers          varint count, then keys and values, each with its length

A field is found by what comes before it, so fields are read in this order, each for all records
together, and no further than the last one that is wanted: a query of times only touches neither
keys nor values.

Checked: a key, a value and a header lie within their record; if headers are read, they end where
the record does.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.core.errors import InvalidBatch
from penstock.core.record_bodies import read_varint
from penstock.spark.reading.record_starts import Octets, Positions
from penstock.spark.reading.varint_reader import Numbers, cut_short, read_varints, skip_varints

HEADER_ROUNDS_MAX: Final = 32
"""Headers are read for all records together, the first of each, the second of each, and so on; the
few records that have more than this are gone through one by one."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Pieces of a buffer, by where they begin and end; those that are none are empty."""

    start: Positions
    end: Positions
    is_none: npt.NDArray[np.bool_] | None
    """Marks the missing ones; None if there are none."""

    def cut(self, first: int, end: int) -> "Spans":
        """The spans from number `first` to before `end`."""
        none = None if self.is_none is None else self.is_none[first:end]
        return Spans(self.start[first:end], self.end[first:end], none)


@dataclass(frozen=True, slots=True)
class HeaderSpans:
    """All headers of some records, in order: how many each record has, and where they are."""

    counts: Numbers
    keys: Spans
    values: Spans


class RecordFields:
    """Reads the fields of the records at these places, which end at those."""

    def __init__(self, octets: Octets, starts: Positions, ends: Positions) -> None:
        self._octets = octets
        self._ends = ends
        self._at = skip_varints(octets, starts) + 1

    def times(self) -> Numbers:
        """Read the timestamp deltas."""
        numbers, self._at = read_varints(self._octets, self._at)
        return numbers

    def offsets(self) -> Numbers:
        """Read the offset deltas."""
        numbers, self._at = read_varints(self._octets, self._at)
        return numbers

    def skip(self) -> None:
        """Pass over a timestamp delta or an offset delta."""
        self._at = skip_varints(self._octets, self._at)

    def piece(self) -> Spans:
        """Read the keys, and at the next call the values."""
        lengths, start = read_varints(self._octets, self._at)
        spans = _spans(lengths, start, self._ends)
        self._at = spans.end
        return spans

    def headers(self) -> HeaderSpans:
        """All headers; a record must end where they do."""
        counts, at = read_varints(self._octets, self._at)
        total = _total(counts, self._ends - at)
        spans = _HeaderReading(self._octets, self._ends, total)
        at = spans.read(counts, at)
        if (at != self._ends).any():
            raise InvalidBatch("a record is longer or shorter than what is in it")
        return spans.result(counts)


def _total(counts: Numbers, room: Numbers) -> int:
    """The number of headers, after checking that there is room for them."""
    if (counts < 0).any():
        raise InvalidBatch(f"a record says it has {int(counts.min())} headers")
    if (counts > room // 2).any():  # A header takes two bytes at least.
        raise InvalidBatch(f"a record says it has {int(counts.max())} headers")
    return int(counts.sum())


def _spans(lengths: Numbers, start: Positions, ends: Positions) -> Spans:
    least = int(lengths.min()) if len(lengths) else 0
    is_none: npt.NDArray[np.bool_] | None = None
    if least < 0:
        is_none = lengths < 0
        lengths = np.where(is_none, 0, lengths)
    # Subtracting cannot overflow, whatever the length says.
    if (lengths > ends - start).any():
        raise InvalidBatch("a record is shorter than what is in it")
    return Spans(start, start + lengths, is_none)


class _HeaderReading:
    """Room for all headers of some records, and how far it is filled."""

    def __init__(self, octets: Octets, ends: Positions, total: int) -> None:
        self._octets = octets
        self._ends = ends
        self._bounds = np.zeros((4, total), dtype=np.int64)
        self._none = np.zeros(total, dtype=np.bool_)

    def read(self, counts: Numbers, at: Positions) -> Positions:
        """Fill it; returns where each record's headers end."""
        firsts = np.cumsum(counts) - counts
        after = at.copy()
        rows = np.flatnonzero(counts)
        for number in range(HEADER_ROUNDS_MAX):
            if not len(rows):
                return after
            after[rows] = self._read_round(firsts[rows] + number, after[rows], self._ends[rows])
            rows = rows[counts[rows] > number + 1]
        for row in rows.tolist():
            after[row] = self._walk(int(firsts[row]), int(counts[row]), int(after[row]), row)
        return after

    def _read_round(self, slots: Numbers, at: Positions, ends: Positions) -> Positions:
        """Read the next header of each record that has one left, all at once."""
        lengths, start = read_varints(self._octets, at)
        keys = _spans(lengths, start, ends)
        if keys.is_none is not None:
            raise InvalidBatch("a header of a record has no name")
        lengths, start = read_varints(self._octets, keys.end)
        values = _spans(lengths, start, ends)
        self._bounds[:, slots] = (keys.start, keys.end, values.start, values.end)
        if values.is_none is not None:
            self._none[slots] = values.is_none
        return values.end

    def _walk(self, slot: int, count: int, at: int, row: int) -> int:
        """The rest of the headers of a record that has very many."""
        end = int(self._ends[row])
        record = self._octets[at:end].tobytes()
        place = 0
        try:
            for number in range(HEADER_ROUNDS_MAX, count):
                length, key = read_varint(record, place)
                if length < 0:
                    raise InvalidBatch("a header of a record has no name")
                size, value = read_varint(record, key + length)
                place = value + max(0, size)
                if place > len(record):
                    raise cut_short()
                bounds = (at + key, at + key + length, at + value, at + place)
                self._bounds[:, slot + number] = bounds
                self._none[slot + number] = size < 0
        except IndexError:
            raise cut_short() from None
        return at + place

    def result(self, counts: Numbers) -> HeaderSpans:
        keys = Spans(self._bounds[0], self._bounds[1], None)
        values = Spans(self._bounds[2], self._bounds[3], self._none if self._none.any() else None)
        return HeaderSpans(counts, keys, values)
