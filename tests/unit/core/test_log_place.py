"""Places in a log, as people write them."""

import pytest

from penstock.core.log_place import Anchor, Place, parse_moment_ms, parse_place

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("written", "offset"),
    [
        ("start", 100),
        ("earliest", 100),
        ("beginning", 100),
        ("end", 200),
        ("latest", 200),
        ("-10", 190),
        ("-0", 200),
        ("-1000", 100),
        ("+5", 105),
        ("+1000", 200),
        ("150", 150),
        ("0", 100),
        ("999999", 200),
    ],
)
def test_a_place_in_a_partition(written: str, offset: int) -> None:
    assert parse_place(written, NOW_MS).offset_in(start=100, end=200) == offset


@pytest.mark.parametrize(
    ("written", "time_ms"),
    [
        ("@1970-01-02", 86_400_000),
        ("@1970-01-01T00:00:02Z", 2_000),
        ("@1970-01-01T01:00:00+01:00", 0),
        ("@1700000000000", 1_700_000_000_000),
        ("@-1h", NOW_MS - 3_600_000),
        ("@19700102", 86_400_000),
    ],
)
def test_a_time(written: str, time_ms: int) -> None:
    place = parse_place(written, NOW_MS)
    assert place == Place(anchor=Anchor.TIME, number=time_ms)
    assert int(place.time.timestamp() * 1_000) == time_ms


@pytest.mark.parametrize(
    "written", ["", "soon", "-", "+", "1.5", "-ten", "+-3", "@", "@soon", "@-1", "²", "9" * 19]
)
def test_what_is_no_place(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_place(written, NOW_MS)


def test_moments_are_utc() -> None:
    assert parse_moment_ms("2030-01-01", NOW_MS) == parse_moment_ms("2030-01-01T00:00Z", NOW_MS)
