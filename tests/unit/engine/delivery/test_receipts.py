"""Receipts: what comes back is what went out, and nobody makes one up."""

import pytest

from penstock.core.errors import InvalidReceipt
from penstock.core.limits import GROUP_NAME_BYTES_MAX
from penstock.core.types import Offset, PartitionId
from penstock.engine.delivery.receipts import read_receipt, sign_receipt
from penstock.engine.delivery.requests import Receipt

KEY = b"k" * 32
RECEIPT = Receipt(PartitionId(7), "bücher", Offset(1 << 40), 12)


def test_a_receipt_comes_back_as_it_was() -> None:
    assert read_receipt(sign_receipt(RECEIPT, KEY), KEY) == RECEIPT


def test_the_longest_group_fits() -> None:
    receipt = Receipt(PartitionId(0), "g" * GROUP_NAME_BYTES_MAX, Offset(0), 0)
    assert read_receipt(sign_receipt(receipt, KEY), KEY) == receipt


def test_another_cluster_does_not_take_it() -> None:
    with pytest.raises(InvalidReceipt, match="not handed out by this cluster"):
        read_receipt(sign_receipt(RECEIPT, KEY), b"x" * 32)


def test_a_single_changed_character_is_noticed() -> None:
    text = sign_receipt(RECEIPT, KEY)
    for at, letter in enumerate(text):
        other = text[:at] + ("A" if letter != "A" else "B") + text[at + 1 :]
        try:
            assert read_receipt(other, KEY) == RECEIPT  # Bits of the last letter may not count.
            assert at == len(text) - 1
        except InvalidReceipt:
            pass


@pytest.mark.parametrize("text", ["", "garbage", "ä", "AAAA", "=" * 8, "A" * 100_000, "\x00"])
def test_what_is_no_receipt_is_refused(text: str) -> None:
    with pytest.raises(InvalidReceipt):
        read_receipt(text, KEY)
