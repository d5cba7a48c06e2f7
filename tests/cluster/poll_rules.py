"""What must hold of polls.

    int-poll-skip           one poll leaves out a record between two that it returns
    int-nonmonotonic-poll   one poll returns a record and then one that does not come after it
    poll-skip               the same from one poll of a process to its next
    nonmonotonic-poll

Between polls this holds for consumers that chose their partitions themselves (`assign`). A member
of a group (`subscribe`) may be moved about, so for it these are only counted. An `assign` either
says at which offset it starts, and then the first record must be the first one from there on, or
it goes on where the process was. Polls that did not end ok do not move the process.

"Between" means between records that are known to exist: offsets may have gaps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.cluster.history import Event
from tests.cluster.log_model import LogModel
from tests.cluster.verdict import Verdict


@dataclass(slots=True)
class _Reader:
    subscribed: bool = False
    next: dict[str, int] = field(default_factory=dict)
    """Key -> the lowest offset that the next record may have."""


def check_polls(events: Iterable[Event], model: LogModel, verdict: Verdict) -> None:
    """Follow every process through its polls."""
    readers: dict[str, _Reader] = {}
    for event in events:
        if event.type != "ok" or event.f not in ("poll", "assign", "subscribe"):
            continue
        reader = readers.setdefault(event.process, _Reader())
        if event.f != "poll":
            _moved(reader, event)
            continue
        for key in event.rebalanced:
            reader.next.pop(key, None)
        for key, records in event.polls.items():
            if not records or key in event.rebalanced:
                continue
            _inside(event, key, [offset for offset, _ in records], model, verdict)
            _between(reader, event, key, records[0][0], model, verdict)
            reader.next[key] = records[-1][0] + 1


def _moved(reader: _Reader, event: Event) -> None:
    reader.subscribed = event.f == "subscribe"
    positions = {}
    for key, start in event.positions.items():
        if start is not None:
            positions[key] = start
        elif key in reader.next:
            positions[key] = reader.next[key]
    reader.next = positions


def _inside(event: Event, key: str, offsets: list[int], model: LogModel, verdict: Verdict) -> None:
    before = offsets[0]
    for offset in offsets[1:]:
        if offset != before + 1:
            where = f"{event.process} in {key} from {before} to {offset}"
            if offset <= before:
                verdict.found("int-nonmonotonic-poll", where)
            elif _records_between(model, key, before + 1, offset):
                verdict.found("int-poll-skip", where)
        before = offset


def _between(
    reader: _Reader, event: Event, key: str, offset: int, model: LogModel, verdict: Verdict
) -> None:
    expected = reader.next.get(key)
    if expected is None or offset == expected:
        return
    if offset < expected:
        anomaly = "nonmonotonic-poll"
    elif _records_between(model, key, expected, offset):
        anomaly = "poll-skip"
    else:
        return
    if reader.subscribed:
        verdict.allowed[anomaly] += 1
    else:
        where = f"{event.process} in {key} at {offset}, where {expected} was next"
        verdict.found(anomaly, where)


def _records_between(model: LogModel, key: str, start: int, end: int) -> bool:
    number = model.key_number(key)
    assert number is not None, f"{key} was polled and is not in the model"
    log = model.logs[number]
    return log.dense_index(start) < log.dense_index(end)
