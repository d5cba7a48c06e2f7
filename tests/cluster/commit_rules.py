"""What must hold of the offsets that groups commit.

    nonmonotonic-commit     within one generation, a later commit is lower than an earlier one
    unfenced-commit         a commit of an old generation succeeded after one of a newer generation
    lost-commit             the cluster answers less than had been acknowledged before the question

Only what is certain counts: an earlier commit is one that was acknowledged before the later one was
invoked. The rules rest on what our consumers do: they commit what they have read, and they begin
where the group stands, so that a group's commits only ever grow.
"""

from collections.abc import Iterable

from tests.cluster.history import UNKNOWN_GENERATION, Event
from tests.cluster.verdict import Verdict


def check_commits(events: Iterable[Event], verdict: Verdict) -> None:
    """Events come by time, so what was acknowledged before an invocation has been seen before."""
    acknowledged = _Acknowledged()
    known_then: dict[tuple[str, int], dict[str, int]] = {}
    newest_then: dict[tuple[str, int], int] = {}
    for event in events:
        if event.f not in ("commit", "committed"):
            continue
        identity = (event.process, event.op)
        if event.type == "invoke":
            generation = event.generation if event.f == "commit" else None
            keys = event.offsets if event.f == "commit" else None
            known_then[identity] = acknowledged.highest(event.group, generation, keys)
            newest_then[identity] = acknowledged.newest.get(event.group, UNKNOWN_GENERATION)
            continue
        known, newest = known_then.pop(identity), newest_then.pop(identity)
        if event.type != "ok":
            continue
        if event.f == "committed":
            _check_answer(event, known, verdict)
            continue
        if UNKNOWN_GENERATION < event.generation < newest:
            what = f"generation {event.generation} after {newest} of {event.group}"
            verdict.found("unfenced-commit", f"{event.process}: {what}")
        for key, offset in event.offsets.items():
            if offset < known.get(key, 0):
                what = f"{event.group} {key}: {offset} after {known[key]}"
                verdict.found("nonmonotonic-commit", f"{event.process}: {what}")
        acknowledged.add(event)


def _check_answer(event: Event, known: dict[str, int], verdict: Verdict) -> None:
    for key, offset in sorted(known.items()):
        answer = event.offsets.get(key, 0)
        if answer < offset:
            what = f"{event.group} {key}: {answer}, and {offset} was acknowledged"
            verdict.found("lost-commit", f"{event.process}: {what}")


class _Acknowledged:
    """The highest offset acknowledged so far, for every group, generation and key."""

    def __init__(self) -> None:
        self.newest: dict[str, int] = {}
        """Group -> its newest generation of which a commit was acknowledged."""
        self._by_generation: dict[tuple[str, int], dict[str, int]] = {}
        self._by_group: dict[str, dict[str, int]] = {}

    def highest(
        self, group: str, generation: int | None, keys: Iterable[str] | None
    ) -> dict[str, int]:
        """Of one generation, or of all; of these keys, or of all."""
        if generation is None:
            known = self._by_group.get(group, {})
        else:
            known = self._by_generation.get((group, generation), {})
        if keys is None:
            return dict(known)
        return {key: known[key] for key in keys if key in known}

    def add(self, event: Event) -> None:
        if event.generation > self.newest.get(event.group, UNKNOWN_GENERATION):
            self.newest[event.group] = event.generation
        generation = self._by_generation.setdefault((event.group, event.generation), {})
        for known in (generation, self._by_group.setdefault(event.group, {})):
            for key, offset in event.offsets.items():
                known[key] = max(offset, known.get(key, 0))
