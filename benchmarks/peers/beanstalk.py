"""beanstalkd over a plain socket: commands in pipelines, which no library for Python does.

A library waits for each command's answer before it sends the next. Here a batch of commands goes
out in one write and its answers are counted, which is as fast as beanstalkd can be used.
"""

import re
import socket
import time

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, split_place
from benchmarks.peers.pace import ArrivalBook, SentBook

_PUT = b"put 0 0 600 %d\r\n%b\r\n"
_RESERVE = b"reserve-with-timeout 0\r\n"
_RESERVE_SOON = b"reserve-with-timeout 1\r\n"
_RESERVED = re.compile(rb"RESERVED (\d+) (\d+)\r\n")
_READ_BYTES = 1 << 18
_PATIENCE_SECONDS = 20.0


class _Line:
    """A connection that has bytes to be read."""

    def __init__(self, place: str, tube: str) -> None:
        self._socket = socket.create_connection(split_place(place), _PATIENCE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bytes = b""
        self._at = 0
        self.tell(b"use %b\r\nwatch %b\r\nignore default\r\n" % (tube.encode(), tube.encode()))
        for expected in (b"USING", b"WATCHING", b"WATCHING"):
            self.expect(expected)

    def __enter__(self) -> "_Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def tell(self, commands: bytes) -> None:
        """Send."""
        self._socket.sendall(commands)

    def line(self) -> bytes:
        """The next line of an answer."""
        while (end := self._bytes.find(b"\r\n", self._at)) < 0:
            self._read()
        line, self._at = self._bytes[self._at : end], end + 2
        return line

    def expect(self, word: bytes) -> bytes:
        """A line that begins so."""
        line = self.line()
        if not line.startswith(word):
            raise ClientFailed(f"beanstalkd said {line[:100]!r} instead of {word!r}")
        return line

    def expect_many(self, word: bytes, count: int) -> None:
        """So many lines that begin so, looked at all at once."""
        while count:
            end = self._bytes.rfind(b"\r\n", self._at) + 2
            if end < 2:
                self._read()
                continue
            lines = self._bytes[self._at : end].split(b"\r\n")[:-1]
            for line in lines:
                if not line.startswith(word):
                    raise ClientFailed(f"beanstalkd said {line[:100]!r} instead of {word!r}")
            count -= len(lines)
            self._at = end

    def job(self) -> tuple[bytes, bytes] | None:
        """Number and body of what was reserved; None if nothing was there."""
        found = _RESERVED.fullmatch(self.line() + b"\r\n")
        if found is None:
            return None
        length = int(found.group(2))
        while len(self._bytes) - self._at < length + 2:
            self._read()
        body = self._bytes[self._at : self._at + length]
        self._at += length + 2
        return found.group(1), body

    def _read(self) -> None:
        read = self._socket.recv(_READ_BYTES)
        if not read:
            raise ClientFailed("beanstalkd hung up")
        self._bytes = self._bytes[self._at :] + read
        self._at = 0


def prepare(place: str, queue: str) -> None:
    """A tube comes to exist by being used."""
    with _Line(place, queue):
        pass


def send(order: QueueOrder) -> Moved:
    """A write for each batch, whose answers are waited for."""
    commands = b"".join(_PUT % (len(body), body) for body in order.bodies())
    with _Line(order.place, order.queue) as line:
        sent, began, cpu = 0, time.perf_counter(), time.process_time()
        while sent < order.messages_max and time.perf_counter() - began < order.seconds:
            line.tell(commands)
            line.expect_many(b"INSERTED ", order.batch)
            sent += order.batch
        return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)


def receive(order: QueueOrder) -> Moved:
    """A batch is reserved and looked at, and deleted in one write with reserving the next one,
    until there is none."""
    reserve = _RESERVE * order.batch
    with _Line(order.place, order.queue) as line:
        done, seen, began, cpu = 0, 0, time.perf_counter(), time.process_time()
        line.tell(reserve)
        while True:
            jobs = [job for _ in range(order.batch) if (job := line.job()) is not None]
            if not jobs:
                break
            seen += sum(len(body) for _, body in jobs)
            late = time.perf_counter() - began >= order.seconds
            deletes = b"".join(b"delete %b\r\n" % number for number, _ in jobs)
            line.tell(deletes if late else deletes + reserve)
            for _ in jobs:
                line.expect(b"DELETED")
            done += len(jobs)
            if late:
                break
        took = Moved(done, time.perf_counter() - began, time.process_time() - cpu)
    if seen != done * order.body_bytes:
        raise ClientFailed(f"{seen} bytes came in {done} messages")
    return took


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due."""
    with _Line(schedule.target.bootstrap, schedule.target.topic) as line:
        book = SentBook(schedule)
        for body in book.due():
            line.tell(_PUT % (len(body), body))
            line.expect(b"INSERTED ")
            book.acknowledged()
        return book.sent


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives. A message is deleted in one write with waiting for the next."""
    book = ArrivalBook(schedule)
    with _Line(schedule.target.bootstrap, schedule.target.topic) as line:
        line.tell(_RESERVE_SOON)
        while book.is_open:
            job = line.job()
            if job is None:
                line.tell(_RESERVE_SOON)
                continue
            number, body = job
            book.arrived(body)
            line.tell(b"delete %b\r\n%b" % (number, _RESERVE_SOON))
            line.expect(b"DELETED")
    return book.arrivals


def answers(place: str) -> bool:
    """Whether a server is there."""
    try:
        with _Line(place, "anything"):
            return True
    except (OSError, ClientFailed):
        return False
