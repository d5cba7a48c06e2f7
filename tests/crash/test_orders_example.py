"""The order-processing example survives kill -9 of broker and workers: a short time of strikes.

The long one is `make soak ARGS="--only orders"`.
"""

from pathlib import Path

import pytest

from tests.soak.orders import strike_shop

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.cluster]


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.long), 3])
def test_every_order_is_charged_exactly_once(tmp_path: Path, nodes: int) -> None:
    outcome = strike_shop(tmp_path, seed=nodes, seconds=5.0, nodes=nodes, workers=2)
    print(outcome.describe())
    assert not outcome.complaints, outcome.describe()
    assert outcome.counts["workers killed"]
    assert outcome.counts["brokers killed"]
