"""A gap is forgiven for a while, a batch that comes too late is not."""

from penstock.core.errors import OutOfOrderSequence
from penstock.core.limits import KAFKA_SEQUENCE_GAPS_MAX
from penstock.core.types import PartitionId
from penstock.kafka.sequence_gaps import FORGET_MS, PATIENCE_MS, SequenceGaps

ORDERS, BILLS = PartitionId(1), PartitionId(2)


def gap(producer: int = 7, epoch: int = 0, *, ahead: bool = True) -> OutOfOrderSequence:
    return OutOfOrderSequence("gap", producer_id=producer, producer_epoch=epoch, ahead=ahead)


def test_a_gap_closes_by_itself_or_is_one() -> None:
    gaps = SequenceGaps()
    assert gaps.will_close(ORDERS, gap(), 1_000)
    assert gaps.will_close(ORDERS, gap(), 1_000 + PATIENCE_MS - 1)
    assert not gaps.will_close(ORDERS, gap(), 1_000 + PATIENCE_MS)
    assert not gaps.will_close(ORDERS, gap(), 1_000 + FORGET_MS)
    assert gaps.will_close(ORDERS, gap(), 1_000 + FORGET_MS + 1), "this is another gap"


def test_each_producer_epoch_and_partition_has_its_own() -> None:
    gaps = SequenceGaps()
    assert gaps.will_close(ORDERS, gap(), 0)
    late = PATIENCE_MS + 1
    assert gaps.will_close(BILLS, gap(), late)
    assert gaps.will_close(ORDERS, gap(producer=8), late)
    assert gaps.will_close(ORDERS, gap(epoch=1), late)
    assert not gaps.will_close(ORDERS, gap(), late)


def test_what_comes_too_late_never_fits() -> None:
    assert not SequenceGaps().will_close(ORDERS, gap(ahead=False), 0)


def test_the_oldest_are_forgotten_first() -> None:
    gaps = SequenceGaps()
    for producer in range(KAFKA_SEQUENCE_GAPS_MAX + 1):
        assert gaps.will_close(ORDERS, gap(producer), 0)
    assert len(gaps._since_ms) == KAFKA_SEQUENCE_GAPS_MAX
    assert not gaps.will_close(ORDERS, gap(1), PATIENCE_MS)
    assert gaps.will_close(ORDERS, gap(0), PATIENCE_MS)
