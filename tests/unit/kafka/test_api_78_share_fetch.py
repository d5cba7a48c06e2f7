"""ShareFetch: sessions, leases, and what comes along with a fetch."""

import pytest

from penstock.core.message_batches import read_messages
from penstock.core.records import read_outline
from penstock.kafka.share_sessions import LEAVE_MS
from tests.kafka_broker import ThreadedBroker
from tests.unit.engine.nodes import until
from tests.unit.kafka.asking import Asker, asking
from tests.unit.kafka.share_member import (
    ACCEPT,
    ACKNOWLEDGE,
    FETCH,
    FETCH_MS,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    Span,
    acquired,
    produced,
    rows_of,
    share_fetch,
)
from tests.unit.kafka.wire import Connect, Run

EARLIEST = {"share.auto.offset.reset": "earliest"}


def member(ask: Asker, group: str, topic: str, count: int = 0, **configs: str) -> ShareMember:
    """A member of a group that begins at the start of a topic with so many messages."""
    if ask.broker.node.engine.topics.catalog.topic(topic) is None:
        ask.create_topic(topic)
        if count:
            ask.produce(topic, count=count)
    named = {name.replace("_", "."): value for name, value in configs.items()}
    ask.configure_group(group, {**EARLIEST, **named})
    return ShareMember(ask, group)


def place(ask: Asker, topic: str, index: int = 0) -> tuple[bytes, int]:
    return ask.broker.node.engine.topics.topic(topic).topic_id, index


@pytest.mark.parametrize("version", [1, 2])
def test_messages_are_leased_and_accepted(ask: Asker, version: int) -> None:
    group = topic = f"leased-{version}"
    one = member(ask, group, topic, 5)
    one.version = version
    here = place(ask, topic)
    answer = one.fetch(here)
    row = rows_of(answer)[here]
    assert answer.acquisition_lock_timeout == 30_000
    assert acquired(row) == [(0, 4, 1)]
    assert [message.offset for message in read_messages(row.records)] == [0, 1, 2, 3, 4]
    assert (row.current_leader.leader_id, row.error_code) == (1, 0)
    answer = one.fetch(acks={here: [(0, 4, ACCEPT)]})
    row = rows_of(answer)[here]
    assert (row.acknowledge_error_code, acquired(row), row.records) == (0, [], b"")
    assert rows_of(one.fetch()) == {}, "there is nothing to say"
    assert one.fetch(epoch=-1).error_code == 0


def test_a_member_that_finds_nothing_is_there_all_the_same(ask: Asker) -> None:
    one = member(ask, "patient", "patient")
    here = place(ask, "patient")
    one.fetch(here)
    receivers = ask.broker.node.delivery.receivers
    topic = ask.broker.node.engine.topics.topic("patient")
    (name,) = receivers.present((topic.topic_id, "patient"))
    assert "kafka" in name


def test_no_more_than_asked_for(ask: Asker) -> None:
    one = member(ask, "few", "few", 10)
    here = place(ask, "few")
    found = [acquired(rows_of(one.fetch(here, records=4, exact=True))[here]) for _ in range(3)]
    assert found == [[(0, 3, 1)], [(4, 7, 1)], [(8, 9, 1)]]
    assert rows_of(one.fetch(records=4, exact=True)) == {}
    assert rows_of(one.fetch(records=0, acks={here: [(0, 9, RELEASE)]}))[here].records == b""
    assert acquired(rows_of(one.fetch())[here]) == [(0, 9, 2)]


def test_the_number_is_rounded_up_to_the_end_of_a_batch(ask: Asker) -> None:
    one = member(ask, "rounded", "rounded", 10, share_partition_max_record_locks="17")
    ask.produce("rounded", count=5)
    ask.produce("rounded", count=5)
    here = place(ask, "rounded")
    assert acquired(rows_of(one.fetch(here, records=4))[here]) == [(0, 9, 1)]
    assert acquired(rows_of(one.fetch(records=5))[here]) == [(10, 14, 1)]
    assert acquired(rows_of(one.fetch(records=1))[here]) == [(15, 16, 1)], "as many as may be out"


def test_bytes_are_bounded_by_batches(ask: Asker) -> None:
    one = member(ask, "bytes", "bytes")
    for _ in range(4):
        ask.produce("bytes", count=3)
    here = place(ask, "bytes")
    row = rows_of(one.fetch(here, bytes_max=1))[here]
    assert acquired(row) == [(0, 2, 1)], "one batch always fits"
    size = read_outline(row.records, 0)[1]
    assert size == len(row.records)
    assert rows_of(one.fetch(bytes_max=0)) == {}, "the member wants no records"
    assert acquired(rows_of(one.fetch(bytes_max=2 * size))[here]) == [(3, 8, 1)]
    assert acquired(rows_of(one.fetch(bytes_max=2 * size))[here]) == [(9, 11, 1)]


def test_a_part_of_a_batch_is_sent_as_it_is_stored(ask: Asker) -> None:
    one = member(ask, "part", "part", 6)
    here = place(ask, "part")
    whole = rows_of(one.fetch(here, records=2, exact=True))[here].records
    row = rows_of(one.fetch(records=2, exact=True))[here]
    assert (row.records, acquired(row)) == (whole, [(2, 3, 1)])


def test_what_is_released_comes_again_and_what_is_rejected_never(ask: Asker) -> None:
    one = member(ask, "again", "again", 6)
    here = place(ask, "again")
    one.fetch(here)
    acks: list[Span] = [
        (0, 0, ACCEPT),
        (1, 4, [RELEASE, REJECT, GAP, RELEASE]),
        (5, 5, RELEASE),
    ]
    row = rows_of(one.fetch(acks={here: acks}))[here]
    assert row.acknowledge_error_code == 0
    assert acquired(row) == [(1, 1, 2), (4, 5, 2)]


def test_a_message_is_given_up_after_so_many_deliveries(ask: Asker) -> None:
    one = member(ask, "given-up", "given-up", 1, share_delivery_count_limit="2")
    here = place(ask, "given-up")
    assert acquired(rows_of(one.fetch(here))[here]) == [(0, 0, 1)]
    assert acquired(rows_of(one.fetch(acks={here: [(0, 0, RELEASE)]}))[here]) == [(0, 0, 2)]
    row = rows_of(one.fetch(acks={here: [(0, 0, RELEASE)]}))[here]
    assert (row.acknowledge_error_code, acquired(row)) == (0, [])


def test_only_so_many_are_out_at_once(ask: Asker) -> None:
    one = member(ask, "locks", "locks", 10, share_partition_max_record_locks="3")
    here = place(ask, "locks")
    assert acquired(rows_of(one.fetch(here))[here]) == [(0, 2, 1)]
    assert rows_of(one.fetch()) == {}
    row = rows_of(one.fetch(acks={here: [(0, 1, ACCEPT)]}))[here]
    assert acquired(row) == [(3, 4, 1)]


def test_a_fetch_waits_for_messages(ask: Asker, run: Run, connect: Connect) -> None:
    one = member(ask, "waited-for", "waited-for")
    here = place(ask, "waited-for")
    one.fetch(here)

    async def story() -> None:
        async with connect() as waiting, connect() as producing:
            fields = share_fetch("waited-for", "waiting", 0, [here], wait_ms=FETCH_MS)
            waiting.send(FETCH, 1, fields)
            await producing.call(0, 9, produced("waited-for", 2))
            assert acquired(rows_of(await waiting.receive())[here]) == [(0, 1, 1)]

    run(story())


@pytest.mark.parametrize("mode", [0, RECORD_LIMIT])
def test_a_member_that_waits_leases_what_is_being_written(
    ask: Asker, run: Run, connect: Connect, mode: int
) -> None:
    """The lease is written with the batch: nothing is read from the log to answer."""
    group = f"being-written-{mode}"
    one = member(ask, group, group)
    here = place(ask, group)
    one.fetch(here)
    topics = ask.broker.node.engine.topics
    partition = topics.topic(group).partitions[0]

    async def story() -> None:
        async with connect() as waiting, connect() as producing:
            fields = share_fetch(group, "waiting", 0, [here], records=2, wait_ms=FETCH_MS)
            waiting.send(FETCH, 2, {**fields, "share_acquire_mode": mode})
            await until(lambda: bool(topics.waiting.watches(partition)))
            await producing.call(0, 9, produced(group, 3))
            row = rows_of(await waiting.receive())[here]
            assert acquired(row) == [(0, 1 if mode else 2, 1)]
            assert [one.offset for one in read_messages(row.records)] == [0, 1, 2]

    run(story())
    topic_id, index = here
    rows = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    fields = {"max_wait": 0, "min_bytes": 0, "topics": [{"topic_id": topic_id, "partitions": rows}]}
    (stored,) = ask(1, 13, fields).responses[0].partitions
    assert [one.offset for one in read_messages(stored.records)] == [0, 1, 2]


def test_a_request_that_comes_later_ends_the_wait(ask: Asker, run: Run, connect: Connect) -> None:
    member(ask, "pressed", "pressed")
    here = place(ask, "pressed")

    async def story() -> None:
        async with connect() as client:
            client.send(FETCH, 1, share_fetch("pressed", "m", 0, [here], wait_ms=FETCH_MS))
            client.send(FETCH, 1, share_fetch("pressed", "m", 1, wait_ms=FETCH_MS))
            client.send(
                ACKNOWLEDGE, 1, {"group_id": "pressed", "member_id": "m", "share_session_epoch": -1}
            )
            for _ in range(3):
                assert (await client.receive()).error_code == 0

    run(story())


def test_latest_means_from_the_first_fetch_on(ask: Asker) -> None:
    ask.create_topic("from-now", partitions=2)
    ask.produce("from-now", count=3)
    here, there = place(ask, "from-now"), place(ask, "from-now", 1)
    one = ShareMember(ask, "from-now")
    assert acquired(rows_of(one.fetch(here))[here]) == []
    for index in (0, 1):
        ask.produce("from-now", index, count=2)
    rows = rows_of(one.fetch(there))
    assert {key: acquired(row) for key, row in rows.items()} == {
        here: [(3, 4, 1)],
        there: [(0, 1, 1)],
    }, "partitions that nobody has asked for yet are opened, too"


def test_a_partition_that_is_added_is_read_from_its_start(ask: Asker) -> None:
    ask.create_topic("grows")
    one = ShareMember(ask, "grows")
    one.fetch(place(ask, "grows"))
    answer = ask(
        37, 3, {"topics": [{"name": "grows", "count": 2, "assignments": None}], "timeout": 10_000}
    )
    assert answer.results[0].error_code == 0
    ask.produce("grows", 1, count=2)
    there = place(ask, "grows", 1)
    assert acquired(rows_of(one.fetch(there))[there]) == [(0, 1, 1)]


def test_a_group_may_begin_some_time_ago(ask: Asker) -> None:
    ask.create_topic("ago")
    now_ms = ask.broker.node.engine.topics.clock.wall_ms()
    for age_ms in (7_200_000, 3_500_000, 1_000):
        ask(0, 9, produced("ago", 1, timestamp=now_ms - age_ms))
    for duration, wanted in (("P1D", 0), ("PT1H", 1), ("PT10M", 2), ("PT0S", 3)):
        group = f"ago-{duration}"
        ask.configure_group(group, {"share.auto.offset.reset": f"by_duration:{duration}"})
        here = place(ask, "ago")
        rows = rows_of(ShareMember(ask, group).fetch(here))
        assert acquired(rows[here]) == ([(wanted, 2, 1)] if wanted < 3 else [])


def test_partitions_take_turns(ask: Asker) -> None:
    ask.create_topic("turns", partitions=3)
    for index in range(3):
        ask.produce("turns", index, count=4)
    one = member(ask, "turns", "turns")
    places = [place(ask, "turns", index) for index in range(3)]
    rows_of(one.fetch(*places, records=2, exact=True))
    served = [next(iter(rows_of(one.fetch(records=2, exact=True))))[1] for _ in range(4)]
    assert served == [1, 2, 0, 1]
    rows = rows_of(one.fetch(records=100))
    assert {key[1]: acquired(row) for key, row in rows.items()} == {2: [(2, 3, 1)]}


# Sessions.


def test_a_session_counts_its_requests(ask: Asker) -> None:
    one = member(ask, "counted", "counted", 1)
    here = place(ask, "counted")
    assert one.fetch(here, epoch=3).error_code == 122
    assert one.fetch(here, epoch=-1).error_code == 122
    assert one.fetch(here).error_code == 0
    assert one.fetch(epoch=2).error_code == 123
    assert one.fetch(epoch=1).error_code == 0
    assert one.fetch(epoch=1).error_code == 123
    assert one.acknowledge({}, epoch=0).error_code == 123
    assert one.acknowledge({}, epoch=5).error_code == 123
    assert one.acknowledge({here: [(0, 0, ACCEPT)]}, epoch=2).error_code == 0
    assert one.acknowledge({}, epoch=-1).error_code == 0
    assert one.acknowledge({}, epoch=3).error_code == 122


def test_a_new_session_keeps_what_the_member_has(ask: Asker) -> None:
    one = member(ask, "renewed", "renewed", 2)
    here = place(ask, "renewed")
    one.fetch(here)
    assert acquired(rows_of(one.fetch(here, epoch=0))[here]) == []
    row = rows_of(one.fetch(epoch=1, acks={here: [(0, 1, ACCEPT)]}))[here]
    assert row.acknowledge_error_code == 0


def test_the_first_request_acknowledges_nothing(ask: Asker) -> None:
    one = member(ask, "first", "first", 1)
    here = place(ask, "first")
    assert one.fetch(here, acks={here: [(0, 0, ACCEPT)]}).error_code == 42
    assert ShareMember(ask, "", "m").fetch(here).error_code == 42
    assert ShareMember(ask, "first", "").fetch(here).error_code == 42
    assert one.fetch(here, group_id=None).error_code == 42


def test_the_last_request_releases_what_is_left(ask: Asker) -> None:
    one, two = member(ask, "last", "last", 4), ShareMember(ask, "last", "other")
    here = place(ask, "last")
    one.fetch(here)
    assert acquired(rows_of(two.fetch(here))[here]) == []
    row = rows_of(one.fetch(epoch=-1, acks={here: [(1, 1, ACCEPT)]}))[here]
    assert row.acknowledge_error_code == 0
    assert acquired(rows_of(two.fetch())[here]) == [(0, 0, 2), (2, 3, 2)]


def test_what_a_lost_connection_had_is_released(ask: Asker, broker: ThreadedBroker) -> None:
    two = member(ask, "lost", "lost", 3)
    here = place(ask, "lost")
    with asking(broker) as other:
        row = rows_of(ShareMember(other, "lost", "lost").fetch(here))[here]
        assert acquired(row) == [(0, 2, 1)]
        assert acquired(rows_of(two.fetch(here))[here]) == []
    assert acquired(rows_of(two.fetch(wait_ms=FETCH_MS))[here]) == [(0, 2, 2)]


def test_what_a_member_had_that_left_is_released(ask: Asker, broker: ThreadedBroker) -> None:
    one, two = member(ask, "left", "left", 3), ShareMember(ask, "left", "other")
    here = place(ask, "left")
    one.heartbeat("left")
    one.fetch(here)
    assert acquired(rows_of(two.fetch(here))[here]) == []
    assert one.heartbeat(epoch=-1).error_code == 0

    async def sweep() -> None:
        port_state = ask.broker.listener._port_state
        port_state.share_sessions.sweep(port_state.clock.monotonic_ms() + LEAVE_MS)

    broker.call(sweep())
    assert acquired(rows_of(two.fetch(wait_ms=FETCH_MS))[here]) == [(0, 2, 2)]
    assert one.fetch().error_code == 122


def test_forgotten_partitions_are_not_read(ask: Asker) -> None:
    ask.create_topic("forgotten", partitions=2)
    one = member(ask, "forgotten", "forgotten")
    places = [place(ask, "forgotten", index) for index in range(2)]
    one.fetch(*places)
    one.fetch(forget=[places[0]])
    for index in range(2):
        ask.produce("forgotten", index)
    assert list(rows_of(one.fetch())) == [places[1]]


# What goes wrong.


def test_partitions_that_are_not_there(ask: Asker) -> None:
    one = member(ask, "missing", "missing", 1)
    nowhere, beyond = (b"?" * 16, 0), place(ask, "missing", 9)
    rows = rows_of(one.fetch(nowhere, beyond, wait_ms=FETCH_MS))
    assert {key: row.error_code for key, row in rows.items()} == {nowhere: 100, beyond: 3}
    rows = rows_of(one.fetch(acks={nowhere: [(0, 0, ACCEPT)], beyond: [(0, 0, ACCEPT)]}))
    assert {key: row.acknowledge_error_code for key, row in rows.items()} == {
        nowhere: 100,
        beyond: 3,
    }


def test_whoever_was_told_waits(ask: Asker) -> None:
    one = member(ask, "told", "told")
    nowhere, here = (b"?" * 16, 0), place(ask, "told")
    one.fetch(nowhere, here)
    ask.produce("told")
    rows = rows_of(one.fetch(wait_ms=FETCH_MS))
    assert {key: row.error_code for key, row in rows.items()} == {nowhere: 100, here: 0}
    assert acquired(rows[here]) == [(0, 0, 1)]


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 1, ACCEPT), (1, 2, ACCEPT)],
        [(2, 1, ACCEPT)],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, 5)],
        [(0, 0, -1)],
        [(0, 0, RENEW)],
        [(-1, 0, ACCEPT)],
        [(0, 0, [])],
    ],
)
def test_what_is_no_acknowledgement(ask: Asker, spans: list[tuple[int, int, int]]) -> None:
    one = member(ask, "senseless", "senseless", 3)
    here = place(ask, "senseless")
    one.fetch(here)
    row = rows_of(one.fetch(records=0, acks={here: spans}))[here]
    assert row.acknowledge_error_code == 42
    assert rows_of(one.acknowledge({here: spans}))[here].error_code == 42
    assert one.fetch(epoch=-1).error_code == 0


def test_what_one_does_not_have_cannot_be_acknowledged(ask: Asker) -> None:
    one = member(ask, "not-had", "not-had", 4)
    here = place(ask, "not-had")
    one.fetch(here, records=2, exact=True)
    for spans in ([(0, 2, ACCEPT)], [(2, 3, ACCEPT)], [(0, 0, ACCEPT), (3, 3, ACCEPT)]):
        row = rows_of(one.fetch(records=0, acks={here: spans}))[here]
        assert row.acknowledge_error_code == 121
    row = rows_of(one.fetch(records=0, acks={here: [(0, 1, ACCEPT)]}))[here]
    assert row.acknowledge_error_code == 0, "nothing was settled before"
    row = rows_of(one.fetch(records=0, acks={here: [(0, 0, ACCEPT)]}))[here]
    assert row.acknowledge_error_code == 121, "it is settled"


def test_leases_can_be_renewed(ask: Asker) -> None:
    one = member(ask, "longer", "longer", 2)
    one.version = 2
    here = place(ask, "longer")
    one.fetch(here)
    row = rows_of(one.fetch(acks={here: [(0, 1, RENEW)]}, is_renew_ack=True))[here]
    assert row.acknowledge_error_code == 0
    answer = one.acknowledge({here: [(0, 1, RENEW)]}, is_renew_ack=True)
    assert (rows_of(answer)[here].error_code, answer.acquisition_lock_timeout) == (0, 30_000)
    assert rows_of(one.acknowledge({here: [(0, 1, RENEW)]}))[here].error_code == 42
    ask.configure_group("longer", {"share.renew.acknowledge.enable": "false"})
    refused = one.acknowledge({here: [(0, 1, RENEW)]}, is_renew_ack=True)
    assert rows_of(refused)[here].error_code == 121
    assert rows_of(one.acknowledge({here: [(0, 1, ACCEPT)]}))[here].error_code == 0
