"""`machines.producers`: Kafka's rules for the next batch, one row each."""

import pytest

from penstock.core.errors import OutOfOrderSequence, PenstockError, ProducerFenced
from penstock.core.limits import PRODUCER_BATCHES_REMEMBERED
from penstock.core.records import BatchHeader, read_header
from penstock.core.types import Offset, ProducerId
from penstock.machines.producers import (
    Producer,
    RememberedBatch,
    check_sequence,
    find_duplicate,
    follows,
    remember_batch,
)
from tests.batches import build_batch


def header(sequence: int, *, count: int = 10, epoch: int = 3) -> BatchHeader:
    batch = build_batch(count, producer_id=ProducerId(7), epoch=epoch, sequence=sequence)
    return read_header(batch)


def producer_after(*sequences: int, count: int = 10, epoch: int = 3) -> Producer:
    producer: Producer | None = None
    for place, sequence in enumerate(sequences):
        producer = remember_batch(
            producer,
            header(sequence, count=count, epoch=epoch),
            base_offset=Offset(100 * place),
            stamp_ms=place,
        )
    assert producer is not None
    return producer


LAST = 2**31 - 1
KNOWN = producer_after(0, 10, 20)
RULES: dict[str, tuple[Producer, BatchHeader, type[PenstockError] | None]] = {
    "the next one": (KNOWN, header(30), None),
    "a gap": (KNOWN, header(31), OutOfOrderSequence),
    "a step back": (KNOWN, header(29), OutOfOrderSequence),
    "back to zero in the same epoch": (KNOWN, header(0, count=3), OutOfOrderSequence),
    "a later epoch from zero": (KNOWN, header(0, epoch=4), None),
    "a much later epoch from zero": (KNOWN, header(0, epoch=32_767), None),
    "a later epoch that goes on counting": (KNOWN, header(30, epoch=4), OutOfOrderSequence),
    "an earlier epoch": (KNOWN, header(30, epoch=2), ProducerFenced),
    "an earlier epoch from zero": (KNOWN, header(0, epoch=2), ProducerFenced),
    "zero after the last number": (producer_after(LAST - 9), header(0), None),
    "one after the last number": (producer_after(LAST - 9), header(1), OutOfOrderSequence),
    "after a batch across the end": (producer_after(LAST - 4), header(5), None),
    "the last number": (producer_after(LAST - 19), header(LAST - 9), None),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_may_come_next(rule: str) -> None:
    producer, batch, refusal = RULES[rule]
    assert find_duplicate(producer, batch) is None
    assert follows(producer, batch) == (refusal is None)
    if refusal is None:
        check_sequence(producer, batch)
    else:
        with pytest.raises(refusal, match="producer 7"):
            check_sequence(producer, batch)


def test_the_last_five_batches_are_recognised() -> None:
    producer = producer_after(*range(0, 80, 10))
    found = [find_duplicate(producer, header(sequence)) for sequence in range(0, 80, 10)]
    assert found == [None, None, None, 300, 400, 500, 600, 700]
    assert len(producer.batches) == PRODUCER_BATCHES_REMEMBERED == 5
    with pytest.raises(OutOfOrderSequence, match="the retry is too old"):
        check_sequence(producer, header(20))


def test_a_duplicate_has_the_same_epoch_and_both_ends() -> None:
    assert find_duplicate(KNOWN, header(10)) == 100
    assert find_duplicate(KNOWN, header(10, count=9)) is None
    assert find_duplicate(KNOWN, header(11, count=9)) is None
    assert find_duplicate(KNOWN, header(10, epoch=4)) is None
    assert find_duplicate(KNOWN, header(10, epoch=2)) is None


def test_a_later_epoch_forgets_the_window() -> None:
    after = remember_batch(KNOWN, header(0, epoch=4), base_offset=Offset(300), stamp_ms=9)
    assert after == Producer(4, 9, (RememberedBatch(0, 9, Offset(300)),))


def test_remembering_makes_a_new_producer() -> None:
    before = producer_after(0)
    after = remember_batch(before, header(10), base_offset=Offset(10), stamp_ms=5)
    assert len(before.batches) == 1
    assert len(after.batches) == 2
    assert after.last_ms == 5
