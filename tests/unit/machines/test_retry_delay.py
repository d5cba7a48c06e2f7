"""`machines.retries`: the waits that are promised, to the millisecond."""

import pytest

from penstock.core.queue_rules import Retry, WorkRules
from penstock.core.types import Offset
from penstock.machines.retry_delay import retry_delay_ms

CAP_MS = 300_000


def waits(retry: Retry, base_ms: int, count: int, offset: int = 0) -> list[int]:
    """In milliseconds, after the first, second… delivery."""
    rules = WorkRules(retry=retry, retry_ms=base_ms)
    return [retry_delay_ms(rules, number, Offset(offset)) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("retry", "base_ms", "expected"),
    [
        (Retry.NONE, 5_000, [0, 0, 0]),
        (Retry.FIXED, 5_000, [5_000, 5_000, 5_000]),
        (Retry.LINEAR, 5_000, [5_000, 10_000, 15_000]),
        (Retry.EXPONENTIAL, 2_000, [2_000, 4_000, 8_000, 16_000]),
        (Retry.EXPONENTIAL, 60_000, [60_000, 120_000, 240_000]),
    ],
)
def test_policy_waits(retry: Retry, base_ms: int, expected: list[int]) -> None:
    assert waits(retry, base_ms, len(expected)) == expected


def test_exponential_is_two_to_the_power_of_the_retry_up_to_five_minutes() -> None:
    seconds = [wait // 1_000 for wait in waits(Retry.EXPONENTIAL, 2_000, 12)]
    assert seconds == [min(300, 2**retry) for retry in range(1, 13)]


@pytest.mark.parametrize("retry", [Retry.FIXED, Retry.LINEAR, Retry.EXPONENTIAL, Retry.JITTERED])
def test_no_wait_is_longer_than_the_rules_allow(retry: Retry) -> None:
    for deliveries in (1, 7, 100, 10**9):
        rules = WorkRules(retry=retry, retry_ms=400_000)
        assert retry_delay_ms(rules, deliveries, Offset(3)) == CAP_MS


@pytest.mark.parametrize(
    ("delivery", "shortest_ms", "longest_ms"),
    [(1, 2_000, 4_000), (2, 3_000, 8_000), (3, 6_000, 16_000), (20, 112_500, 300_000)],
)
def test_jitter_keeps_its_range_and_uses_all_of_it(
    delivery: int, shortest_ms: int, longest_ms: int
) -> None:
    drawn = [waits(Retry.JITTERED, 2_000, delivery, offset)[-1] for offset in range(2_000)]
    assert shortest_ms <= min(drawn)
    assert max(drawn) <= longest_ms
    spread = longest_ms - shortest_ms
    tenths = {(wait - shortest_ms) * 10 // (spread + 1) for wait in drawn}
    assert tenths == set(range(10)), "messages that fail together must not come back together"


def test_jitter_is_the_same_on_every_replica_and_another_each_time() -> None:
    assert waits(Retry.JITTERED, 2_000, 5, 7) == waits(Retry.JITTERED, 2_000, 5, 7)
    assert waits(Retry.JITTERED, 2_000, 5, 7) != waits(Retry.JITTERED, 2_000, 5, 8)


def test_a_message_that_was_never_delivered_waits_no_longer_than_after_the_first_time() -> None:
    """It was leased to be moved, which is no delivery, and the move failed."""
    rules = WorkRules(retry=Retry.EXPONENTIAL, retry_ms=2_000)
    assert retry_delay_ms(rules, 0, Offset(0)) == 2_000
