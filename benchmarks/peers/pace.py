"""Sending at a fixed pace, and noting when what was sent arrives, for clients that wait for calls.

A message carries its number; the schedule is fixed beforehand and a latency counts from when its
message was due, so that a stall is not hidden by a sender that waits for it.
"""

import struct
import time
from array import array
from collections.abc import Iterator

from benchmarks.broker.orders import Schedule
from benchmarks.broker.schedules import Arrivals, Sent

_NUMBER = struct.Struct("<I")
_SPIN_NS = 200_000
"""The last moment before a message is due is waited for awake: sleeping is that inexact."""
_PATIENCE_NS = 10_000_000_000


def numbered(schedule: Schedule, number: int) -> bytes:
    """The body of a message."""
    return _NUMBER.pack(number) + bytes(schedule.value_bytes - _NUMBER.size)


class SentBook:
    """What the sender notes."""

    def __init__(self, schedule: Schedule) -> None:
        self.sent = Sent(_zeros(schedule.count), _zeros(schedule.count))
        self._schedule = schedule
        self._number = 0

    def due(self) -> Iterator[bytes]:
        """Each body when it is due, or at once if that has passed."""
        for number in range(self._schedule.count):
            wait_ns = self.wait_ns(number)
            if wait_ns > _SPIN_NS:
                time.sleep((wait_ns - _SPIN_NS) / 1e9)
            yield self.begin(number)

    def wait_ns(self, number: int) -> int:
        """How long until a message is due."""
        return self._schedule.due_ns(number) - time.monotonic_ns()

    def begin(self, number: int) -> bytes:
        """Wait out the last moment, note how late the sender is; the body."""
        while (ahead := self.wait_ns(number)) > 0:
            pass
        self.sent.late_ns[number] = -ahead
        self._number = number
        return numbered(self._schedule, number)

    def acknowledged(self) -> None:
        """The message begun last is safe."""
        self.sent.acknowledged_ns[self._number] = time.monotonic_ns()


class ArrivalBook:
    """What the receiver notes."""

    def __init__(self, schedule: Schedule) -> None:
        self._at_ns = _zeros(schedule.count)
        self._missing = schedule.count
        self._duplicates = 0
        self._deadline_ns = schedule.due_ns(schedule.count) + _PATIENCE_NS

    @property
    def is_open(self) -> bool:
        """Whether anything is to come."""
        return self._missing > 0 and time.monotonic_ns() < self._deadline_ns

    @property
    def arrivals(self) -> Arrivals:
        """All of it."""
        return Arrivals(self._at_ns, self._duplicates)

    def arrived(self, body: bytes) -> None:
        """A message is here."""
        (number,) = _NUMBER.unpack_from(body)
        if self._at_ns[number]:
            self._duplicates += 1
        else:
            self._at_ns[number] = time.monotonic_ns()
            self._missing -= 1


def _zeros(count: int) -> "array[int]":
    return array("q", bytes(8 * count))
