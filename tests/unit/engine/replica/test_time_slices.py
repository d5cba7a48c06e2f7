"""Long work gives way."""

import asyncio

import pytest

from penstock.engine.replica import time_slices
from penstock.engine.replica.time_slices import SLICE_SECONDS, TimeSlices


def test_others_have_their_turn_when_a_slice_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    turns: list[float] = []
    monkeypatch.setattr(time_slices, "precise_seconds", lambda: now)
    monkeypatch.setattr(time_slices, "worked_seconds", lambda: now / 2)

    async def story() -> None:
        nonlocal now
        slices = TimeSlices()
        slices.begin()
        asyncio.get_running_loop().call_soon(lambda: turns.append(now))
        await slices.let_others()
        assert turns == [], "it is not time yet"
        now += SLICE_SECONDS
        await slices.let_others()
        assert turns == [SLICE_SECONDS]
        now += SLICE_SECONDS / 2
        slices.end()
        now += 100
        slices.begin()
        now += SLICE_SECONDS / 2
        slices.end()
        assert slices.spent_seconds == pytest.approx(2 * SLICE_SECONDS / 2), "what it cost"

    asyncio.run(story())
