"""The logs that clients must have written and read, put together from a history.

For every key (a partition) the model knows which value stands at which offset, from two sources:

- a send whose operation is committed and that was answered with an offset;
- every poll, however it ended: a consumer may only ever hand out what is safe.

Offsets may have gaps. An operation is committed if it ended `ok`, or if nobody knows (`info`) and
one of its sends was read. Values are numbered in the order in which their sends were invoked, and
everything known about a value lies in an array at its number: a million values take some hundred
bytes each, most of it their names.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from tests.cluster.history import Event

NO_OFFSET = -1


class Outcome(IntEnum):
    """What became of the operation that sent a value."""

    NEVER = 0
    """Nobody sent it: it was read only."""
    UNKNOWN = 1
    OK = 2
    FAILED = 3


_OUTCOMES = {"ok": Outcome.OK, "fail": Outcome.FAILED, "info": Outcome.UNKNOWN}


@dataclass(slots=True)
class KeyLog:
    """One partition as clients know it."""

    values: dict[int, int] = field(default_factory=dict)
    """Offset -> value."""
    conflicts: dict[int, set[int]] = field(default_factory=dict)
    """Offsets at which more than one value was seen."""
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    """All offsets in order; a value's place in it is its dense index."""

    def dense_index(self, offset: int) -> int:
        """How many known records come before this offset."""
        return bisect_left(self.offsets, offset)


class LogModel:
    """Everything derived from the sends and polls of a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.numbers: dict[str, int] = {}
        """Value -> its number."""
        self.names: list[str] = []
        self.outcome = bytearray()
        self.was_read = bytearray()
        """1 if a poll that ended ok returned it."""
        self.key: array[int] = array("i")
        self.process: array[int] = array("i")
        self.operation: array[int] = array("i")
        """The number of the first value that the same operation sent."""
        self.answered: array[int] = array("q")
        """The offset a send was answered with."""
        self.first: array[int] = array("q")
        """The smallest offset at which a value stands."""
        self.last: array[int] = array("q")
        self.invoked_at: array[int] = array("q")
        self.completed_at: array[int] = array("q")
        self.keys: list[str] = []
        self.processes: list[str] = []
        self.logs: list[KeyLog] = []
        self.foreign: list[tuple[int, int, int]] = []
        """Key, offset and value of what was read where nobody had sent it."""
        self._key_numbers: dict[str, int] = {}
        self._process_numbers: dict[str, int] = {}
        self._open: dict[tuple[str, int], int] = {}
        for event in events:
            if event.f == "send":
                self._send(event)
            elif event.f == "poll":
                self._poll(event)
        self._finish()

    def __len__(self) -> int:
        return len(self.names)

    def key_number(self, key: str) -> int | None:
        return self._key_numbers.get(key)

    def committed(self, value: int) -> bool:
        """True if its operation certainly happened."""
        return self.outcome[value] == Outcome.OK or (
            self.outcome[value] == Outcome.UNKNOWN
            and any(self.was_read[sibling] for sibling in self.siblings(value))
        )

    def siblings(self, value: int) -> Iterator[int]:
        """All values of the same operation; they were numbered together."""
        leader = self.operation[value]
        sibling = leader
        while sibling < len(self.names) and self.operation[sibling] == leader:
            yield sibling
            sibling += 1

    def describe(self, value: int) -> str:
        outcome = Outcome(self.outcome[value]).name.lower()
        where = f" at {self.first[value]}" if self.first[value] != NO_OFFSET else ""
        return f"{self.names[value]} ({outcome}) of {self.keys[self.key[value]]}{where}"

    # Building.

    def _send(self, event: Event) -> None:
        identity = (event.process, event.op)
        if event.type == "invoke":
            process = self._number_of_process(event.process)
            leader = len(self.names)
            for key, _, name in event.sends:
                assert name not in self.numbers, f"{name} is sent twice"
                value = self._new_value(name, self._number_of_key(key))
                self.outcome[value] = Outcome.UNKNOWN
                self.process[value] = process
                self.operation[value] = leader
                self.invoked_at[value] = event.at
            self._open[identity] = leader
            return
        leader = self._open.pop(identity)
        outcome = _OUTCOMES[event.type]
        for value in self.siblings(leader):
            self.outcome[value] = outcome
            self.completed_at[value] = event.at
        for _, offset, name in event.sends:
            if offset is not None:
                self.answered[self.numbers[name]] = offset

    def _poll(self, event: Event) -> None:
        if event.type == "invoke":
            return
        ok = event.type == "ok"
        for key_name, records in event.polls.items():
            key = self._number_of_key(key_name)
            for offset, name in records:
                value = self.numbers.get(name)
                if value is None:
                    value = self._new_value(name, key)
                if ok:
                    self.was_read[value] = 1
                if self.outcome[value] == Outcome.NEVER or self.key[value] != key:
                    self.foreign.append((key, offset, value))
                self._place(key, offset, value)

    def _place(self, key: int, offset: int, value: int) -> None:
        log = self.logs[key]
        there = log.values.setdefault(offset, value)
        if there != value:
            log.conflicts.setdefault(offset, {there}).add(value)
        if self.first[value] == NO_OFFSET or offset < self.first[value]:
            self.first[value] = offset
        if offset > self.last[value]:
            self.last[value] = offset

    def _finish(self) -> None:
        for value, offset in enumerate(self.answered):
            if offset != NO_OFFSET and self.committed(value):
                self._place(self.key[value], offset, value)
        for log in self.logs:
            log.offsets = array("q", sorted(log.values))

    def _new_value(self, name: str, key: int) -> int:
        number = len(self.names)
        self.numbers[name] = number
        self.names.append(name)
        self.outcome.append(Outcome.NEVER)
        self.was_read.append(0)
        self.key.append(key)
        self.operation.append(number)
        self.process.append(-1)
        for column in (self.answered, self.first, self.last):
            column.append(NO_OFFSET)
        self.invoked_at.append(0)
        self.completed_at.append(0)
        return number

    def _number_of_key(self, key: str) -> int:
        number = self._key_numbers.get(key)
        if number is None:
            number = self._key_numbers[key] = len(self.keys)
            self.keys.append(key)
            self.logs.append(KeyLog())
        return number

    def _number_of_process(self, process: str) -> int:
        number = self._process_numbers.get(process)
        if number is None:
            number = self._process_numbers[process] = len(self.processes)
            self.processes.append(process)
        return number
