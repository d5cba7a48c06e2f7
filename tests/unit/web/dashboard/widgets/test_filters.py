"""How numbers, times and names are written."""

import pytest

from penstock.web.dashboard.renderer import environment
from penstock.web.dashboard.widgets import filters as words
from penstock.web.dashboard.widgets.filters import cell, spark


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12345, "12,345"), (1.25, "1.2"), (250.6, "251"), (3.0, "3"), (None, "–")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999, "999"), (1_000, "1.0k"), (12_345, "12.3k"), (999_999, "1.0M"), (123_456, "123k"),
     (5e12, "5000G"), (None, "–")],
)  # fmt: skip
def test_short_numbers(value: float | None, text: str) -> None:
    assert words.short_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0/s"), (0.04, "<0.1/s"), (0.25, "0.2/s"), (42.4, "42/s"), (1234.5, "1.2k/s"),
     (None, "–")],
)  # fmt: skip
def test_rates(value: float | None, text: str) -> None:
    assert words.rate(value) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 s"), (250, "0.2 s"), (5_000, "5 s"), (200_000, "3 min 20 s"), (180_000, "3 min"),
     (3_600_000 * 25, "1 d 1 h"), (3_661_000, "1 h 1 min"), (None, "–"), (-1, "–")],
)  # fmt: skip
def test_ages(ms: float | None, text: str) -> None:
    assert words.age(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "<1 s"), (999, "<1 s"), (1_000, "1 s"), (179_999, "179 s"), (180_000, "3 min"),
     (7_200_000, "2 h"), (86_400_000 * 10, "10 d"), (None, "–")],
)  # fmt: skip
def test_short_ages(ms: float | None, text: str) -> None:
    assert words.short_age(ms) == text


def test_moments_are_utc() -> None:
    assert words.moment(1_767_225_600_000) == "2026-01-01 00:00:00"
    assert words.clock(1_767_225_600_000) == "00:00:00"
    assert words.machine_moment(1_767_225_600_000) == "2026-01-01T00:00:00.000+00:00"
    assert words.moment(None) == words.clock(0) == "–"


def test_sizes_shares_and_counts() -> None:
    assert [words.size(one) for one in (0, 1_023, 1_536, None)] == ["0 B", "1023 B", "1.5 KiB", "–"]
    assert [words.share(one) for one in (0, 0.015, 0.5, None)] == ["0 %", "1.5 %", "50 %", "–"]
    assert words.count_of(1, "queue") == "1 queue"
    assert words.count_of(2_000, "entry", "entries") == "2,000 entries"


def test_a_name_is_one_part_of_a_path() -> None:
    assert words.segment("a/b?<c>#") == "a%2Fb%3F%3Cc%3E%23"


def test_a_curve_lies_between_its_bounds() -> None:
    assert words.curve([]) == words.curve([1.0]) == ""
    points = [tuple(map(float, one.split(","))) for one in words.curve([0, 5, 10]).split()]
    assert points == [(0.0, 22.5), (48.0, 12.0), (96.0, 1.5)]
    flat = words.curve([0.0, 0.0, 0.0])
    assert {one.split(",")[1] for one in flat.split()} == {"22.5"}, "nothing is at the bottom"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("", ""),
        ('{"max": 10, "dry_run": false}', "max 10, dry run no"),
        ('{"settings": {"lease_ms": "30000"}, "names": ["a", "b"]}',
         "settings (lease ms 30000), names (a, b)"),
        ('{"target": null}', "target –"),
        ('{"name": "cut o', '{"name": "cut o'),
    ],
)  # fmt: skip
def test_what_was_told_with_an_order(told: str, text: str) -> None:
    assert words.details(told) == text


def test_a_number_in_a_table() -> None:
    assert cell(12_345) == '<td class="number">12,345</td>'
    assert cell(0) == '<td class="number none">0</td>'
    assert cell(None, "size") == '<td class="number none">–</td>'
    assert cell(61_000, "age") == '<td class="number">1 min 1 s</td>'


def test_what_it_says_is_text() -> None:
    assert cell(0.01, "rate") == '<td class="number">&lt;0.1/s</td>'


def test_a_small_line() -> None:
    line = spark([0.0, 1.0])
    assert line.startswith('<svg class="spark"')
    assert 'points="0.0,22.5 96.0,1.5"' in line
    assert spark([1.0]) == ""


def test_templates_take_them_as_they_are_and_escape_all_else() -> None:
    text = (
        environment().from_string("{{ 7 | cell }}{{ [0, 1] | spark }}{{ name }}").render(name="<")
    )
    assert text == f"{cell(7)}{spark([0, 1])}&lt;"
