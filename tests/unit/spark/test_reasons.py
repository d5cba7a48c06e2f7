"""Reasons without what differs from message to message."""

import pytest

from penstock.spark.jobs.reasons import CHARACTERS_MAX, UNSAID, kind_of

SAME = [
    ("order 4711 took 30.2 s", "order 12 took 1,000.5 s", "order <n> took <n> s"),
    ('no such sku "X-17"', 'no such sku "Y-1 a"', "no such sku <text>"),
    ("KeyError: 'total'", "KeyError: 'x y'", "KeyError: <text>"),
    ("it's 5 o'clock", "it's 7 o'clock", "it's <n> o'clock"),
    ("timeout at 192.0.2.7:8080", "timeout at 127.0.0.1:1", "timeout at <address>"),
    ("GET http://a.b/c?d=1 failed", "GET https://x/y failed", "GET <address> failed"),
    (
        "lost 123e4567-e89b-12d3-a456-426614174000",
        "lost 00000000-0000-0000-0000-000000000000",
        "lost <id>",
    ),
    ("died 2026-01-02T03:04:05.6Z", "died 2025-11-30 10:00:00+01:00", "died <time>"),
    ("order o-00012 is late", "order o-7 is late", "order <id> is late"),
    ("at 0xdeadbeef", "at 0x1", "at <id>"),
    ("hash 9f86d081884c7d65", "hash a3f5c0ffee00", "hash <id>"),
    ("a  b\t c", "a b c", "a b c"),
]
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 7, in f\n    g()\n'


@pytest.mark.parametrize(("one", "other", "kind"), SAME)
def test_failures_of_one_kind_read_the_same(one: str, other: str, kind: str) -> None:
    assert kind_of(one) == kind_of(other) == kind


def test_other_words_are_another_kind() -> None:
    assert kind_of("connection refused by 192.0.2.1") != kind_of("connection reset by 192.0.2.1")


def test_a_traceback_is_known_by_its_last_line_and_other_text_by_its_first() -> None:
    assert kind_of(TRACEBACK + "ValueError: no price for 17\n") == "ValueError: no price for <n>"
    assert kind_of("first line\nsecond line") == "first line"


def test_no_reason_and_a_long_one() -> None:
    assert kind_of("") == kind_of("  \n ") == UNSAID
    assert len(kind_of("x" * 1_000)) == CHARACTERS_MAX
