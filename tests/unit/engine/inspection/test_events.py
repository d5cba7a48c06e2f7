"""Lines of what happened, on one node and on several."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.limits import EVENT_CHARACTERS_MAX, EVENTS_MAX
from penstock.core.types import NodeId
from penstock.engine.inspection.events import Event, Events, kind_of, merge
from penstock.testing.clock import ManualClock
from tests.unit.engine.nodes import Nodes


def test_the_newest_lines_are_kept() -> None:
    clock = ManualClock(wall_ms=1_000)
    events = Events(NodeId(1), clock)
    for number in range(EVENTS_MAX + 10):
        clock.advance(1)
        events.note(f"line {number}")
    found = events.here()
    assert len(found) == EVENTS_MAX
    assert found[0].line == "line 10"
    assert found[-1].number == EVENTS_MAX + 10
    assert found[-1].at_ms == 1_000 + EVENTS_MAX + 10


def test_a_line_is_bounded() -> None:
    events = Events(NodeId(1), ManualClock())
    events.note("x" * 10_000)
    assert len(events.here()[0].line) == EVENT_CHARACTERS_MAX


def test_what_is_announced_is_noted() -> None:
    said: list[str] = []
    events = Events(NodeId(1), ManualClock())
    announce = events.overheard(said.append)
    announce("shard 1 leads in term 4")
    assert said == ["shard 1 leads in term 4"]
    assert [event.kind for event in events.here()] == ["leadership"]


def test_listeners_hear_new_lines_until_they_end() -> None:
    heard: list[str] = []
    events = Events(NodeId(1), ManualClock())
    end = events.listen(lambda event: heard.append(event.line))
    events.note("one")
    end()
    end()
    events.note("two")
    assert heard == ["one"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("shard 2 leads in term 7", "leadership"),
        ("shard 2 no longer leads in term 7", "leadership"),
        ("lost the link with node 2 at b.example:9192: it was closed", "link"),
        ("linked with node 2 at b.example:9192, version 1.0", "link"),
        ("shard 1 halts: the disk failed", "trouble"),
        ("shard 1 installed the snapshot at 500", "repair"),
        ("made jobs-dead, the dead-letter queue of jobs", "other"),
    ],
)
def test_a_line_is_of_a_kind(line: str, kind: str) -> None:
    assert kind_of(line) == kind


def test_lines_of_several_nodes_are_in_one_order() -> None:
    def line(at_ms: int, node: int, number: int) -> Event:
        return Event(at_ms=at_ms, node=NodeId(node), number=number, kind="other", line="")

    mixed = [line(5, 2, 1), line(1, 1, 1), line(5, 1, 3), line(5, 1, 2)]
    assert [(one.at_ms, one.node, one.number) for one in merge(mixed, 10)] == [
        (1, 1, 1), (5, 1, 2), (5, 1, 3), (5, 2, 1)
    ]  # fmt: skip
    assert [one.number for one in merge(mixed, 2)] == [3, 1]


@pytest.mark.slow
def test_any_node_tells_what_happened_on_all(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2, 3))
        await nodes.start()
        try:
            found = await nodes[2].events.everywhere()
            assert {event.node for event in found} == {1, 2, 3}
            assert [event.at_ms for event in found] == sorted(event.at_ms for event in found)
            assert any("leads in term" in event.line for event in found)
        finally:
            await nodes.stop()

    asyncio.run(story())
