"""`machines.queue_headers`: what messages say, and what counts as not said."""

import pytest

from penstock.core import delivery_headers
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import build_messages, read_messages
from penstock.core.queue_rules import DEFAULT_PRIORITY, Deduplication, Priorities, QueueRules
from penstock.core.records import BATCH_HEADER_BYTES
from penstock.core.types import Offset
from penstock.machines import AppendBatch
from penstock.machines.queue_headers import (
    DeliveryHeaders,
    dedup_id,
    id_of,
    message_group_of,
    read_delivery_headers,
    recalled_headers,
)
from penstock.machines.run import Run, State
from tests.batches import build_batch, with_bytes
from tests.unit.machines.queue_shard import ONE, QueueShard, message

NOW_MS = 50_000
CARDS = QueueRules(delivery_headers=True, priorities=Priorities.STRICT)
FIFO = QueueRules(fifo=True)
BY_ID = QueueRules(deduplication=Deduplication.ID)
BY_CONTENT = QueueRules(deduplication=Deduplication.CONTENT)


def read(rules: QueueRules, *messages: NewMessage) -> list[DeliveryHeaders]:
    batch = bytes(build_messages(messages, NOW_MS))
    return read_delivery_headers(batch, Offset(0), len(messages), rules, NOW_MS)


def runs(rules: QueueRules, *messages: NewMessage) -> list[Run]:
    return [one.run for one in read(rules, *messages)]


def only(rules: QueueRules, one: NewMessage) -> Run:
    (run,) = runs(rules, one)
    return run


# What is said.


def test_a_message_that_says_nothing_is_like_all_others() -> None:
    assert read(CARDS, message(), message(key=b"k")) == []


def test_a_message_says_its_priority() -> None:
    assert only(CARDS, message(priority=9)) == Run(Offset(0), 1, State.READY, level=9)
    assert runs(CARDS, message(priority=DEFAULT_PRIORITY)) == []


def test_priorities_above_the_highest_are_the_highest() -> None:
    assert only(CARDS, message(priority=77)).level == 9


def test_priorities_count_only_where_rules_say_so() -> None:
    assert runs(QueueRules(delivery_headers=True), message(priority=9)) == []


def test_a_delay_counts_from_when_it_came() -> None:
    run = only(CARDS, message(delay_ms=700))
    assert (run.state, run.at_ms) == (State.DELAYED, NOW_MS + 700)


def test_a_message_may_name_the_time_itself() -> None:
    run = only(CARDS, message(deliver_at_ms=NOW_MS + 5))
    assert (run.state, run.at_ms) == (State.DELAYED, NOW_MS + 5)
    assert runs(CARDS, message(deliver_at_ms=NOW_MS)) == [], "that is now"


def test_of_two_delays_the_longer_counts() -> None:
    said = message(delay_ms=700, deliver_at_ms=NOW_MS + 900)
    assert only(CARDS, said).at_ms == NOW_MS + 900


def test_a_message_says_when_it_is_not_worth_delivering_any_more() -> None:
    assert only(CARDS, message(ttl_ms=0)).expire_ms == NOW_MS
    assert only(CARDS, message(ttl_ms=80)).expire_ms == NOW_MS + 80
    assert only(CARDS, message(expire_at_ms=7)).expire_ms == 7
    assert only(CARDS, message(ttl_ms=80, expire_at_ms=NOW_MS + 9)).expire_ms == NOW_MS + 9


def test_a_message_group_is_a_tenant_on_a_standard_queue() -> None:
    assert only(CARDS, message(group=b"tenant")).message_group == b"tenant"


def test_headers_count_only_where_rules_say_so() -> None:
    said = message(priority=9, delay_ms=5, ttl_ms=5, group=b"g")
    assert read(QueueRules(priorities=Priorities.STRICT), said) == []


@pytest.mark.parametrize(
    "text", [b"", b"soon", b"-5", b"+5", b"5.0", b"1" * 16, b" 5", "٥".encode()]
)
def test_what_cannot_be_read_counts_as_not_said(text: bytes) -> None:
    names = (
        delivery_headers.PRIORITY,
        delivery_headers.DELAY,
        delivery_headers.TTL,
        delivery_headers.DELIVER_AT,
        delivery_headers.EXPIRE_AT,
    )
    assert read(CARDS, NewMessage(b"", None, tuple((name, text) for name in names))) == []


def test_neighbours_that_say_the_same_are_one_run() -> None:
    said = [message(priority=7)] * 3 + [message()] + [message(priority=7), message(priority=2)]
    found = [(run.first, run.length, run.level) for run in runs(CARDS, *said)]
    assert found == [(0, 3, 7), (4, 1, 7), (5, 1, 2)]


def test_messages_with_a_group_or_an_id_stand_for_themselves() -> None:
    assert len(runs(CARDS, message(group=b"g"), message(group=b"g"))) == 2
    assert len(runs(BY_ID, message(dedup=b"1"), message(dedup=b"2"))) == 2
    assert len(runs(CARDS, message(origin=b"1"), message(origin=b"2"))) == 2


# What rules ask for.


def test_rules_delay_whoever_says_nothing() -> None:
    rules = QueueRules(delivery_headers=True, delay_ms=300)
    found = [(run.first, run.length, run.at_ms) for run in runs(rules, message(), message())]
    assert found == [(0, 2, NOW_MS + 300)]
    assert only(rules, message(delay_ms=5)).at_ms == NOW_MS + 5
    assert runs(rules, message(delay_ms=0)) == [], "it wants to be delivered at once"


def test_rules_let_messages_expire_that_say_nothing() -> None:
    rules = QueueRules(delivery_headers=True, ttl_ms=300)
    assert only(rules, message()).expire_ms == NOW_MS + 300
    assert only(rules, message(ttl_ms=9)).expire_ms == NOW_MS + 9


def test_a_batch_without_headers_is_one_run_and_is_not_opened() -> None:
    junk = bytearray(build_batch(50))
    junk[61:] = b"\xff" * (len(junk) - 61)
    (found,) = read_delivery_headers(
        bytes(junk), Offset(7), 50, QueueRules(delivery_headers=True, delay_ms=1), NOW_MS
    )
    assert (found.run.first, found.run.length) == (7, 50)


def test_compressed_messages_are_read_too() -> None:
    batch = bytes(build_batch(2, key=b"k", compression=1))
    assert [
        one.run.message_group for one in read_delivery_headers(batch, Offset(0), 2, FIFO, NOW_MS)
    ] == [b"k", b"k"]


# Lines.


def test_in_a_fifo_queue_everybody_stands_in_a_line() -> None:
    rules = QueueRules(delivery_headers=True, fifo=True)
    said = [message(), message(key=b"k"), message(key=b"k", group=b"g"), message(key=b"")]
    assert [run.message_group for run in runs(rules, *said)] == [b"", b"k", b"g", b""]


def test_the_key_is_the_group_where_headers_do_not_count() -> None:
    assert only(FIFO, message(key=b"k", group=b"g")).message_group == b"k"


def test_a_very_long_group_is_kept_as_a_short_one() -> None:
    long, other = b"g" * 5_000, b"g" * 5_001
    message_groups = [
        run.message_group
        for run in runs(FIFO, message(key=long), message(key=long), message(key=other))
    ]
    assert message_groups[0] == message_groups[1] != message_groups[2]
    assert len(message_groups[0] or b"") == 16


def test_a_batch_nobody_can_open_still_stands_in_line() -> None:
    junk = bytearray(build_batch(3, compression=1))
    junk[70:] = b"\xff" * (len(junk) - 70)
    found = read_delivery_headers(bytes(junk), Offset(5), 3, FIFO, NOW_MS)
    assert [(one.run.first, one.run.length, one.run.message_group) for one in found] == [
        (5, 1, b""),
        (6, 1, b""),
        (7, 1, b""),
    ]
    assert read_delivery_headers(bytes(junk), Offset(5), 3, BY_ID, NOW_MS) == []


# Ids.


def test_an_id_is_read_even_where_other_headers_do_not_count() -> None:
    (found,) = read(BY_ID, message(dedup=b"1"))
    assert found.dedup == dedup_id(b"1", None, BY_ID)
    assert read(BY_ID, message()) == []
    assert read(CARDS, message(dedup=b"1")) == []


def test_without_an_id_the_body_is_one_where_rules_say_so() -> None:
    found = [one.dedup for one in read(BY_CONTENT, message(b"x"), message(b"x"), message(b"y"))]
    assert found[0] == found[1] != found[2]
    named = read(BY_CONTENT, message(b"x", dedup=b"1"))[0].dedup
    assert named == dedup_id(b"1", None, BY_CONTENT)


def test_an_id_counts_within_its_group_where_rules_say_so() -> None:
    rules = QueueRules(fifo=True, deduplication=Deduplication.ID, deduplication_by_group=True)
    said = [message(dedup=b"1", key=key) for key in (b"g", b"g", b"h")]
    found = [one.dedup for one in read(rules, *said)]
    assert found[0] == found[1] != found[2]


def test_where_a_message_came_from_counts_for_more_than_its_id() -> None:
    rules = QueueRules(delivery_headers=True, deduplication=Deduplication.CONTENT)
    (found,) = read(rules, message(dedup=b"1", origin=b"there"))
    assert found.dedup is None
    assert found.origin is not None


@pytest.mark.parametrize("delivery_headers", [False, True])
@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        message(dedup=b"1"),
        message(b"body"),
        message(key=b"k", dedup=b"1"),
        message(key=b"k" * 2_000, group=b"g", dedup=b"1"),
        message(dedup=b"1", origin=b"there"),
    ],
    ids=["id", "body", "key", "group", "origin"],
)
def test_a_sender_is_told_the_id_under_which_its_message_is_remembered(
    said: NewMessage, delivery_headers: bool, fifo: bool, by_group: bool
) -> None:
    rules = QueueRules(
        delivery_headers=delivery_headers,
        fifo=fifo,
        deduplication=Deduplication.CONTENT,
        deduplication_by_group=by_group,
    )
    (found,) = read(rules, said)
    assert id_of(said, rules) == found.dedup


def test_no_id_counts_where_rules_say_nothing() -> None:
    assert id_of(message(dedup=b"1"), QueueRules()) is None


def test_a_partition_is_chosen_by_group_or_key() -> None:
    assert message_group_of(message(key=b"k", group=b"g"), QueueRules()) == b"g"
    assert message_group_of(message(key=b"k"), QueueRules()) == b"k"
    assert message_group_of(message(), QueueRules()) is None
    assert message_group_of(message(), FIFO) == b""


# Old messages.


def test_an_old_message_counts_from_its_own_time() -> None:
    (old,) = read_messages(bytes(build_messages([message(delay_ms=10, ttl_ms=90)], NOW_MS)))
    assert recalled_headers(old, CARDS) == (0, DEFAULT_PRIORITY, None, NOW_MS + 10, NOW_MS + 90)
    assert recalled_headers(Message(Offset(3), NOW_MS, None, b""), CARDS) is None
    assert recalled_headers(Message(Offset(3), NOW_MS, b"k", b""), FIFO) == (3, 4, b"k", -1, -1)


@pytest.mark.parametrize("rules", [FIFO, BY_ID, QueueRules(delivery_headers=True)])
def test_one_message_stands_for_the_millions_that_an_unreadable_batch_claims(
    rules: QueueRules,
) -> None:
    """Release 0.1 has stored such batches; 66 bytes are enough."""
    shard = QueueShard(rules)
    batch = build_batch(1)[:BATCH_HEADER_BYTES] + b"junk"
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = (1).to_bytes(2, "big")
    claimed = 1 << 24
    batch[23:27] = (claimed - 1).to_bytes(4, "big")
    shard.do(AppendBatch(ONE, with_bytes(batch, 57, claimed.to_bytes(4, "big"))))
    shard.send(NewMessage(b"after", key=b"k"))
    work = shard.machine.queues.work(ONE, "queue")
    assert work is not None
    assert work.ready == 2
    assert shard.acquire(10).offsets == [0, claimed]
