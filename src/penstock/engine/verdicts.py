"""What workers say about single messages, joined where neighbours share a fate.

A worker that acks a thousand messages of one lease hands in a thousand receipts; they become one
settlement, which costs as much as one message does.
"""

from collections.abc import Sequence

from penstock.core.types import Offset
from penstock.engine.queue_requests import Receipt
from penstock.machines.queue_commands import Settlement, Verdict

Verdicts = Sequence[tuple[Receipt, Verdict, int, str]]
"""(receipt, verdict, delay in milliseconds, reason)"""


def settlement_of(
    receipt: Receipt, verdict: Verdict, delay_ms: int, reason: str, count: int = 1
) -> Settlement:
    """A verdict on a message, or on as many from there on."""
    end = Offset(receipt.offset + count)
    return Settlement(receipt.offset, end, receipt.epoch, verdict, delay_ms, reason)


def join_verdicts(numbers: list[int], verdicts: Verdicts) -> list[tuple[Settlement, list[int]]]:
    """Settlements with the verdicts each stands for: equal ones on neighbours become one."""
    groups: list[list[int]] = []
    expected: tuple[object, ...] | None = None
    for number in sorted(numbers, key=lambda number: verdicts[number][0].offset):
        receipt, verdict, delay_ms, reason = verdicts[number]
        if (receipt.offset, receipt.epoch, verdict, delay_ms, reason) == expected:
            groups[-1].append(number)
        else:
            groups.append([number])
        expected = (receipt.offset + 1, receipt.epoch, verdict, delay_ms, reason)
    return [(settlement_of(*verdicts[members[0]], len(members)), members) for members in groups]
