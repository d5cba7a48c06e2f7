"""Priority tiers: shares by weight, and nobody starves."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.client import Client
from penstock.core.errors import InvalidRequest
from penstock.patterns.priority_tiers import PriorityTiers, Turns
from tests.unit.patterns.runs import on_memory


def take_turns(turns: Turns, count: int, waiting: set[str] | None = None) -> str:
    taken = ""
    for _ in range(count):
        tier = next(one for one in turns.order() if waiting is None or one in waiting)
        turns.served(tier, waiting)
        taken += tier[0]
    return taken


def test_turns_are_spread_evenly() -> None:
    turns = Turns({"high": 6, "normal": 3, "low": 1})
    ten = take_turns(turns, 10)
    assert Counter(ten) == {"h": 6, "n": 3, "l": 1}
    assert take_turns(turns, 10) == ten, "and so on for ever"
    assert "hhhh" not in ten + ten


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 20), min_size=1))
def test_nobody_waits_longer_than_the_sum_of_weights(weights: dict[str, int]) -> None:
    turns = Turns(weights)
    total = sum(weights.values())
    taken = take_turns(turns, 3 * total)
    assert Counter(taken) == {tier: 3 * weight for tier, weight in weights.items()}
    for tier in weights:
        assert all(len(gap) < 2 * total for gap in taken.split(tier))


def test_what_an_empty_tier_did_not_use_is_not_saved_up() -> None:
    turns = Turns({"high": 1, "low": 1})
    assert take_turns(turns, 50, {"high"}) == "h" * 50
    assert "lll" not in take_turns(turns, 10)


@on_memory
async def test_full_tiers_are_served_by_weight(client: Client) -> None:
    tiers = PriorityTiers[int](client, "jobs", {"high": 6, "normal": 3, "low": 1}, codec=int)
    await tiers.create()
    for tier in tiers.queues:
        for number in range(100):
            await tiers.send(tier, number)
    served: Counter[str] = Counter()
    for _ in range(10):
        messages = await tiers.receive(10)
        served.update(message.queue for message in messages)
        for message in messages:
            await message.ack()
    assert served == {"jobs-high": 60, "jobs-normal": 30, "jobs-low": 10}
    assert await tiers.depths() == {"high": 40, "normal": 70, "low": 90}
    await tiers.close()


@on_memory
async def test_an_empty_tier_leaves_its_share_to_others(client: Client) -> None:
    tiers = PriorityTiers[int](client, "jobs", codec=int)
    await tiers.create()
    for number in range(20):
        await tiers.send("low", number)
    messages = await tiers.receive(15)
    assert [message.body for message in messages] == list(range(15))
    await tiers.close()


@on_memory
async def test_it_waits_at_all_of_them(client: Client) -> None:
    tiers = PriorityTiers[int](client, "jobs", codec=int)
    await tiers.create()
    assert await tiers.receive(5) == []
    assert await tiers.receive(5, wait=0.01) == []
    await tiers.send("low", 7)
    [message] = await tiers.receive(5, wait=60)
    assert message.body == 7
    await tiers.send("high", 8)
    received = await tiers.receive(5, wait=60)
    assert [one.body for one in received] == [8], "an earlier wait may have brought it"
    await tiers.close()


@on_memory
async def test_bad_tiers(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="tiers"):
        Turns({})
    with pytest.raises(InvalidRequest, match="weight"):
        Turns({"a": 0})
    with pytest.raises(InvalidRequest, match="none of the tiers"):
        await PriorityTiers[int](client, "jobs").send("urgent", 1)
