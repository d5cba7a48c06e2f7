"""One line of a picture: the same work at a few sizes, taken in turns.

Within a round every size is measured once, in one order, and in the next round in the other, so
that a machine which gets slower meanwhile does so for all. The ratio of a size to the first one is
taken within each round; what is reported is the median of those ratios, not the ratio of medians.

A size that is measured is a system of its own, empty or full, with its own processes: whatever a
full broker does in the background cannot slow the empty one it is compared with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved
from benchmarks.broker.programs import ProgramFailed
from benchmarks.report import MIB, Finding, Measured, Progress, medians, number

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one piece of work came to."""

    moved: Moved
    broker_cpu_seconds: float
    memory_bytes: int = 0

    def row(self) -> Measured:
        """Its numbers."""
        millions = max(self.moved.messages, 1) / MILLION
        return {
            "messages_per_second": self.moved.per_second,
            "broker_cpu_seconds_per_million": self.broker_cpu_seconds / millions,
            "client_cpu_seconds_per_million": self.moved.cpu_seconds / millions,
            "memory_bytes": self.memory_bytes,
        }


Round = Mapping[int, Mapping[str, Rate]]
"""By size, then by way."""


@dataclass(slots=True)
class Curve:
    """Collects rounds; the first size is what the others are compared with."""

    axis: str
    """The name of a size in the numbers, such as `backlog_messages`."""
    sizes: Sequence[int]
    ways: Sequence[str]
    rounds: int = 0
    excuse: str = ""
    """Why there are no more rounds, if one broke."""
    _measured: dict[tuple[int, str], list[Measured]] = field(default_factory=dict)

    def in_turn(self, turn: int) -> Sequence[int]:
        """The sizes in the order of this round."""
        return self.sizes if turn % 2 else self.sizes[::-1]

    def gather(
        self, progress: Progress, most: int, measure: Callable[[int], Mapping[str, Rate]]
    ) -> None:
        """Take rounds, as many as there is time for. One that breaks is the last: those before it
        count, and if there are none, nothing was measured."""
        name = self.axis.partition("_")[0]
        for turn in progress.turns(most):
            found = {}
            try:
                for size in self.in_turn(turn):
                    progress(f"scaling, {name}: {size:,}, round {turn} of {most}")
                    found[size] = measure(size)
            except (ClientFailed, ProgramFailed) as error:
                if not self.rounds:
                    raise
                self.excuse = f"round {turn} broke: {str(error).splitlines()[0]}"
                progress(self.excuse)
                return
            self.add(found)

    def add(self, found: Round) -> None:
        """Keep a round, every size of it compared with the first."""
        self.rounds += 1
        for size in self.sizes:
            for way in self.ways:
                first = max(found[self.sizes[0]][way].moved.per_second, 1.0)
                row: Measured = {self.axis: size, "way": way, **found[size][way].row()}
                row["ratio_to_first"] = number(row, "messages_per_second") / first
                self._measured.setdefault((size, way), []).append(row)

    def numbers(self) -> list[Measured]:
        """A row for each size and way."""
        return [medians(rows) for rows in self._measured.values()]

    def _costs(self, found: Mapping[tuple[int, str], Measured]) -> list[str]:
        """Processor seconds, which what else runs on the machine changes least."""
        lines = ["broker and client CPU s/M, at the first line and at the last:"]
        for way in self.ways:
            first, last = (found[size, way] for size in (self.sizes[0], self.sizes[-1]))
            costs = [
                f"{number(row, 'broker_cpu_seconds_per_million'):.2f} +"
                f" {number(row, 'client_cpu_seconds_per_million'):.2f}"
                for row in (first, last)
            ]
            lines.append(f"  {way}: {costs[0]} → {costs[1]}")
        return lines

    def finding(
        self, name: str, title: str, *, label: str, notes: Sequence[str], memory: bool = True
    ) -> Finding:
        """A table with a line for each size."""
        numbers = self.numbers()
        found = {(int(number(row, self.axis)), str(row["way"])): row for row in numbers}
        columns = [label]
        for way in self.ways:
            columns += [f"{way}/s", "ratio"]
        rows = []
        for size in self.sizes:
            line = [f"{size:,}"]
            for way in self.ways:
                row = found[size, way]
                line.append(f"{number(row, 'messages_per_second'):,.0f}")
                line.append(f"{number(row, 'ratio_to_first'):.2f}")
            if memory:
                largest = max(number(found[size, way], "memory_bytes") for way in self.ways)
                line.append(f"{largest / MIB:.0f}")
            rows.append(line)
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return Finding(
            name=name,
            title=f"{title}: medians of {rounds}",
            columns=(*columns, *(["memory MiB"] if memory else [])),
            rows=rows,
            notes=[
                "ratio: to the first line, taken per round.",
                *notes,
                *self._costs(found),
                *([self.excuse] if self.excuse else []),
            ],
            numbers=numbers,
        )
