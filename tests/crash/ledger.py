"""What a writer was promised, over all its lives, and whether it was kept.

The ledger hears what `tests.crash.writer` says. After each death the next life tells what it found,
and the ledger complains of everything that is not as promised:

- an acknowledged batch that is not there, or not at its offset, or altered;
- a value that is there twice: nobody sent it twice;
- a log start before a trim that was answered, or beyond every trim that was asked for.

What was sent and never acknowledged may be there or not; both are right.
"""

from itertools import pairwise

COMPLAINTS_MAX = 20


class Ledger:
    """Promises of one directory."""

    def __init__(self) -> None:
        self.acked: dict[tuple[int, int], str] = {}
        """Partition and offset of every batch that was acknowledged."""
        self._trim_asked: dict[int, int] = {}
        self._trim_done: dict[int, int] = {}

    def hear(self, lines: list[str]) -> list[str]:
        """Take one life's words, from `pid` on; returns complaints about what it found."""
        found: dict[tuple[int, int], str] = {}
        starts: dict[int, int] = {}
        complaints: list[str] = []
        for line in lines:
            word, *facts = line.split(" ")
            if word == "start":
                starts[int(facts[0])] = int(facts[1])
            elif word == "found":
                found[int(facts[0]), int(facts[1])] = facts[2]
            elif word == "ready":
                complaints = self._compare(found, starts)
            elif word == "ack":
                self.acked[int(facts[0]), int(facts[1])] = facts[2]
            elif word == "trimming":
                asked = self._trim_asked.get(int(facts[0]), 0)
                self._trim_asked[int(facts[0])] = max(asked, int(facts[1]))
            elif word == "trimmed":
                done = self._trim_done.get(int(facts[0]), 0)
                self._trim_done[int(facts[0])] = max(done, int(facts[1]))
        return complaints

    def _compare(self, found: dict[tuple[int, int], str], starts: dict[int, int]) -> list[str]:
        complaints = []
        for partition, start in starts.items():
            low = self._trim_done.get(partition, 0)
            high = self._trim_asked.get(partition, 0)
            # Trims are by offset and batches may be longer than one: a start lies in a batch.
            if not low <= start <= high:
                complaints.append(f"partition {partition} starts at {start}, not {low} to {high}")
        for (partition, offset), value in self.acked.items():
            there = found.get((partition, offset), "nothing")
            if offset >= starts[partition] and there != value:
                complaints.append(f"{value} was acknowledged at {partition}@{offset}; {there} is")
        values = sorted(found.values())
        complaints += [f"{a} is there twice" for a, b in pairwise(values) if a == b]
        if "altered" in values:
            complaints.append("a batch is not what was sent")
        more = len(complaints) - COMPLAINTS_MAX
        return complaints[:COMPLAINTS_MAX] + ([f"and {more} more"] if more > 0 else [])
