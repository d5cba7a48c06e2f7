"""Windows of time, as people write them."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.spark.jobs.rates import window_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1 second", 1),
        ("10 seconds", 10),
        (" 5 minutes ", 300),
        ("1hour", 3_600),
        ("2 days", 172_800),
    ],
)
def test_windows(written: str, seconds: int) -> None:
    assert window_seconds(written) == seconds


@pytest.mark.parametrize("written", ["", "soon", "0 seconds", "-1 minute", "1.5 hours", "1 month"])
def test_what_is_no_window(written: str) -> None:
    with pytest.raises(InvalidRequest, match="'1 minute'"):
        window_seconds(written)
