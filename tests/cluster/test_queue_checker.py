"""The checker of queues is checked: every anomaly has a history that shows it, and nothing else,
and one that differs by little and shows nothing.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.history import Completion, Event, EventType, Function, Recorder, write_history
from tests.cluster.queue_checker import TOLERANCE_MS, check_queues, main
from tests.cluster.queue_facts import Delivered, Promises, QueueFacts, Verdict

MILLISECOND = 1_000_000
LEASE_MS = 1_000
WINDOW_MS = 10_000
MESSAGES = 20_000
ZEROES = dict.fromkeys(
    (
        *("sent", "ready", "leased", "delayed", "dead"),
        *("acked", "moved", "expired", "purged", "dropped", "duplicates"),
    ),
    0,
)


class Story:
    """A made-up history: one operation after the other, each as long as it is told to be."""

    def __init__(self, **promises: Any) -> None:
        self.events: list[Event] = []
        self._now_ms = 0.0
        self._numbers = itertools.count(1)
        self._operation("queue", QueueFacts("q", promises=Promises(**promises)))

    def wait(self, milliseconds: float) -> "Story":
        self._now_ms += milliseconds
        return self

    def send(
        self, value: str, *, outcome: Completion = "ok", identity: str = "", **facts: Any
    ) -> "Story":
        asked = QueueFacts("q", **facts)
        answer = QueueFacts("q", identity=identity, **facts)
        return self._operation(
            "send", asked, outcome, answer=answer, sends=((("q/0"), None, value),)
        )

    def receive(
        self,
        *delivered: tuple[str, int] | tuple[str, int, str],
        queue: str = "q",
        outcome: Completion = "ok",
        lease_ms: int = LEASE_MS,
        took_ms: float = 1,
    ) -> "Story":
        """Messages are told by value and count; a receipt is made of both."""
        rows = tuple(
            Delivered(value, f"{queue}:{value}:{count}", count, *rest)
            for value, count, *rest in delivered
        )
        asked = QueueFacts(queue, lease_ms=lease_ms)
        answer = QueueFacts(queue, lease_ms=lease_ms, delivered=rows)
        return self._operation("receive", asked, outcome, answer=answer, took_ms=took_ms)

    def begin_receive(self, worker: str) -> "Story":
        """A receive that is not answered yet."""
        return self._event(worker, 0, "invoke", "receive", QueueFacts("q", lease_ms=LEASE_MS))

    def end_receive(self, worker: str, *delivered: tuple[str, int]) -> "Story":
        rows = tuple(Delivered(value, f"q:{value}:{count}", count) for value, count in delivered)
        return self._event(worker, 0, "ok", "receive", QueueFacts("q", delivered=rows))

    def settle(
        self,
        value: str,
        count: int,
        verdict: Verdict = "ack",
        *,
        queue: str = "q",
        outcome: Completion = "ok",
        delay_ms: int = 0,
    ) -> "Story":
        receipt = f"{queue}:{value}:{count}"
        facts = QueueFacts(queue, receipt=receipt, verdict=verdict, delay_ms=delay_ms)
        return self._operation("settle", facts, outcome)

    def done(self, value: str, count: int = 1, *, queue: str = "q") -> "Story":
        """Received and acked."""
        return self.receive((value, count), queue=queue).settle(value, count, queue=queue)

    def failed(self, value: str, *counts: int) -> "Story":
        """Delivered, and nothing came of it until the lease was over."""
        for count in counts:
            self.receive((value, count)).wait(LEASE_MS + 2 * TOLERANCE_MS)
        return self

    def counted(self, queue: str = "q", **counts: int) -> "Story":
        return self._operation("counts", QueueFacts(queue, counts=ZEROES | counts))

    def drained(self, outcome: Completion = "ok") -> "Story":
        return self._operation("drain", None, outcome)

    def _operation(
        self,
        f: Function,
        asked: QueueFacts | None,
        outcome: Completion = "ok",
        *,
        answer: QueueFacts | None = None,
        took_ms: float = 1,
        **fields: Any,
    ) -> "Story":
        number = next(self._numbers)
        self._event("p", number, "invoke", f, asked, **fields)
        self._now_ms += took_ms
        return self._event("p", number, outcome, f, answer or asked, **fields).wait(took_ms)

    def _event(
        self,
        process: str,
        number: int,
        kind: EventType,
        f: Function,
        facts: QueueFacts | None,
        **fields: Any,
    ) -> "Story":
        at = int(self._now_ms * MILLISECOND)
        self.events.append(
            Event(at=at, process=process, op=number, type=kind, f=f, queue=facts, **fields)
        )
        return self


def bounded() -> Story:
    return Story(deliveries_max=2, dead_letters="dead")


def fifo() -> Story:
    return Story(fifo=True).send("a", group="g").send("b", group="g")


def remembering() -> Story:
    return Story(dedup_window_ms=WINDOW_MS).send("a", dedup="i")


SAMPLES: dict[str, tuple[Story, Story]] = {
    # Name: a history that shows it, one that does not.
    "two-leases": (
        Story().send("a").receive(("a", 1)).wait(LEASE_MS / 2).done("a", 2),
        Story().send("a").receive(("a", 1)).wait(LEASE_MS + TOLERANCE_MS).done("a", 2),
    ),
    "resurrected": (
        Story().send("a").done("a").wait(LEASE_MS).done("a", 2),
        # Nobody knows whether that ack was heard.
        Story().send("a").receive(("a", 1)).settle("a", 1, outcome="info").wait(LEASE_MS)
        .done("a", 2),
    ),
    "unfenced-receipt": (
        Story().send("a").failed("a", 1).receive(("a", 2)).settle("a", 1).settle("a", 2),
        Story().send("a").failed("a", 1).receive(("a", 2)).settle("a", 1, outcome="fail")
        .settle("a", 2),
    ),
    "repeated-count": (
        Story().send("a").failed("a", 1, 1).done("a", 2),
        Story().send("a").failed("a", 1, 2).done("a", 3),
    ),
    "missing-count": (
        Story().send("a").failed("a", 1).done("a", 3),
        Story().send("a").failed("a", 1).receive(outcome="info").wait(LEASE_MS).done("a", 3),
    ),
    "too-many-deliveries": (
        bounded().send("a").failed("a", 1, 2).done("a", 3),
        bounded().send("a").failed("a", 1).done("a", 2),
    ),
    "hasty-dead-letter": (
        bounded().send("a").failed("a", 1).done("a", 3, queue="dead"),
        bounded().send("a").failed("a", 1, 2).done("a", 3, queue="dead"),
    ),
    "acked-dead-letter": (
        bounded().send("a").failed("a", 1).done("a", 2).done("a", 3, queue="dead"),
        bounded().send("a").failed("a", 1).receive(("a", 2)).settle("a", 2, outcome="info")
        .wait(LEASE_MS).done("a", 3, queue="dead"),
    ),
    "repeated-dead-letter": (
        bounded().send("a").failed("a", 1, 2).done("a", 3, queue="dead").done("a", 3, queue="dead"),
        bounded().send("a").failed("a", 1, 2).receive(("a", 3), queue="dead").wait(2 * LEASE_MS)
        .done("a", 4, queue="dead"),
    ),
    "fifo-overtaken": (
        fifo().receive(("b", 1)).settle("b", 1).done("a"),
        # Together and in order, or one after the other.
        fifo().receive(("a", 1), ("b", 1)).settle("a", 1).settle("b", 1)
        .send("c", group="g").send("d", group="g").done("c").done("d"),
    ),
    "early-delivery": (
        Story().send("a", delay_ms=500).wait(400).done("a"),
        Story().send("a", delay_ms=500).wait(490).done("a"),
    ),
    "early-retry": (
        Story().send("a").receive(("a", 1)).settle("a", 1, "release", delay_ms=500).wait(400)
        .done("a", 2),
        Story().send("a").receive(("a", 1)).settle("a", 1, "release", delay_ms=500).wait(490)
        .done("a", 2),
    ),
    "priority-overtaken": (
        Story(strict_priority=True).send("a", priority=1).send("b", priority=2).done("a").done("b"),
        Story(strict_priority=True).send("a", priority=1).send("b", priority=2).done("b").done("a"),
    ),
    "lost-message": (
        Story().send("a").send("b").done("a"),
        Story().send("a").send("b", outcome="info").done("a"),
    ),
    "unsent-delivery": (Story().done("ghost"), Story().send("a").done("a")),
    "refused-delivery": (
        Story().send("a", outcome="fail").done("a"),
        Story().send("a", outcome="info").done("a"),
    ),
    "foreign-delivery": (
        Story().send("a").done("a", queue="elsewhere").done("a"),
        bounded().send("a").failed("a", 1, 2).done("a", 3, queue="dead"),
    ),
    "changed-identity": (
        Story().send("a", identity="one").receive(("a", 1, "two")).settle("a", 1),
        Story().send("a", identity="one").receive(("a", 1, "one")).settle("a", 1),
    ),
    "duplicate-delivered": (
        remembering().wait(WINDOW_MS / 2).send("b", dedup="i").done("a").done("b"),
        remembering().wait(WINDOW_MS).send("b", dedup="i").done("a").done("b"),
    ),
    "wrong-counts": (
        Story().send("a").done("a").counted(sent=2, acked=1, expired=1),
        Story().send("a").done("a").counted(sent=1, acked=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("anomaly", SAMPLES)
def test_a_history_shows_one_anomaly(anomaly: str) -> None:
    story, _ = SAMPLES[anomaly]
    verdict = check_queues(story.drained().events)
    assert set(verdict.anomalies) == {anomaly}, verdict.describe()
    assert anomaly in verdict.describe()


@pytest.mark.parametrize("anomaly", SAMPLES)
def test_a_history_that_differs_by_little_shows_none(anomaly: str) -> None:
    _, story = SAMPLES[anomaly]
    verdict = check_queues(story.drained().events)
    assert verdict.valid, verdict.describe()


def found_in(story: Story) -> set[str]:
    return set(check_queues(story.drained().events).anomalies)


def test_a_history_must_end_with_a_drain() -> None:
    unread = Story().send("a")
    assert set(check_queues(unread.events).anomalies) == {"incomplete-drain"}
    assert set(check_queues(unread.drained("info").events).anomalies) == {"incomplete-drain"}


def test_a_release_or_an_unknown_ack_may_end_a_lease_early() -> None:
    for verdict in ("release", "ack", "reject"):
        story = Story().send("a").receive(("a", 1))
        story.settle("a", 1, verdict, outcome="info").done("a", 2)
        assert not found_in(story), verdict
    refused = Story().send("a").receive(("a", 1)).settle("a", 1, "release", outcome="fail")
    assert found_in(refused.done("a", 2)) == {"two-leases"}


def test_an_extension_lengthens_a_lease_and_an_unknown_one_may_shorten_it() -> None:
    extended = Story().send("a").receive(("a", 1)).settle("a", 1, "extend", delay_ms=3 * LEASE_MS)
    assert found_in(extended.wait(2 * LEASE_MS).done("a", 2)) == {"two-leases"}
    unknown = Story().send("a").receive(("a", 1))
    unknown.settle("a", 1, "extend", delay_ms=LEASE_MS // 10, outcome="info").wait(LEASE_MS / 2)
    assert not found_in(unknown.done("a", 2))
    shortened = Story().send("a").receive(("a", 1)).settle("a", 1, "extend", delay_ms=100)
    assert not found_in(shortened.wait(100).done("a", 2))


def test_a_receive_that_waits_may_be_answered_after_one_that_does_not() -> None:
    # The one that got delivery 2 began first; its lease has nothing to do with delivery 1.
    story = Story().send("a").begin_receive("waiting").receive(("a", 1)).wait(LEASE_MS)
    assert not found_in(story.wait(TOLERANCE_MS).end_receive("waiting", ("a", 2)).settle("a", 2))
    hasty = Story().send("a").begin_receive("waiting").receive(("a", 1)).wait(LEASE_MS / 2)
    assert found_in(hasty.end_receive("waiting", ("a", 2)).settle("a", 2)) == {"two-leases"}


def test_a_dead_letter_may_have_been_delivered_by_receives_nobody_saw() -> None:
    story = bounded().send("a").failed("a", 1).receive(outcome="info").wait(2 * LEASE_MS)
    assert not found_in(story.done("a", 3, queue="dead"))
    unseen = bounded().send("a").done("a", 3, queue="dead")
    assert found_in(unseen) == {"hasty-dead-letter"}
    rejected = bounded().send("a").receive(("a", 1)).settle("a", 1, "reject")
    assert not found_in(rejected.done("a", 2, queue="dead"))
    forgetful = bounded().send("a").failed("a", 1, 2).done("a", 1, queue="dead")
    assert found_in(forgetful) == {"hasty-dead-letter"}


def test_a_dead_letter_is_not_delivered_where_it_was() -> None:
    story = bounded().send("a").failed("a", 1).receive(outcome="info").wait(2 * LEASE_MS)
    assert found_in(story.done("a", 3, queue="dead").done("a", 2)) >= {"resurrected"}


def test_a_dead_letter_holds_up_nobody() -> None:
    story = Story(fifo=True, deliveries_max=1, dead_letters="dead")
    story.send("a", group="g").send("b", group="g").failed("a", 1).done("b")
    assert not found_in(story.done("a", 2, queue="dead"))


def test_other_groups_do_not_wait() -> None:
    story = Story(fifo=True).send("a", group="g").send("b", group="h")
    assert not found_in(story.done("b").done("a"))


def test_one_of_a_batch_must_stand_behind_those_before_it() -> None:
    story = fifo().receive(("b", 1), ("a", 1)).settle("a", 1).settle("b", 1)
    assert found_in(story) == {"fifo-overtaken"}


def test_a_receive_that_brought_nothing_may_have_leased_what_was_more_important() -> None:
    def sent() -> Story:
        return Story(strict_priority=True).send("a", priority=1).send("b", priority=2)

    assert not found_in(sent().receive().done("a").done("b"))
    before = Story(strict_priority=True).receive().send("a", priority=1).send("b", priority=2)
    assert found_in(before.done("a").done("b")) == {"priority-overtaken"}
    assert found_in(sent().done("a").done("b").receive()) == {"priority-overtaken"}


def test_a_duplicate_may_be_missing_and_the_first_may_not() -> None:
    assert not found_in(remembering().send("b", dedup="i").done("a"))
    # It was the second that was taken: nobody knows when the first arrived.
    story = Story(dedup_window_ms=WINDOW_MS).send("a", dedup="i", outcome="info")
    assert not found_in(story.send("b", dedup="i").done("b"))
    assert found_in(remembering().send("b", dedup="i")) == {"lost-message"}
    late = remembering().wait(WINDOW_MS + 2 * TOLERANCE_MS).send("b", dedup="i").done("a")
    assert found_in(late) == {"lost-message"}


def test_counts_must_fit_what_happened() -> None:
    def acked() -> Story:
        return Story().send("a").done("a").send("b", outcome="info")

    assert not found_in(acked().counted(sent=1, acked=1))
    assert not found_in(
        acked().counted(sent=2, ready=1, acked=1).done("b").counted(sent=2, acked=2)
    )
    for counts in (
        {"sent": 1, "ready": 1},
        {"sent": 3, "acked": 3},
        {"sent": 2, "acked": 2},
        {"sent": 1, "moved": 1},
        {"sent": 1, "acked": 2},
    ):
        assert found_in(acked().counted("q", **counts)) == {"wrong-counts"}, counts
    dead = bounded().send("a").failed("a", 1, 2).counted(sent=1, moved=1).done("a", 3, queue="dead")
    assert not found_in(dead.counted(queue="dead", sent=2, acked=1, duplicates=1))
    again = (
        bounded().send("a").failed("a", 1, 2).counted(sent=1, moved=1).done("a", 3, queue="dead")
    )
    assert found_in(again.counted(queue="dead", sent=2, acked=2)) == {"wrong-counts"}


@pytest.mark.parametrize("anomaly", ["two-leases", "wrong-counts"])
def test_a_file_can_be_checked(
    tmp_path: Path, anomaly: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (story, code) in enumerate(zip(SAMPLES[anomaly], (1, 0), strict=True)):
        path = tmp_path / f"{number}.jsonl"
        write_history(path, [*story.events, *Story().drained().events[-2:]])
        assert main([str(path)]) == code
    assert anomaly in capsys.readouterr().out


def test_recorders_write_what_happens(tmp_path: Path) -> None:
    with Recorder(tmp_path / "history.jsonl") as recorder:
        facts = QueueFacts("q", lease_ms=LEASE_MS)
        recorder.invoke("s", "send", sends=[("q/0", None, "a")], queue=QueueFacts("q")).complete(
            "ok", queue=QueueFacts("q", identity="id")
        )
        receive = recorder.invoke("w", "receive", queue=facts)
        receive.complete("ok", queue=QueueFacts("q", delivered=(Delivered("a", "r", 1, "id"),)))
        ack = QueueFacts("q", receipt="r")
        recorder.invoke("w", "settle", queue=ack).complete("ok", queue=ack)
        recorder.invoke("last", "drain").complete("ok")
        verdict = check_queues(recorder.history())
    assert verdict.valid, verdict.describe()
    assert verdict.counts["send ok"] == verdict.counts["deliveries"] == 1
    assert verdict.counts["settle ok"] == 1


def test_a_long_history_is_checked() -> None:
    story = Story(fifo=True)
    for number in range(MESSAGES):
        story.send(f"v-{number}", group=str(number % 10)).done(f"v-{number}")
    story.counted(sent=MESSAGES, acked=MESSAGES).drained()
    verdict = check_queues(story.events)
    assert verdict.valid, verdict.describe()
