"""Idempotent producers: what a partition remembers of each, and Kafka's rules for the next batch.

A producer numbers its messages per partition, in each of its epochs from 0 up; after 2**31 - 1
comes 0 again. A partition remembers the producer's epoch and its last five batches, so that a
batch sent again after a lost answer is recognised instead of stored twice. In this order:

    same epoch, first and last sequence those of a remembered batch   a duplicate: same answer again
    lower epoch                                                       ProducerFenced
    higher epoch, starting at 0                                       accepted, the window restarts
    same epoch, next sequence                                         accepted
    producer not known                                                accepted at any sequence
    anything else                                                     OutOfOrderSequence

A retry older than the window is out of order, too. Kafka has a code for it, 46
DUPLICATE_SEQUENCE_NUMBER, on which clients report success; but "older than the window" cannot be
distinguished from a batch that was never stored (a producer that was forgotten may come back with
its second batch first), and success for what was never stored is a lost message. Kafka's brokers
stopped sending 46 as well.

That a producer that is not known may start anywhere is Kafka's rule (KIP-360): its state may have
expired while it was idle, and then it goes on counting.

`Producer` is immutable, so that applied and planned state can share it.
"""

from typing import NamedTuple

import msgspec

from penstock.core.errors import OutOfOrderSequence, ProducerFenced
from penstock.core.limits import PRODUCER_BATCHES_REMEMBERED
from penstock.core.records import BatchHeader
from penstock.core.types import Offset

_SEQUENCES = 1 << 31


class RememberedBatch(NamedTuple):
    """A batch that was accepted."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset


class Producer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one partition remembers of one producer; oldest batch first, never empty."""

    epoch: int
    last_ms: int
    """The stamp of the last batch: expiry counts from here."""
    batches: tuple[RememberedBatch, ...]


def find_duplicate(producer: Producer, header: BatchHeader) -> Offset | None:
    """Where the very same batch was stored before, if it is remembered."""
    if producer.epoch != header.producer_epoch:
        return None
    first_sequence = header.base_sequence
    for batch in producer.batches:
        if batch.first_sequence == first_sequence and batch.last_sequence == header.last_sequence:
            return batch.base_offset
    return None


def follows(producer: Producer, header: BatchHeader) -> bool:
    """Whether the batch is the one that comes next, in this epoch or as the first of a later."""
    if header.producer_epoch < producer.epoch:
        return False
    return header.base_sequence == _next_sequence(producer, header)


def check_sequence(producer: Producer, header: BatchHeader) -> None:
    """Refuse a batch, not a duplicate, that may not come next."""
    if follows(producer, header):
        return
    if header.producer_epoch < producer.epoch:
        raise ProducerFenced(
            f"producer {header.producer_id} has epoch {producer.epoch}, this batch is from epoch"
            f" {header.producer_epoch}; another instance has taken over: stop this one"
        )
    expected = _next_sequence(producer, header)
    raise OutOfOrderSequence(
        f"producer {header.producer_id} in epoch {header.producer_epoch} sent sequence"
        f" {header.base_sequence}, {expected} is next; a batch before it is"
        " missing or the retry is too old: start a new epoch",
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        ahead=(header.base_sequence - expected) % _SEQUENCES < _SEQUENCES // 2,
    )


def remember_batch(
    producer: Producer | None, header: BatchHeader, *, base_offset: Offset, stamp_ms: int
) -> Producer:
    """The producer after one more batch, which the caller has checked."""
    epoch = header.producer_epoch
    batch = RememberedBatch(header.base_sequence, header.last_sequence, base_offset)
    if producer is None or producer.epoch != epoch:
        return Producer(epoch, stamp_ms, (batch,))
    kept = producer.batches[-(PRODUCER_BATCHES_REMEMBERED - 1) :]
    return Producer(epoch, stamp_ms, (*kept, batch))


def _next_sequence(producer: Producer, header: BatchHeader) -> int:
    if header.producer_epoch != producer.epoch:
        return 0
    return (producer.batches[-1].last_sequence + 1) % _SEQUENCES
