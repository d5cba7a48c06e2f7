"""How long replicas take to look at the messages of a batch, as its plan says."""

import pytest

from penstock.core.compression import unpacked_bytes_max
from penstock.core.limits import QUEUE_BATCH_RECORDS_MAX
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import Term
from penstock.engine.replica.batcher import Batcher
from penstock.machines import Append, AppendBatch, queues
from tests.batches import build_batch
from tests.unit.machines.queue_shard import ONE, QueueShard

CARDS = QueueRules(delivery_headers=True)
FIFO = QueueRules(delivery_headers=True, fifo=True)
BY_ID = QueueRules(delivery_headers=True, deduplication=Deduplication.ID)


def apply_us(rules: QueueRules, *, count: int, groups: int = 1, compression: int = 0) -> int:
    shard = QueueShard(rules)
    for number in range(1, groups):
        shard.open(WorkRules(), f"group {number}")
    batch = build_batch(count, compression=compression)
    plan = shard.machine.plan(AppendBatch(ONE, batch), now_ms=1_000, term=Term(1))
    assert isinstance(plan, Append)
    return plan.apply_us


@pytest.mark.parametrize("rules", [FIFO, BY_ID, CARDS])
def test_a_batch_says_how_long_its_messages_take(rules: QueueRules) -> None:
    one = apply_us(rules, count=1)
    assert 0 < one < 20
    assert apply_us(rules, count=1_000) == 1_000 * one
    assert apply_us(rules, count=1, groups=100) > 20 * one, "each group has a place for it"


@pytest.mark.parametrize("rules", [QueueRules(), QueueRules(delay_ms=5), QueueRules(ttl_ms=5)])
def test_messages_that_are_not_opened_take_no_time(rules: QueueRules) -> None:
    assert apply_us(rules, count=1_000, groups=3) == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_counts_for_what_it_may_unpack_to(codec: int) -> None:
    size = len(build_batch(100, compression=codec))
    unpacked_us = unpacked_bytes_max(size, codec) // queues.UNPACKED_BYTES_PER_US
    assert unpacked_us > 0
    plain_us = apply_us(FIFO, count=100)
    assert apply_us(FIFO, count=100, compression=codec) == plain_us + unpacked_us


def test_batches_of_a_fifo_queue_do_not_share_an_entry_of_many_seconds() -> None:
    shard, batcher = QueueShard(FIFO), Batcher()
    batch = build_messages([NewMessage(b"x")] * QUEUE_BATCH_RECORDS_MAX, 1_000)
    for _ in range(10):
        plan = shard.machine.plan(AppendBatch(ONE, batch[:]), now_ms=1_000, term=Term(1))
        assert isinstance(plan, Append)
        batcher.add(plan, lambda _: None)
    assert [len(entry.waiters) for entry in batcher.take(1 << 30)] == [1] * 10
