"""Any interleaving of concurrent rebalances ends well: the test for lost members.

Several consumers, written as clients are, share one group while Hypothesis decides what happens
when: who starts and leaves, who gets its turn, how much of what is proposed commits, when time
passes. Then they are left alone, and must all end up in one stable generation, each with its own
work.

In calm weather nobody may ever be told that it is no member: a consumer that keeps to the protocol
and does not fall silent never loses its place, however rebalances overlap. In a storm leaders are
lost at any point with any part of what was under way, connections break, processes are killed; then
ids may be lost, but everybody who lives must find its way back.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.machines.group import GroupState
from tests.coordinators import Consumer, GroupCluster, spin

pytestmark = pytest.mark.slow

NODES = 3
CONSUMERS = 5
SETTLE_MS = 90_000
"""More than a rebalance timeout and a session: whoever died in a round is waited for that long."""

WHO = st.integers(0, CONSUMERS - 1)
CALM = st.one_of(
    st.tuples(st.just("start"), WHO),
    st.tuples(st.just("beat"), WHO),
    st.tuples(st.just("commit"), st.integers(1, 4)),
    st.tuples(st.just("spin"), st.integers(1, 6)),
    st.tuples(st.just("spin"), st.integers(1, 6)),
    st.tuples(st.just("time"), st.integers(1, 3)),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("deaf"), st.booleans()),
)
STORM = st.one_of(
    CALM,
    CALM,
    st.tuples(st.just("reconnect"), WHO),
    st.tuples(st.just("kill"), WHO),
    st.tuples(st.just("lead"), st.tuples(st.integers(0, NODES - 1), st.integers(0, 5))),
)
KINDS = st.lists(st.sampled_from(["new", "old", "static"]), min_size=CONSUMERS, max_size=CONSUMERS)


class Play:
    """One cluster, and the consumers that are there."""

    def __init__(self, kinds: list[str]) -> None:
        self.cluster = GroupCluster(NODES)
        self.cluster.at_once = False
        self.kinds = kinds
        self.consumers: dict[int, Consumer] = {}
        self.everybody: list[Consumer] = []
        self.leaving: list[asyncio.Task[None]] = []

    async def act(self, action: tuple[str, Any]) -> None:
        match action:
            case "start", number if number not in self.consumers:
                kind = self.kinds[number]
                consumer = Consumer(
                    self.cluster,
                    f"c{number}",
                    instance=f"i{number}" if kind == "static" else None,
                    knows_pending=kind == "new",
                )
                self.consumers[number] = consumer
                self.everybody.append(consumer)
                consumer.start()
            case "beat", number if number in self.consumers:
                self.consumers[number].beat()
            case "commit", count:
                self.cluster.commit(count)
            case "spin", turns:
                await spin(turns)
            case "time", ticks:
                self.cluster.pass_time(100 * ticks)
            case "reconnect", number if number in self.consumers:
                await self.consumers[number].restart_request()
            case "kill", number if number in self.consumers:
                await self.consumers.pop(number).stop()
            case "leave", number if number in self.consumers:
                consumer = self.consumers.pop(number)
                self.leaving.append(asyncio.create_task(consumer.leave()))
            case "deaf", deaf:
                self.cluster.deaf = deaf
            case "lead", (node, committed):
                self.cluster.change_leader(node, committed)
            case _:
                pass  # Nobody there to do it.

    async def settle(self) -> None:
        """Nothing bad happens any more."""
        self.cluster.at_once = True
        while self.cluster.proposed:
            self.cluster.commit()
            await spin(1)
        await asyncio.gather(*self.leaving)
        for _ in range(0, SETTLE_MS, 500):
            for consumer in self.consumers.values():
                consumer.beat()
            await self.cluster.run(500)
            if self.is_settled():
                return

    def is_settled(self) -> bool:
        """All that live, and no others, share one generation."""
        group = self.cluster.groups.get("g")
        members = sorted(consumer.member for consumer in self.consumers.values())
        if group is None or not group.members:
            return not members
        return group.state is GroupState.STABLE and sorted(group.members) == members

    def check(self) -> None:
        group = self.cluster.groups.get("g")
        story = group.describe() if group else "there is no group"
        assert self.is_settled(), story
        for consumer in self.consumers.values():
            assert group is not None
            assert consumer.alive
            assert not consumer.fenced
            assert consumer.generation == group.generation, (consumer.name, story)
            work = consumer.assignment
            assert work == group.members[consumer.member].assignment
            assert work is not None
            # A static member keeps the work it was given under its former id.
            generation, _, owner = work.decode().partition("/")
            assert int(generation) == group.generation
            assert owner == consumer.member or consumer.instance is not None
        snapshots = {machine.snapshot() for machine in self.cluster.machines}
        assert len(snapshots) == 1

    async def end(self) -> None:
        for consumer in self.everybody:
            await consumer.stop()
        await self.cluster.close()


def play(kinds: list[str], actions: list[tuple[str, Any]], *, calm: bool) -> None:
    async def run() -> None:
        stage = Play(kinds)
        try:
            for action in actions:
                await stage.act(action)
            await stage.settle()
            stage.check()
            if calm:
                assert [one.sent_away for one in stage.everybody] == [0] * len(stage.everybody)
        finally:
            await stage.end()

    asyncio.run(run())


@settings(max_examples=150)
@given(KINDS, st.lists(CALM, min_size=30, max_size=120))
def test_nobody_who_keeps_to_the_protocol_loses_its_place(
    kinds: list[str], actions: list[tuple[str, Any]]
) -> None:
    play(kinds, actions, calm=True)


@settings(max_examples=150)
@given(KINDS, st.lists(STORM, min_size=30, max_size=120))
def test_everybody_who_lives_ends_up_in_one_generation(
    kinds: list[str], actions: list[tuple[str, Any]]
) -> None:
    play(kinds, actions, calm=False)
