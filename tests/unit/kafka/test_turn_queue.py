"""Few callbacks run in one turn of the loop, the others in the next ones."""

import asyncio
from functools import partial

from penstock.kafka.turn_queue import TurnQueue

PER_TURN = 4


def test_few_callbacks_run_in_one_turn_of_the_loop_in_their_order() -> None:
    async def scenario() -> None:
        queue = TurnQueue(PER_TURN)
        called: list[int] = []
        many = 3 * PER_TURN + 1
        for number in range(many):
            queue.call_soon(partial(called.append, number))
        turns = [0]
        while len(called) < many:
            await asyncio.sleep(0)
            turns.append(len(called))
        assert turns == [0, PER_TURN, 2 * PER_TURN, 3 * PER_TURN, many]
        assert called == list(range(many))
        queue.call_soon(partial(called.append, -1))
        await asyncio.sleep(0)
        assert called[-1] == -1

    asyncio.run(scenario())


def test_a_callback_that_fails_keeps_none_of_the_others_waiting() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        queue = TurnQueue(PER_TURN)
        called: list[int] = []

        def fail() -> None:
            raise ValueError

        queue.call_soon(fail)
        for number in range(PER_TURN):
            queue.call_soon(partial(called.append, number))
        for _ in range(2):
            await asyncio.sleep(0)
        assert len(called) == PER_TURN

    asyncio.run(scenario())


def test_those_who_wait_have_their_turns_in_the_order_in_which_they_came() -> None:
    async def scenario() -> None:
        queue = TurnQueue(1)
        had: list[str] = []

        async def work(name: str) -> None:
            for _ in range(3):
                await queue.wait()
                had.append(name)

        await asyncio.gather(work("a"), work("b"))
        assert had == ["a", "b", "a", "b", "a", "b"]

    asyncio.run(scenario())
