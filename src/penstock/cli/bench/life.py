"""The load of `penstock bench queue`: whole lives of messages, and the book that is kept of them.

Some clients send while others receive, work, and acknowledge; a share of the messages fails at its
first delivery and is delivered again. Every message carries who sent it and its number, so that in
the end each one can be accounted for:

    token   sender  number   due                  sender: which one, of all processes
    u32     u32     u64      f64, perf_counter    number: 0, 1, 2 … of that sender

A sender waits for each call, so what is acknowledged of its messages is a run from 0 on; the call
that fails, if one does, leaves its messages in doubt: they may be stored or not, and neither is a
loss. A receiver notes how often it has acknowledged each. What was acknowledged to the sender, was
never acknowledged by a receiver, and is not in the queue any more, is lost.
"""

import asyncio
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.cli.bench.load import Load, Schedule, Tally
from penstock.cli.bench.loads import RECEIVE_WAIT_SECONDS, drive, own_stamp, put_off
from penstock.client.message import Message
from penstock.client.queue import Queue

_STAMP = struct.Struct("<IIQd")
LIFE_STAMP_BYTES = _STAMP.size
HELD_SECONDS_MAX = 10.0
"""No more is taken at a time than can be worked on in so long: leases end."""
_OFTEN = 255


@dataclass(slots=True)
class Book:
    """The outcome of the messages of some senders. The books of several processes can be merged."""

    stored: dict[int, int] = field(default_factory=dict)
    """For each sender, the number of messages acknowledged: always its first ones."""
    doubtful: int = 0
    """Messages that were sent without an answer."""
    done: dict[int, bytearray] = field(default_factory=dict)
    """For each sender and message number, the number of acks by receivers."""
    redelivered: int = 0
    failed: int = 0
    """Released by a receiver on purpose."""

    def note_done(self, sender: int, number: int) -> None:
        """A message was received and acknowledged."""
        times = self.done.setdefault(sender, bytearray())
        if number >= len(times):
            times.extend(bytes(max(number + 1, 2 * len(times)) - len(times)))
        times[number] = min(_OFTEN, times[number] + 1)

    def merge(self, other: "Book") -> None:
        """Add the numbers of another process."""
        self.stored |= other.stored
        self.doubtful += other.doubtful
        self.redelivered += other.redelivered
        self.failed += other.failed
        for sender, times in other.done.items():
            mine = self.done.setdefault(sender, bytearray())
            mine.extend(bytes(max(0, len(times) - len(mine))))
            for number, count in enumerate(times):
                if count:
                    mine[number] = min(_OFTEN, mine[number] + count)

    @property
    def stored_all(self) -> int:
        """The number of messages acknowledged to all senders."""
        return sum(self.stored.values())

    @property
    def undone(self) -> int:
        """Acknowledged to a sender, and not by any receiver."""
        missing = 0
        for sender, count in self.stored.items():
            times = self.done.get(sender, b"")
            missing += count - min(count, len(times)) + times[:count].count(0)
        return missing

    @property
    def twice(self) -> int:
        """The number of messages that were processed more than once."""
        return sum(len(times) - times.count(0) - times.count(1) for times in self.done.values())


async def live(
    senders: Sequence[Queue[bytes]],
    receivers: Sequence[Queue[bytes]],
    load: Load,
    tally: Tally,
    book: Book,
) -> None:
    """Send and receive at once. Receivers run until they are stopped: only the one who sees all
    processes knows when everything is done."""
    left = load.messages
    sending = len(senders)
    tally.sending = True

    async def send(index: int, queue: Queue[bytes]) -> None:
        nonlocal left, sending
        sender = load.first_sender + index
        schedule = Schedule(load, tally, number=index)
        filling = os.urandom(max(0, load.size_bytes - LIFE_STAMP_BYTES))
        number = 0
        while left is None or left > 0:
            due = await schedule.next()
            if due is None or (left is not None and left <= 0):
                break
            count = load.batch if left is None else min(load.batch, left)
            if left is not None and tally.counts(due):
                left -= count
            bodies = [
                _STAMP.pack(load.token, sender, each, due) + filling
                for each in range(number, number + count)
            ]
            book.doubtful += count
            await queue.send_many(bodies)
            book.doubtful -= count
            number += count
            book.stored[sender] = number
            tally.sent_all += count
            tally.time("send", due, tally.now())
        sending -= 1
        tally.sending = sending > 0

    work = [send(index, queue) for index, queue in enumerate(senders)]
    work += [_Receiver(load, tally, book).work(queue) for queue in receivers]
    await drive(work, tally)


def fails(sender: int, number: int, share: float) -> bool:
    """True if the first delivery of a message is made to fail: spread evenly, the same at every
    run."""
    return ((sender + number) * 2_654_435_761 & 0xFFFF_FFFF) < share * 2**32


class _Receiver:
    """Receives, works, and acknowledges or fails, until it is stopped."""

    def __init__(self, load: Load, tally: Tally, book: Book) -> None:
        self._load = load
        self._tally = tally
        self._book = book
        self._most = load.batch
        if load.work_seconds:
            self._most = max(1, min(load.batch, int(HELD_SECONDS_MAX / load.work_seconds)))

    async def work(self, queue: Queue[bytes]) -> None:
        tally = self._tally
        while not tally.stopping.is_set():
            found = await queue.receive(self._most, wait=RECEIVE_WAIT_SECONDS)
            arrived = tally.now()
            own = [one for one in found if own_stamp(one, self._load.token)]
            if len(own) < len(found):
                await put_off(queue, [one for one in found if one not in own], tally)
            if not own:
                continue
            stamps = [_STAMP.unpack_from(one.raw) for one in own]
            for one, (_, _, _, due) in zip(own, stamps, strict=True):
                if one.deliveries == 1:
                    tally.time("receive", due, arrived)
                else:
                    self._book.redelivered += 1
            if self._load.work_seconds:
                await asyncio.sleep(self._load.work_seconds * len(own))
                tally.worked_seconds += tally.now() - arrived
            await self._settle(queue, own, stamps)

    async def _settle(
        self,
        queue: Queue[bytes],
        own: list[Message[bytes]],
        stamps: list[tuple[int, int, int, float]],
    ) -> None:
        share = self._load.fail_share
        bad = [
            one
            for one, (_, sender, number, _) in zip(own, stamps, strict=True)
            if one.deliveries == 1 and fails(sender, number, share)
        ]
        if bad:
            await queue.release(bad, 0)
            self._book.failed += len(bad)
        failed = {id(one) for one in bad}
        good = [one for one in own if id(one) not in failed]
        if good:
            await queue.ack(good)
        ended = self._tally.now()
        for one, (_, sender, number, due) in zip(own, stamps, strict=True):
            if id(one) not in failed and one.settled:
                self._book.note_done(sender, number)
                self._tally.time("done", due, ended)
                self._tally.done(due, ended, 1)
