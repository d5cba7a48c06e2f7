"""The checker is checked: every anomaly has a history that shows it, and nothing else, and a
history that differs by little and shows nothing.
"""

import itertools
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tests.cluster.checker import check, main
from tests.cluster.history import Completion, Event, Function, History, Recorder, write_history

OPERATIONS = 100_000


class Story:
    """A made-up history, one operation after the other unless told otherwise."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._numbers = itertools.count(1)

    def operation(
        self, process: str, f: Function, outcome: Completion = "ok", **fields: object
    ) -> "Story":
        number = next(self._numbers)
        self._event(process, number, "invoke", f, **fields)
        self._event(process, number, outcome, f, **fields)
        return self

    def send(
        self, value: str, offset: int | None = None, *, by: str = "p", outcome: Completion = "ok"
    ) -> "Story":
        return self.sends([(value, offset)], by=by, outcome=outcome)

    def sends(
        self,
        values: list[tuple[str, int | None]],
        *,
        by: str = "p",
        key: str = "t/0",
        outcome: Completion = "ok",
    ) -> "Story":
        sends = tuple((key, offset, value) for value, offset in values)
        return self.operation(by, "send", outcome, sends=sends)

    def overtaken(self, first: tuple[str, int], second: tuple[str, int]) -> "Story":
        """Two sends of two processes that were under way at the same time."""
        open_sends = []
        for process, (value, offset) in (("p", first), ("q", second)):
            number = next(self._numbers)
            send = (("t/0", offset, value),)
            self._event(process, number, "invoke", "send", sends=send)
            open_sends.append((process, number, send))
        for process, number, send in open_sends:
            self._event(process, number, "ok", "send", sends=send)
        return self

    def poll(
        self,
        records: list[tuple[int, str]],
        *,
        by: str = "r",
        key: str = "t/0",
        outcome: Completion = "ok",
        rebalanced: tuple[str, ...] = (),
    ) -> "Story":
        polls = {key: tuple(records)}
        return self.operation(by, "poll", outcome, polls=polls, rebalanced=rebalanced)

    def assign(self, start: int | None = 0, *, by: str = "r") -> "Story":
        return self.operation(by, "assign", positions={"t/0": start})

    def subscribe(self, *, by: str = "r") -> "Story":
        return self.operation(by, "subscribe", positions={"t/0": None}, group="g")

    def commit(
        self, generation: int, offset: int, *, by: str = "r", outcome: Completion = "ok"
    ) -> "Story":
        offsets = {"t/0": offset}
        return self.operation(
            by, "commit", outcome, group="g", generation=generation, offsets=offsets
        )

    def committed(self, offset: int) -> "Story":
        return self.operation("r", "committed", group="g", offsets={"t/0": offset})

    def drained(self, outcome: Completion = "ok") -> "Story":
        return self.operation("last", "drain", outcome)

    def _event(self, process: str, number: int, kind: str, f: Function, **fields: object) -> None:
        at = 1_000 * len(self.events)
        facts: Any = {"at": at, "process": process, "op": number, "type": kind, "f": f, **fields}
        self.events.append(Event(**facts))


def two_sent() -> Story:
    return Story().send("a", 0).send("b", 1)


def three_sent() -> Story:
    return two_sent().send("c", 2)


SAMPLES: dict[str, tuple[Story, Story]] = {
    # Name: a history that shows it, one that does not.
    "inconsistent-offsets": (
        two_sent().poll([(0, "a"), (1, "b")]).send("c", 1, by="q").poll([(1, "c")], by="s"),
        two_sent().poll([(0, "a"), (1, "b")]).send("c", 2, by="q").poll([(2, "c")], by="s"),
    ),
    "duplicate": (
        two_sent().poll([(0, "a"), (1, "b"), (2, "b")]),
        # The same record read twice is no duplicate.
        two_sent().poll([(0, "a"), (1, "b")]).poll([(0, "a"), (1, "b")], by="s"),
    ),
    "lost-write": (
        # b was acknowledged at 1, and a reader found c behind it but not b.
        three_sent().poll([(0, "a")]).poll([(2, "c")], by="s"),
        three_sent().poll([(0, "a")]).poll([(1, "b"), (2, "c")], by="s"),
    ),
    "unseen": (
        three_sent().poll([(0, "a"), (1, "b")]),
        # Nobody knows whether c was written, so it may be missing.
        two_sent().send("c", outcome="info").poll([(0, "a"), (1, "b")]),
    ),
    "aborted-read": (
        Story().send("a", outcome="fail").poll([(0, "a")]),
        Story().send("a", outcome="info").poll([(0, "a")]),
    ),
    "unwritten-read": (
        Story().send("a", 0).poll([(0, "a"), (1, "ghost")]),
        Story().send("a", 0).poll([(0, "a")]),
    ),
    "int-poll-skip": (
        three_sent().poll([(0, "a"), (2, "c")]).poll([(1, "b")], by="s"),
        # Offset 1 is a gap: nobody ever saw a record there.
        Story().send("a", 0).send("c", 2).poll([(0, "a"), (2, "c")]),
    ),
    "int-nonmonotonic-poll": (
        two_sent().poll([(1, "b"), (0, "a")]),
        two_sent().poll([(0, "a"), (1, "b")]),
    ),
    "poll-skip": (
        three_sent().assign().poll([(0, "a")]).poll([(2, "c")]).poll([(1, "b")], by="s"),
        three_sent().subscribe().poll([(0, "a")]).poll([(2, "c")]).poll([(1, "b")], by="s"),
    ),
    "nonmonotonic-poll": (
        two_sent().assign().poll([(0, "a"), (1, "b")]).poll([(1, "b")]),
        # A poll that did not end ok does not move the reader, and an assign may go back.
        two_sent()
        .assign()
        .poll([(0, "a"), (1, "b")], outcome="info")
        .poll([(0, "a"), (1, "b")])
        .assign()
        .poll([(0, "a")])
        .assign(None)
        .poll([(1, "b")]),
    ),
    "nonmonotonic-send": (
        Story().send("a", 1).send("b", 0).poll([(0, "b"), (1, "a")]),
        Story().overtaken(("a", 1), ("b", 0)).poll([(0, "b"), (1, "a")]),
    ),
    "int-nonmonotonic-send": (
        Story().sends([("a", 1), ("b", 0)]).poll([(0, "b"), (1, "a")]),
        Story().sends([("a", 0), ("b", 1)]).poll([(0, "a"), (1, "b")]),
    ),
    "reordered": (
        Story().send("a", outcome="info").send("b", 0).poll([(0, "b"), (1, "a")]),
        Story().send("a", outcome="info").send("b", 1).poll([(0, "a"), (1, "b")]),
    ),
    "realtime-send": (
        Story().send("a", 1).send("b", 0, by="q").poll([(0, "b"), (1, "a")]),
        Story().send("a", 0).send("b", 1, by="q").poll([(0, "a"), (1, "b")]),
    ),
    "nonmonotonic-commit": (
        Story().commit(3, 10).commit(3, 9),
        # Of a commit that was refused nobody says that it was first.
        Story().commit(3, 10).commit(3, 10).commit(3, 9, outcome="fail").commit(4, 10, by="s"),
    ),
    "unfenced-commit": (
        Story().commit(3, 10).commit(4, 12, by="s").commit(3, 13),
        Story().commit(3, 10).commit(4, 12, by="s").commit(3, 11, outcome="fail"),
    ),
    "lost-commit": (
        Story().commit(3, 10).committed(9),
        Story().commit(3, 10).commit(3, 12, outcome="info").committed(10).committed(12),
    ),
}


@pytest.mark.parametrize("anomaly", SAMPLES)
def test_a_history_shows_one_anomaly(anomaly: str) -> None:
    story, _ = SAMPLES[anomaly]
    verdict = check(story.drained().events)
    assert set(verdict.anomalies) == {anomaly}, verdict.describe()
    assert verdict.anomalies[anomaly].count == 1, verdict.describe()
    assert anomaly in verdict.describe()


@pytest.mark.parametrize("anomaly", SAMPLES)
def test_its_neighbour_shows_none(anomaly: str) -> None:
    _, story = SAMPLES[anomaly]
    verdict = check(story.drained().events)
    assert verdict.valid, verdict.describe()


def test_a_history_that_was_not_drained_proves_too_little() -> None:
    for story in (three_sent().poll([(0, "a")]), three_sent().poll([(0, "a")]).drained("info")):
        assert set(check(story.events).anomalies) == {"incomplete-drain"}


def test_a_duplicate_is_allowed_without_idempotence() -> None:
    story = two_sent().poll([(0, "a"), (1, "b"), (2, "b")]).drained()
    verdict = check(story.events, idempotent=False)
    assert verdict.valid
    assert verdict.allowed["duplicate"] == 1


def test_an_unknown_send_that_was_read_counts_as_committed() -> None:
    # One operation, two sends: b was read, so a, at 0, happened too, and nobody found it.
    story = Story().sends([("a", 0), ("b", 1)], outcome="info").poll([(1, "b")]).drained()
    assert set(check(story.events).anomalies) == {"lost-write"}


def test_a_value_read_in_another_partition_is_unwritten_there() -> None:
    story = Story().send("a", 0).poll([(0, "a")]).poll([(0, "a")], key="t/1").drained()
    assert "unwritten-read" in check(story.events).anomalies


def test_a_subscriber_that_is_moved_is_not_held_to_its_position() -> None:
    story = two_sent().subscribe().poll([(0, "a"), (1, "b")]).subscribe().poll([(0, "a")])
    verdict = check(story.drained().events)
    assert verdict.valid
    assert verdict.allowed["nonmonotonic-poll"] == 1
    moved = two_sent().subscribe().poll([(0, "a"), (1, "b")])
    moved.poll([(1, "b"), (0, "a")], rebalanced=("t/0",))
    assert check(moved.drained().events).valid


def test_the_first_record_after_an_assign_is_the_first_there_is() -> None:
    story = two_sent().assign(0).poll([(1, "b")]).poll([(0, "a")], by="s").drained()
    assert set(check(story.events).anomalies) == {"poll-skip"}


def test_the_longest_silence_counts_only_while_somebody_waits() -> None:
    story = two_sent().poll([(0, "a"), (1, "b")]).drained()
    moved = [event if event.at < 2_000 else _later(event, 5_000_000_000) for event in story.events]
    assert check(moved).silence_seconds < 1
    torn = [event if event.at < 3_000 else _later(event, 5_000_000_000) for event in story.events]
    assert 4 < check(torn).silence_seconds < 6


def _later(event: Event, by: int) -> Event:
    return msgspec.structs.replace(event, at=event.at + by)


def test_a_history_is_the_same_from_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (bad, good) in enumerate(SAMPLES.values()):
        for story, code in ((bad, 1), (good, 0)):
            path = tmp_path / f"{number}-{code}.jsonl"
            write_history(path, story.drained().events)
            assert list(History(path)) == story.events
            assert main([str(path)]) == code
    capsys.readouterr()


def test_recorders_write_what_happens(tmp_path: Path) -> None:
    with Recorder(tmp_path / "a.jsonl") as sends, Recorder(tmp_path / "b.jsonl") as reads:
        producer, consumer = sends.new_process("producer"), reads.new_process("consumer")
        assert producer != sends.new_process("producer")
        send = sends.invoke(producer, "send", sends=[("t/0", None, "a")])
        poll = reads.invoke(consumer, "poll")
        send.complete("ok", sends=[("t/0", 0, "a")])
        poll.complete("ok", polls={"t/0": [(0, "a")]})
        sends.note("faults", "nothing happened")
        reads.invoke("last", "drain").complete("ok")
        with pytest.raises(AssertionError, match="completed twice"):
            send.complete("info")
    merged = History(sends.path, reads.path)
    assert [event.f for event in merged].count("send") == 2
    times = [event.at for event in merged]
    assert times == sorted(times)
    verdict = check(merged)
    assert verdict.valid, verdict.describe()
    assert verdict.counts["send ok"] == verdict.counts["values read"] == 1
    assert verdict.counts["faults"] == 1


def long_history(operations: int, seed: int = 1) -> Iterator[Event]:
    """Four producers with a hundred sends in flight each, four partitions, two readers."""
    random = Random(seed)
    partitions: list[list[str]] = [[] for _ in range(4)]
    sent = 0
    at = 0
    positions = [[0] * 4, [0] * 4]
    while sent < operations:
        in_flight = []
        for number in range(400):
            at += 1_000
            process, key = f"p{number % 4}", random.randrange(4)
            sent += 1
            value = f"{process}-{sent}"
            offset = len(partitions[key])
            partitions[key].append(value)
            in_flight.append((process, sent, ((f"t/{key}", offset, value),)))
            send = ((f"t/{key}", None, value),)
            yield Event(at=at, process=process, op=sent, type="invoke", f="send", sends=send)
        for process, number, sends in in_flight:
            at += 1_000
            yield Event(at=at, process=process, op=number, type="ok", f="send", sends=sends)
        for reader, position in enumerate(positions):
            at += 1_000
            polls = {
                f"t/{key}": tuple(enumerate(partitions[key][position[key] :], position[key]))
                for key in range(4)
            }
            position[:] = map(len, partitions)
            identity = {"at": at, "process": f"r{reader}", "op": sent}
            yield Event(**identity, type="invoke", f="poll")  # type: ignore[arg-type]
            yield Event(**identity, type="ok", f="poll", polls=polls)  # type: ignore[arg-type]
    for kind in ("invoke", "ok"):
        yield Event(at=at, process="last", op=0, type=kind, f="drain")


def _check_long_history(path: Path, operations: int) -> float:
    history = write_history(path, long_history(operations))
    began = time.process_time()
    verdict = check(history)
    seconds = time.process_time() - began
    assert verdict.valid, verdict.describe()
    assert verdict.counts["send ok"] >= operations
    return seconds


@pytest.mark.slow
def test_a_long_history_takes_seconds(tmp_path: Path) -> None:
    assert _check_long_history(tmp_path / "long.jsonl", OPERATIONS) < 30


@pytest.mark.soak
def test_a_million_operations(tmp_path: Path) -> None:
    seconds = _check_long_history(tmp_path / "long.jsonl", 1_000_000)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"a million sends, read twice: {seconds:.1f} s, {memory} MiB")
    assert seconds < 300
    assert memory < 2_000
