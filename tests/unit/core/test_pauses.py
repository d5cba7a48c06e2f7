"""Pauses between two looks."""

from itertools import islice

import pytest

from penstock.core.pauses import growing_pauses


@pytest.mark.parametrize(
    ("longest", "pauses"),
    [(0.005, [0.001, 0.002, 0.004, 0.005, 0.005]), (0.0005, [0.0005] * 5)],
)
def test_they_grow_up_to_a_bound(longest: float, pauses: list[float]) -> None:
    assert list(islice(growing_pauses(longest), 5)) == pauses
