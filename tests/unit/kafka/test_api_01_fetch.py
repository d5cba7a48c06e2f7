"""Fetch: whole batches, bounds, waiting, and what cannot be read."""

import asyncio

import pytest

from penstock.core.records import read_outline
from penstock.kafka.codec import Message
from tests.batches import build_batch
from tests.kafka_cluster import until
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.wire import Connect, Run

ALL = range(4, 19)
BATCH = bytes(build_batch(3))


def request(
    *topics: tuple[str | bytes, list[dict[str, object]]],
    max_wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 24,
    **more: object,
) -> dict[str, object]:
    rows = []
    for key, parts in topics:
        named = {"topic_id": key} if isinstance(key, bytes) else {"topic": key}
        rows.append({**named, "partitions": parts})
    return {
        "max_wait": max_wait, "min_bytes": min_bytes, "max_bytes": max_bytes, "topics": rows,
        "forgotten_topics_data": [], **more,
    }  # fmt: skip


def part(partition: int = 0, offset: int = 0, **more: object) -> dict[str, object]:
    row: dict[str, object] = {"partition": partition, "fetch_offset": offset}
    return {**row, "partition_max_bytes": 1 << 20, **more}


def bases(records: bytes | None) -> list[int]:
    """The base offsets of the batches in an answer."""
    found, position = [], 0
    while records and position < len(records):
        base_offset, size, *_ = read_outline(records, position)
        found.append(base_offset)
        position += size
    return found


def rows(answer: Message) -> list[Message]:
    return [row for topic in answer.responses for row in topic.partitions]


def filled(ask: Asker, name: str, batches: int, partitions: int = 1) -> bytes:
    topic_id = ask.create_topic(name, partitions)
    for index in range(partitions):
        for _ in range(batches):
            ask.produce(name, index, 3)
    return topic_id


@pytest.mark.parametrize("version", ALL)
def test_batches_come_whole_from_the_one_that_holds_the_offset(ask: Asker, version: int) -> None:
    name = f"fetch-{version}"
    topic_id = filled(ask, name, 3)
    key = topic_id if version >= 13 else name
    for offset, wanted in ((0, [0, 3, 6]), (4, [3, 6]), (8, [6]), (9, [])):
        answer = ask(1, version, request((key, [part(0, offset)])))
        (row,) = rows(answer)
        assert row.error_code == 0
        assert bases(row.records) == wanted
        assert (row.high_watermark, row.last_stable_offset) == (9, 9)
        assert row.log_start_offset == (0 if version >= 5 else -1)
        assert row.aborted_transactions in ((), None)
        assert answer.session_id == 0


@pytest.mark.parametrize("version", ALL)
def test_errors_stand_with_their_partition(ask: Asker, version: int) -> None:
    name = f"fetch-wrong-{version}"
    topic_id = filled(ask, name, 1, partitions=3)
    known: str | bytes = topic_id if version >= 13 else name
    unknown: str | bytes = b"\x07" * 16 if version >= 13 else "fetch-nowhere"
    answer = ask(
        1,
        version,
        request(
            (known, [part(0, 4), part(1, -1), part(9, 0), part(2, 0)]),
            (unknown, [part(0, 0)]),
            max_wait=60_000,
            min_bytes=1 << 20,
        ),
    )
    found = rows(answer)
    assert [row.error_code for row in found] == [1, 1, 3, 0, 100 if version >= 13 else 3]
    assert found[0].high_watermark == 3, "a client that is lost learns where the end is"


@pytest.mark.parametrize("rows_asked", [3, 20_000], ids=["short", "in slices"])
def test_a_partition_that_is_named_often_is_answered_once(ask: Asker, rows_asked: int) -> None:
    name = f"fetch-often-{rows_asked}"
    filled(ask, name, 2, partitions=2)
    asked = [part(1), *[part(0)] * rows_asked]
    first, second = rows(ask(1, 4, request((name, asked), (name, asked))))
    assert (first.partition_index, second.partition_index) == (1, 0)
    assert (bases(first.records), bases(second.records)) == ([0, 3], [0, 3])


def test_a_long_fetch_waits_for_messages_and_is_answered_with_them(
    connect: Connect, run: Run
) -> None:
    async def test() -> None:
        async with connect() as client, connect() as other:
            topic = {
                "name": "fetch-long", "num_partitions": 900, "replication_factor": -1,
                "assignments": [], "configs": [],
            }  # fmt: skip
            await client.call(19, 7, {"topics": [topic]})
            parts = [part(index) for index in range(900)]
            asked = request(("fetch-long", parts), max_wait=60_000)
            fetching = asyncio.ensure_future(client.call(1, 12, asked))
            written = [{"index": 7, "records": BATCH}]
            data = [{"name": "fetch-long", "partition_data": written}]
            await other.call(0, 9, {"acks": -1, "timeout": 10_000, "topic_data": data})
            found = rows(await fetching)
            assert len(found) == 900
            assert [row.partition_index for row in found if row.records] == [7]

    run(test())


def test_a_long_fetch_is_answered_when_the_client_has_waited_enough(ask: Asker) -> None:
    filled(ask, "fetch-patience", 0, partitions=900)
    parts = [part(index) for index in range(900)]
    found = rows(ask(1, 12, request(("fetch-patience", parts), max_wait=1)))
    assert [row.error_code for row in found] == [0] * 900


def test_an_epoch_that_is_not_the_leaders_is_fenced(ask: Asker) -> None:
    filled(ask, "fetch-epoch", 1)
    answer = ask(3, 7, {"topics": [{"name": "fetch-epoch"}]})
    epoch = answer.topics[0].partitions[0].leader_epoch
    for given, code in ((epoch, 0), (epoch - 1, 74), (epoch + 1, 75), (-1, 0)):
        asked = part(0, 0, current_leader_epoch=given)
        (row,) = rows(ask(1, 12, request(("fetch-epoch", [asked]))))
        assert row.error_code == code


def test_bounds_hold_but_the_first_batch_always_comes(ask: Asker) -> None:
    filled(ask, "fetch-bounds", 4, partitions=2)
    both = [part(0), part(1)]
    first, second = rows(ask(1, 4, request(("fetch-bounds", both), max_bytes=1)))
    assert (bases(first.records), bases(second.records)) == ([0], [])
    first, second = rows(ask(1, 4, request(("fetch-bounds", both), max_bytes=3 * len(BATCH))))
    assert (bases(first.records), bases(second.records)) == ([0, 3, 6], [])
    first, second = rows(ask(1, 4, request(("fetch-bounds", both), max_bytes=6 * len(BATCH))))
    assert (bases(first.records), bases(second.records)) == ([0, 3, 6, 9], [0, 3])
    small = [part(0, 0, partition_max_bytes=1), part(1, 0, partition_max_bytes=1)]
    first, second = rows(ask(1, 4, request(("fetch-bounds", small))))
    assert (bases(first.records), bases(second.records)) == ([0], [])


def test_a_session_is_declined(ask: Asker) -> None:
    filled(ask, "fetch-session", 1)
    answer = ask(1, 7, request(("fetch-session", [part()]), session_id=0, session_epoch=0))
    assert (answer.error_code, answer.session_id) == (0, 0)
    assert bases(rows(answer)[0].records) == [0]
    answer = ask(1, 7, request(session_id=5, session_epoch=1))
    assert answer.error_code == 70


def test_nothing_is_answered_after_the_wait(ask: Asker) -> None:
    ask.create_topic("fetch-nothing")
    answer = ask(1, 11, request(("fetch-nothing", [part()]), max_wait=5))
    assert bases(rows(answer)[0].records) == []
    assert ask(1, 11, request(max_wait=60_000)).responses == ()


def test_a_waiting_fetch_is_woken_by_messages(ask: Asker, connect: Connect, run: Run) -> None:
    ask.create_topic("fetch-wait", 2)

    async def scenario() -> None:
        async with connect() as reader:
            reader.send(1, 12, request(("fetch-wait", [part(0), part(1)]), max_wait=60_000))
            async with connect() as other:  # It has certainly arrived when this is answered.
                await other.call(3, 0, {})
            await asyncio.to_thread(ask.produce, "fetch-wait", 1, 3)
            first, second = rows(await reader.receive())
            assert (bases(first.records), bases(second.records)) == ([], [0])

    run(scenario())


def test_a_waiting_fetch_gathers_until_there_is_enough(
    ask: Asker, connect: Connect, run: Run
) -> None:
    filled(ask, "fetch-gather", 1)

    async def scenario() -> None:
        async with connect() as reader:
            wanted = request(("fetch-gather", [part()]), max_wait=60_000, min_bytes=3 * len(BATCH))
            reader.send(1, 12, wanted)
            for _ in range(2):
                await asyncio.to_thread(ask.produce, "fetch-gather", 0, 3)
            (row,) = rows(await reader.receive())
            assert bases(row.records) == [0, 3, 6]
            assert row.high_watermark == 9

    run(scenario())


def test_of_the_waiting_fetches_of_a_connection_only_the_oldest_is_woken(
    ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("fetch-many", 2)
    topics = ask.broker.node.engine.topics
    partitions = topics.topic("fetch-many").partitions

    async def scenario() -> None:
        async with connect() as reader:
            for index in (1, 0, 0, 1):
                reader.send(1, 12, request(("fetch-many", [part(index)]), max_wait=60_000))
            async with connect() as other:
                await other.call(3, 0, {})
            assert [topics.waiting.watches(one) for one in partitions] == [0, 1]
            for index in (0, 1):
                await asyncio.to_thread(ask.produce, "fetch-many", index, 3)
            for index in (1, 0, 0, 1):
                (row,) = rows(await reader.receive())
                assert (row.partition_index, bases(row.records)) == (index, [0])

    run(scenario())
    assert [topics.waiting.watches(one) for one in partitions] == [0, 0]


def test_a_fetch_behind_others_is_answered_when_its_time_is_up(
    ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("fetch-behind", 2)

    async def scenario() -> None:
        async with connect() as reader:
            for wait in (60_000, 1):
                reader.send(1, 12, request(("fetch-behind", [part()]), max_wait=wait))
            await asyncio.to_thread(ask.produce, "fetch-behind", 0, 3)
            (first,), (second,) = rows(await reader.receive()), rows(await reader.receive())
            assert bases(first.records) == [0]
            assert bases(second.records) in ([], [0])

    run(scenario())


def test_fetches_that_are_lost_while_they_wait_leave_nothing_behind(
    ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("fetch-lost")
    state = ask.broker.listener._port_state

    async def scenario() -> None:
        async with connect() as reader:
            for _ in range(3):
                reader.send(1, 12, request(("fetch-lost", [part()]), max_wait=60_000))
            async with connect() as other:
                await other.call(3, 0, {})
        await until(lambda: not len(state.parked_fetches))

    run(scenario())
    topics = ask.broker.node.engine.topics
    assert topics.waiting.watches(topics.topic("fetch-lost").partitions[0]) == 0


def test_a_topic_that_is_deleted_ends_the_wait(ask: Asker, connect: Connect, run: Run) -> None:
    ask.create_topic("fetch-deleted")

    async def scenario() -> None:
        async with connect() as reader:
            reader.send(1, 12, request(("fetch-deleted", [part()]), max_wait=3_000))
            await asyncio.to_thread(ask, 20, 5, {"topic_names": ["fetch-deleted"]})
            (row,) = rows(await reader.receive())
            assert row.error_code in (0, 3)

    run(scenario())


def test_nothing_is_held_when_all_is_answered(ask: Asker) -> None:
    statistics = ask.broker.listener.front_end()
    assert ask.broker.listener._port_state.fetches_held_bytes == 0
    assert statistics.held_bytes["answers"] == 0
