"""`machines.appends`: many plans, one payload."""

import pytest

from penstock.core.append_payload import Slice, decode_append
from penstock.core.types import Offset, PartitionId
from penstock.machines import Append, join_appends
from penstock.machines.appends import SLICE_RECORDS_MAX


def planned(
    number: int, base: int, text: bytes, *, count: int = 1, timestamp: int = 0, stamp: int = 5
) -> Append:
    return Append(PartitionId(number), Offset(base), count, timestamp, bytearray(text), stamp)


def test_one_plan_is_one_slice() -> None:
    payload = join_appends([planned(4, 10, b"abc", count=3, timestamp=99, stamp=7)])
    decoded = decode_append(payload)
    assert decoded.stamp_ms == 7
    assert decoded.slices == [Slice(PartitionId(4), 3, Offset(10), 3, 1, 99)]
    assert payload[decoded.start :] == b"abc"


def test_batches_of_one_partition_lie_side_by_side() -> None:
    plans = [
        planned(2, 0, b"aa", timestamp=30, stamp=5),
        planned(1, 7, b"b", stamp=5),
        planned(2, 1, b"cc", count=4, timestamp=20, stamp=6),
        planned(1, 8, b"d", stamp=6),
    ]
    payload = join_appends(plans)
    decoded = decode_append(payload)
    assert decoded.stamp_ms == 6, "the last plan's stamp is the greatest"
    assert decoded.slices == [
        Slice(PartitionId(2), 4, Offset(0), 5, 2, 30),
        Slice(PartitionId(1), 2, Offset(7), 2, 2, 0),
    ]
    assert payload[decoded.start :] == b"aaccbd"


def test_a_slice_never_counts_more_than_it_can_write() -> None:
    half = SLICE_RECORDS_MAX // 2
    plans = [
        planned(1, 0, b"a", count=half),
        planned(1, half, b"b", count=half + 1),
        planned(1, 2 * half + 1, b"c", count=2),
    ]
    slices = decode_append(join_appends(plans)).slices
    assert [(one.base_offset, one.record_count) for one in slices] == [
        (0, SLICE_RECORDS_MAX),
        (SLICE_RECORDS_MAX, 2),
    ]


def test_an_empty_entry_is_a_broken_promise() -> None:
    with pytest.raises(AssertionError, match="without a batch"):
        join_appends([])
