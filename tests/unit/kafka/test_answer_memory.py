"""Answers that are being built are drawn on the memory budget, and long ones are made in slices."""

from pathlib import Path

import pytest

from penstock.core.limits import (
    KAFKA_ANSWER_PORTION_BYTES,
    KAFKA_LONG_ANSWERS_MAX,
    KAFKA_SMALL_ANSWER_BYTES,
    KIB,
    MIB,
)
from penstock.core.memory_budget import ANSWERS, MemoryBudget
from penstock.engine.replica import time_slices
from penstock.kafka import answer_memory
from penstock.kafka.context import Context
from tests.kafka_broker import open_broker
from tests.kafka_cluster import until
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.wire import Run, wire_client

GROUP = 32


class Other:
    """Another connection, for the memory budget."""

    def moved_bytes(self) -> int | None:
        return None

    def evict(self, reason: str) -> None:
        raise AssertionError(reason)


def groups(count: int) -> dict[str, object]:
    """What DescribeConfigs is asked for: groups that are not there, each with 4 KiB of configs."""
    named = [{"resource_type": GROUP, "resource_name": f"group-{at}"} for at in range(count)]
    return {
        "resources": [{**one, "configuration_keys": None} for one in named],
        "include_synonyms": True,
        "include_documentation": True,
    }


def full(memory: MemoryBudget) -> None:
    """Leave the reserve only."""
    memory.open("kafka", "other", Other()).take(ANSWERS, memory.ordinary_max)


def test_an_answer_waits_for_room_while_it_is_built(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        memory = MemoryBudget(64 * MIB)
        async with open_broker(tmp_path, memory=memory) as broker:
            other = memory.open("kafka", "other", Other())
            other.take(ANSWERS, memory.ordinary_max - 256 * KIB)
            async with wire_client(broker.host, broker.port) as client:
                client.send(32, 4, groups(200))
                await until(lambda: memory.statistics().waiting > 0)
                assert memory.held - memory.ordinary_max <= KAFKA_ANSWER_PORTION_BYTES + 8 * KIB
                async with wire_client(broker.host, broker.port) as small:
                    assert (await small.call(32, 4, groups(1))).results[0].configs
                other.give_back(ANSWERS, memory.ordinary_max // 2)
                answer = await client.receive()
                assert len(answer.results) == 200
                await until(lambda: memory.held == other.held)
            other.close()

    run(scenario())


def test_an_answer_without_room_is_given_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_memory, "KAFKA_ROOM_SECONDS_MAX", 0)

    async def scenario() -> None:
        memory = MemoryBudget(64 * MIB)
        async with open_broker(tmp_path, memory=memory) as broker:
            full(memory)
            async with wire_client(broker.host, broker.port) as client:
                client.send(32, 4, groups(200))
                assert await client.is_closed()  # There is no place for an error of the whole.
            async with wire_client(broker.host, broker.port) as client:
                listed = await client.call(16, 4, {})
                assert (listed.error_code, listed.groups) == (0, ())
            await until(lambda: memory.held == memory.ordinary_max)

    run(scenario())


def test_few_long_answers_are_built_at_once(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_broker(tmp_path) as broker:
            memory, places = broker.node.memory, broker.listener._port_state.long_answers
            for _ in range(KAFKA_LONG_ANSWERS_MAX):
                await places.acquire()
            async with (
                wire_client(broker.host, broker.port) as client,
                wire_client(broker.host, broker.port) as lost,
                wire_client(broker.host, broker.port) as small,
            ):
                client.send(32, 4, groups(500))
                lost.send(32, 4, groups(500))
                await until(lambda: memory.held > 2 * KAFKA_SMALL_ANSWER_BYTES)
                lost.writer.close()
                assert len((await small.call(32, 4, groups(50))).results) == 50
                for _ in range(KAFKA_LONG_ANSWERS_MAX):
                    places.release()
                assert len((await client.receive()).results) == 500
            for _ in range(KAFKA_LONG_ANSWERS_MAX):  # No place is lost with a connection.
                await places.acquire()
            assert places.locked()

    run(scenario())


def test_the_rows_of_a_change_are_drawn_before_anything_is_changed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_memory, "KAFKA_ROOM_SECONDS_MAX", 0)
    topic = {"num_partitions": 1, "replication_factor": -1, "assignments": [], "configs": []}
    topics = [{**topic, "name": f"topic-{number}"} for number in range(600)]

    async def scenario() -> None:
        memory = MemoryBudget(64 * MIB)
        async with open_broker(tmp_path, memory=memory) as broker:
            before = dict(broker.node.engine.topics.catalog.topics)
            full(memory)
            async with wire_client(broker.host, broker.port) as client:
                client.send(19, 7, {"topics": topics, "timeout": 10_000})
                assert await client.is_closed()
            assert broker.node.engine.topics.catalog.topics == before

    run(scenario())


def test_a_request_and_its_answer_have_a_bound(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_memory, "KAFKA_ANSWER_BYTES_MAX", MIB)

    async def scenario() -> None:
        memory = MemoryBudget(64 * MIB)
        async with open_broker(tmp_path, memory=memory) as broker:
            async with wire_client(broker.host, broker.port) as client:
                assert len((await client.call(32, 4, groups(100))).results) == 100
                client.send(32, 4, groups(1_000))
                assert await client.is_closed()
            await until(lambda: not memory.held)
            # ListGroups has a place for an error of the whole: 42, INVALID_REQUEST.
            monkeypatch.setattr(answer_memory, "KAFKA_ANSWER_BYTES_MAX", 0)
            async with wire_client(broker.host, broker.port) as client:
                filters = [f"{number:>40}" for number in range(200)]
                answer = await client.call(16, 5, {"states_filter": filters, "types_filter": []})
                assert answer.error_code == 42
            await until(lambda: not memory.held)

    run(scenario())


def test_rows_are_encoded_one_at_a_time(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As objects, the rows of 300 groups would take four megabytes."""
    drawn: list[int] = []
    draw = Context.draw

    async def counted(self: Context, size: int) -> None:
        drawn.append(size)
        await draw(self, size)

    monkeypatch.setattr(Context, "draw", counted)
    answer = ask(32, 4, groups(300))
    (first, *rest) = answer.results
    assert len(rest) == 299
    assert all(row.configs == first.configs for row in rest)
    assert sum(drawn) > 300 * 3 * KIB
    assert max(drawn) < 2 * KAFKA_ANSWER_PORTION_BYTES


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (75, 0, {"topics": [{"name": f"none-{at}"} for at in range(300)], "cursor": None}),
        (32, 4, groups(300)),
        (35, 4, {"topics": None}),
    ],
)
def test_every_row_of_an_answer_may_end_a_time_slice(
    ask: Asker, monkeypatch: pytest.MonkeyPatch, key: int, version: int, fields: dict[str, object]
) -> None:
    if key == 35:
        ask.create_topic("sliced", 300)
        ask(35, version, fields)
    turns = 0
    let_others = Context.let_others

    async def counted(self: Context) -> None:
        nonlocal turns
        turns += 1
        await let_others(self)

    monkeypatch.setattr(time_slices, "SLICE_SECONDS", 0)
    monkeypatch.setattr(Context, "let_others", counted)
    ask(key, version, fields)
    assert turns >= 300
