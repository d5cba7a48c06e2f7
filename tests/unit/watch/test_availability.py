"""How much of the time counts as available."""

import pytest

from penstock.watch.availability import BUCKET_MS, BUCKETS, GAP_MS_MAX, Availability


def test_nothing_is_known_at_first() -> None:
    one = Availability()
    assert one.share() is None
    one.note(0, available=True)
    assert one.share() is None


def test_time_counts_if_both_looks_were_good() -> None:
    one = Availability()
    for now_ms, available in ((0, True), (1_000, True), (2_000, False), (3_000, True)):
        one.note(now_ms, available)
    assert (one.observed_ms, one.available_ms) == (3_000, 1_000)
    one.note(4_000, available=True)
    assert one.share() == pytest.approx(0.5)


def test_a_node_that_did_not_look_was_not_available() -> None:
    one = Availability()
    one.note(0, available=True)
    one.note(GAP_MS_MAX, available=True)
    one.note(2 * GAP_MS_MAX + 1, available=True)
    assert (one.observed_ms, one.available_ms) == (2 * GAP_MS_MAX + 1, GAP_MS_MAX)


def test_what_was_an_hour_ago_is_in_the_counters_alone() -> None:
    one = Availability()
    one.note(0, available=False)
    for second in range(10, BUCKETS * BUCKET_MS // 1_000 + 61, 10):
        one.note(1_000 * second, available=second > 10)
    assert one.share() == 1.0
    assert one.observed_ms - one.available_ms == 20_000
