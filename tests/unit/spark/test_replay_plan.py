"""Windows of a replay: narrow where messages are dense, and the same for everybody."""

import pytest

from penstock.client.client import Client
from penstock.core.errors import InvalidRequest
from penstock.embedded.connector import connect
from penstock.spark.jobs.replay_plan import (
    Counts,
    ReplayPlan,
    bucket_of,
    choose_step,
    keep_plan,
    read_plan,
)


def plan(*, name: str = "one", step: int = 1, key: str | None = None) -> ReplayPlan:
    return ReplayPlan(
        name=name,
        topic="orders",
        to="again",
        lake=None,
        since_ms=None,
        until_ms=None,
        key=key,
        where=None,
        keep_partitions=False,
        keep_timestamps=False,
        partitions={0: (100, 10_100), 1: (7, 2_007)},
        step=step,
    )


def test_windows_are_counted_from_where_each_partition_begins() -> None:
    found = plan(step=1_500)
    assert found.width == 10_000
    assert found.windows == 7
    assert found.window(0) == {0: (100, 1_600), 1: (7, 1_507)}
    assert found.window(1) == {0: (1_600, 3_100), 1: (1_507, 2_007)}
    assert found.window(6) == {0: (9_100, 10_100)}
    covered = [found.window(number).get(0, (0, 0)) for number in range(found.windows)]
    assert sum(end - first for first, end in covered) == 10_000


def test_a_window_is_no_burst_even_where_messages_are_dense() -> None:
    asked = plan()
    assert bucket_of(asked) == 10
    sparse = Counts(10, {3: 1, 400: 20})
    assert choose_step(asked, sparse, rate=10) == 10, "20 of 10 offsets: two seconds' worth"
    assert choose_step(asked, sparse, rate=None) == 10_000
    assert choose_step(asked, sparse, rate=0.001) == 1
    assert choose_step(asked, Counts(10, {}), rate=10) == 10_000


def test_windows_that_hold_nothing_are_known() -> None:
    counts = Counts(10, {3: 1, 400: 20})
    assert counts.total == 21
    assert counts.may_hold(25, 31)
    assert counts.may_hold(39, 50)
    assert not counts.may_hold(40, 4_000)


@pytest.mark.asyncio
async def test_of_two_plans_the_first_counts() -> None:
    async with connect("memory:") as client:
        assert await read_plan(client, "one") is None
        mine = await _keep(client, plan(step=5))
        assert mine.step == 5
        assert (await _keep(client, plan(step=9))).step == 5
        assert (await _keep(client, plan(name="two", step=9))).step == 9
        with pytest.raises(InvalidRequest, match="begun with key = None, and now it is 'k'"):
            mine.check_same(plan(key="k"))
        mine.check_same(plan(step=77))


async def _keep(client: Client, asked: ReplayPlan) -> ReplayPlan:
    return await keep_plan(client, asked)
