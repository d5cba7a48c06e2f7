"""What clients of a real cluster did and saw, written down as it happened.

An operation is two events: `invoke` when the client sets out, and one completion:

    ok      it happened
    fail    it certainly did not happen
    info    nobody knows: a timeout, a broken connection, a client that was thrown away

Rules:

- What is ambiguous is `info`, never `fail`. An operation without a completion counts as `info`.
- Times are nanoseconds of CLOCK_MONOTONIC, which all processes of one machine share, so the files
  of several recorders can be merged into one history.
- A value is sent once in a history. It is called `process-counter`; a client that is thrown away
  never lends its name to another one.
- A key is one partition, as `topic/3`.

On disk an event is one line of JSON. `History` reads it as often as it is asked to: a history of
millions of operations is checked in several passes and never held in memory.
"""

import heapq
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, TypedDict, Unpack

import msgspec

from tests.cluster.queue_facts import QueueFacts

Completion = Literal["ok", "fail", "info"]
EventType = Literal["invoke", "ok", "fail", "info"]
Function = Literal[
    "send",
    "poll",
    "assign",
    "subscribe",
    "commit",
    "committed",
    "queue",
    "receive",
    "settle",
    "counts",
    "drain",
    "fault",
]

UNKNOWN_GENERATION: Final = -1


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One end of an operation; which fields are filled depends on the function.

    send        sends: (key, offset or None, value)
    poll        polls: key -> (offset, value) in the order they were handed out;
                rebalanced: keys that came or went meanwhile
    assign      positions: key -> offset to start at, or None to go on where the process was
    subscribe   positions: the keys it holds now; group
    commit      group, generation, offsets
    committed   group, offsets: what the cluster says is committed
    drain       every partition was read to its end by clients that know nothing
    fault       note: what was done to the cluster

    Of queues, with `queue` filled as `queue_facts` says:

    queue       a queue was made
    send        sends: (key, None, value), one value
    receive     a worker asked for messages
    settle      a worker said what became of one
    counts      what the cluster says is in which state
    """

    at: int
    process: str
    op: int
    type: EventType
    f: Function
    sends: tuple[tuple[str, int | None, str], ...] = ()
    polls: dict[str, tuple[tuple[int, str], ...]] = {}
    rebalanced: tuple[str, ...] = ()
    positions: dict[str, int | None] = {}
    group: str = ""
    generation: int = UNKNOWN_GENERATION
    offsets: dict[str, int] = {}
    note: str = ""
    queue: QueueFacts | None = None


def key_of(topic: str, partition: int) -> str:
    """The name of a partition in a history."""
    return f"{topic}/{partition}"


class History:
    """The events of one or more files, by time; iterate over it as often as you like."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths

    def __iter__(self) -> Iterator[Event]:
        return heapq.merge(*(_read(path) for path in self._paths), key=lambda event: event.at)


def _read(path: Path) -> Iterator[Event]:
    decode = msgspec.json.Decoder(Event).decode
    with path.open("rb") as file:
        for line in file:
            yield decode(line)


def write_history(path: Path, events: Iterable[Event]) -> History:
    """Put events into a file, for those who made them up."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for event in events:
            file.write(encode(event) + b"\n")
    return History(path)


class Fields(TypedDict, total=False):
    """What an event may carry, besides when, who and what."""

    sends: Sequence[tuple[str, int | None, str]]
    polls: Mapping[str, Sequence[tuple[int, str]]]
    rebalanced: Sequence[str]
    positions: Mapping[str, int | None]
    group: str
    generation: int
    offsets: Mapping[str, int]
    note: str
    queue: QueueFacts


class Operation:
    """One operation under way; it is completed once."""

    __slots__ = ("_recorder", "done", "f", "number", "process")

    def __init__(self, recorder: "Recorder", process: str, number: int, f: Function) -> None:
        self._recorder = recorder
        self.process = process
        self.number = number
        self.f: Function = f
        self.done = False

    def complete(self, outcome: Completion, **fields: Unpack[Fields]) -> None:
        assert not self.done, f"operation {self.number} of {self.process} is completed twice"
        self.done = True
        self._recorder.complete(self, outcome, fields)


class Recorder:
    """Writes events to a file; any thread may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 20)
        self._encode = msgspec.json.Encoder().encode
        self._lock = threading.Lock()
        self._operations = 0
        self._processes = 0

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def new_process(self, what: str) -> str:
        """A name for a client that nobody had before."""
        with self._lock:
            self._processes += 1
            return f"{what}{self._processes}"

    def invoke(self, process: str, f: Function, **fields: Unpack[Fields]) -> Operation:
        """An operation begins: call this before anything is sent."""
        with self._lock:
            self._operations += 1
            operation = Operation(self, process, self._operations, f)
            self._write(operation, "invoke", fields)
        return operation

    def complete(self, operation: Operation, outcome: Completion, fields: Fields) -> None:
        with self._lock:
            self._write(operation, outcome, fields)

    def note(self, process: str, what: str) -> None:
        """Something that is over at once: a fault that begins or ends."""
        self.invoke(process, "fault", note=what).complete("ok", note=what)

    def history(self) -> History:
        """Everything so far."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()
        return History(self.path)

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _write(self, operation: Operation, kind: EventType, fields: Fields) -> None:
        # The time is taken under the lock, so that the file is in order of time.
        event = Event(
            at=time.monotonic_ns(),
            process=operation.process,
            op=operation.number,
            type=kind,
            f=operation.f,
            **fields,  # type: ignore[arg-type]
        )
        self._file.write(self._encode(event) + b"\n")
