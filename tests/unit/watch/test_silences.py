"""Acknowledgements and silences, on a real node whose clock is moved."""

import msgspec
import pytest

from penstock.core.alert_levels import Level
from penstock.core.errors import InvalidRequest, UnknownAlert
from penstock.core.internal_topics import SILENCES_TOPIC
from penstock.core.limits import SILENCE_CHARACTERS_MAX, SILENCE_MS_MAX, SILENCES_MAX
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.verdicts import Verdict
from penstock.watch.alert import Alert
from penstock.watch.silences import AlertSilence, Silences
from penstock.watch.watch import Watch
from tests.unit.watch.looped import on_a_loop
from tests.unit.watch.test_watch import Watched, watched
from tests.unit.web.dashboard.widgets.test_trouble import alert

HOUR_MS = 3_600_000


class Posted:
    """Notes what the watch sends to its webhook."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.lines: list[str] = []
        watch._notice = self._note  # type: ignore[method-assign, assignment]
        watch.webhook.send = lambda _: None  # type: ignore[method-assign, assignment]

    def _note(self, one: Alert) -> None:
        self.lines.append(f"{one.state.value} {one.level.value}")

    def taken(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


async def deep(one: Watched, count: int = 3) -> Topic:
    """A queue that alerts: attention above 2, critical above 10."""
    topic = await one.make(alert_depth="2,off,10", alert_no_consumers_ms="off")
    await one.send(topic, count)
    return topic


@on_a_loop
async def test_an_acknowledged_alert_is_announced_again_when_it_gets_worse() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        posted = Posted(one.watch)
        topic = await deep(one)
        await one.after(2)
        assert posted.taken() == ["firing attention"]
        (firing,) = one.watch.firing()
        ack = await one.watch.silences.add("ack", for_ms=HOUR_MS, alert=firing, who="mira")
        assert one.watch.firing() == []
        assert one.watch.silences.of(firing) == ack
        await one.send(topic, 20)
        await one.after(2)
        assert posted.taken() == ["firing critical"]
        assert [each.level for each in one.watch.firing()] == [Level.CRITICAL]
        await one.settle(topic, await one.receive(topic, 100), Verdict.ACK)
        await one.after(2)
        assert posted.taken() == ["resolved critical"]
        assert one.watch.silences.current() == (), "over with the alert"


@on_a_loop
async def test_a_silenced_alert_is_announced_when_the_silence_ends() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        posted = Posted(one.watch)
        await one.watch.silences.add("silence", for_ms=HOUR_MS, subject="jo*", who="mira")
        topic = await deep(one)
        await one.after(2)
        assert one.firing == [("depth", Level.ATTENTION)], "it is still watched"
        assert (one.watch.firing(), posted.taken()) == ([], [])
        await one.after(3_600)
        assert posted.taken() == ["firing attention"]
        again = await one.watch.silences.add("silence", for_ms=HOUR_MS, rule="depth", who="mira")
        await one.send(topic, 20)
        await one.after(2)
        assert posted.taken() == []
        await one.watch.silences.end(again.id)
        await one.after(2)
        assert posted.taken() == ["firing critical"]


@on_a_loop
async def test_what_begins_and_ends_in_silence_is_never_announced() -> None:
    async with watched(hold_ms=0, clear_ms=0) as one:
        posted = Posted(one.watch)
        await one.watch.silences.add("silence", for_ms=HOUR_MS, rule="depth", who="mira")
        topic = await deep(one)
        await one.after(2)
        await one.settle(topic, await one.receive(topic, 100), Verdict.ACK)
        await one.after(2)
        assert one.firing == []
        assert posted.taken() == []


@on_a_loop
async def test_every_node_reads_the_same_and_a_restart_forgets_nothing() -> None:
    async with watched() as one:
        made = await one.watch.silences.add("silence", for_ms=HOUR_MS, rule="lag", who="mira")
        other = Silences(one.node)
        await other.read()
        assert other.current() == (made,)
        await other.end(made.id)
        await one.watch.silences.read()
        assert one.watch.silences.current() == ()


@on_a_loop
async def test_they_are_bounded() -> None:
    async with watched() as one:
        silences = one.watch.silences
        for wrong in (0, -1, SILENCE_MS_MAX + 1):
            with pytest.raises(InvalidRequest, match="up to 30 days"):
                await silences.add("silence", for_ms=wrong, rule="lag", who="mira")
        long = "x" * (SILENCE_CHARACTERS_MAX + 1)
        with pytest.raises(InvalidRequest, match="characters"):
            await silences.add("silence", for_ms=1, rule="lag", who="mira", comment=long)
        for _ in range(SILENCES_MAX):
            await silences.add("silence", for_ms=HOUR_MS, rule="lag", who="mira")
        with pytest.raises(InvalidRequest, match="in force already"):
            await silences.add("silence", for_ms=HOUR_MS, rule="lag", who="mira")
        with pytest.raises(UnknownAlert, match="no silence nope"):
            await silences.end("nope")


@on_a_loop
async def test_a_record_that_is_none_is_skipped() -> None:
    async with watched() as one:
        silences = one.watch.silences
        made = await silences.add("silence", for_ms=HOUR_MS, rule="lag", who="mira")
        topic = one.node.engine.topics.topic(SILENCES_TOPIC)
        for junk in (b"", b"{", b"[" * 5_000, msgspec.json.encode({"id": "x"})):
            await one.node.delivery.send(topic, [NewMessage(junk)], index=0)
        await silences.read()
        assert silences.current() == (made,)


@pytest.mark.parametrize(
    ("rule", "subject", "covers"),
    [
        ("depth", "*", True), ("", "jobs", True), ("", "jo*", True), ("depth", "jobs", True),
        ("lag", "*", False), ("", "job", False), ("depth", "other", False),
    ],
)  # fmt: skip
def test_what_a_silence_covers(rule: str, subject: str, covers: bool) -> None:
    one = AlertSilence(id="1", kind="silence", rule=rule, subject=subject, at_ms=0, until_ms=1)
    assert one.covers(alert("jobs", Level.CRITICAL)) is covers
