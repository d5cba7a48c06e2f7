"""Alone means alone, and nobody waits with a message in hand."""

import asyncio
from contextlib import AbstractAsyncContextManager

from penstock.workers.exclusive_slot import ExclusiveSlot


async def play() -> list[str]:
    exclusive_slot = ExclusiveSlot()
    told: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    async def clear() -> None:
        told.append("everything else goes back")

    exclusive_slot.join(clear, lambda: told.append("and is taken again"))

    async def work(name: str, place: AbstractAsyncContextManager[bool]) -> None:
        gates[name] = asyncio.Event()
        async with place as granted:
            told.append(f"{name} begins" if granted else f"{name} goes back")
            if granted:
                await gates[name].wait()
                told.append(f"{name} ends")

    async def turn() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    tasks = []
    for name, alone in (("a", False), ("b", False), ("suspect", True), ("c", False), ("d", True)):
        place = exclusive_slot.alone() if alone else exclusive_slot.together()
        tasks.append(asyncio.create_task(work(name, place)))
        await turn()
    for name in ("b", "a", "suspect"):
        gates[name].set()
        await turn()
    tasks.append(asyncio.create_task(work("e", exclusive_slot.together())))
    await turn()
    gates["e"].set()
    await asyncio.gather(*tasks)
    return told


def test_a_suspect_works_when_the_others_have_ended() -> None:
    assert asyncio.run(play()) == [
        "a begins",
        "b begins",
        "everything else goes back",
        "c goes back",
        "d goes back",
        "b ends",
        "a ends",
        "suspect begins",
        "suspect ends",
        "and is taken again",
        "e begins",
        "e ends",
    ]
