"""Cumulative acks: requests of a native client that reads a queue's log by offset.

Such a reader leases nothing. It starts at the position of its work group, and acknowledges ranges
of offsets afterwards:

    BeginWork     let a work group begin somewhere      → Done
    AskStanding   where it stands in one partition      → Standing
    Cover         a range is done, but for the dead     → Covered

`BeginWork` goes to any node, the others to the one that leads the partition.
"""

from penstock.wire.requests import Answer, Request


class BeginWork(Request, frozen=True, tag="begin_work"):
    """Let a work group begin on all partitions: at an offset, -1 for the end, -2 for the log start.
    Where it has begun already it stays where it is."""

    name: str
    group: str
    start: int


class AskStanding(Request, frozen=True, tag="standing"):
    """Requests the remaining work of a work group in a partition, and how far it may be read from
    an offset."""

    topic_id: bytes
    index: int
    group: str
    offset: int = 0


class Standing(Answer, frozen=True, tag="standing"):
    """Offsets, each the end of something."""

    first: int
    """Everything below is dealt with; the dead count as that."""
    ready: int
    """The offset up to which, from the requested one, no message waits for a delay."""
    end: int
    """The offset of the next message."""
    again: tuple[tuple[int, int], ...] = ()
    """Ranges before the asked offset that can be delivered, some of them."""


class CumulativeAck(Request, frozen=True, tag="cover"):
    """The messages from `first` up to, not including, `end` are done for this work group, after
    those in `dead`, an offset and a reason each, have died. Asking twice changes nothing; of one
    batch of a named stream, not even where dead messages were delivered anew in between."""

    topic_id: bytes
    index: int
    group: str
    first: int
    end: int
    dead: tuple[tuple[int, str], ...] = ()
    stream: str = ""
    batch: int = -1


class CumulativeAckResult(Answer, frozen=True, tag="cover"):
    """The number of messages acknowledged; if `upto` is before the requested end, repeat the
    request from there."""

    count: int
    upto: int
