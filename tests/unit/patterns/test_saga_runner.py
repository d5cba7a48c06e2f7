"""Sagas run to their end, whoever dies on the way and wherever."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import penstock
from penstock.client.client import Client
from penstock.client.message import Message
from penstock.core.errors import InvalidRequest
from penstock.patterns.saga import (
    Saga,
    SagaEvent,
    SagaState,
    SagaStatus,
    Step,
    StepCall,
    StepRefused,
)
from penstock.patterns.saga_runner import SagaRunner, SagaToken
from tests.unit.patterns.runs import on_memory


class Killed(BaseException):
    """The process is gone: nothing it would have done happens."""


class Town:
    """A world with effects that can be counted, and steps that go wrong on demand."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        """Idempotent: a key that is there is not added again."""
        self.calls: Counter[str] = Counter()
        self.trouble: Callable[[str, int], None] = lambda name, attempt: None

    def act(self, name: str) -> Callable[[StepCall[int]], str]:
        def action(call: StepCall[int]) -> str:
            self.calls[name] += 1
            self.trouble(name, self.calls[name])
            if call.key not in self.effects:
                self.effects.append(call.key)
            return f"{name} for {call.data}"

        return action

    def saga(self) -> Saga[int]:
        return Saga(
            "trip",
            data=int,
            steps=[
                Step("flight", self.act("flight"), self.act("no flight")),
                Step("hotel", self.act("hotel"), self.act("no hotel")),
                Step("car", self.act("car"), self.act("no car")),
            ],
        )

    def names(self) -> list[str]:
        return [key.removeprefix("trip/a/") for key in self.effects]


def runner_of(
    client: Client,
    town: Town,
    *,
    attempts_max: int = 5,
    compensation_attempts_max: int = 20,
    crashes_max: int = 20,
) -> SagaRunner[int]:
    return SagaRunner(
        client,
        town.saga(),
        retry_delay=0.0,
        partitions=1,
        attempts_max=attempts_max,
        compensation_attempts_max=compensation_attempts_max,
        crashes_max=crashes_max,
    )


async def work_off(runner: SagaRunner[int], *, rounds: int = 60) -> None:
    for _ in range(rounds):
        if not await runner.work(10):
            return
    raise AssertionError("it never ends")


@on_memory
async def test_all_steps_are_done(client: Client) -> None:
    town = Town()
    runner = runner_of(client, town)
    state = await runner.start("a", 7)
    assert state.status is SagaStatus.RUNNING
    await work_off(runner)
    state = await runner.wait("a", timeout=60)
    assert state.status is SagaStatus.COMPLETED
    assert state.results == {"flight": "flight for 7", "hotel": "hotel for 7", "car": "car for 7"}
    assert town.names() == ["flight", "hotel", "car"]
    assert (await runner.queue.stats()).depth == 0


@on_memory
async def test_a_start_counts_once(client: Client) -> None:
    town = Town()
    runner = runner_of(client, town)
    await runner.start("a", 7)
    await runner.start("a", 8)
    await runner_of(client, town).start("a", 9)
    await work_off(runner)
    state = await runner.start("a", 10)
    assert state.status is SagaStatus.COMPLETED
    assert state.results["car"] == "car for 7"
    assert town.calls.total() == 3


@on_memory
async def test_a_refusal_undoes_what_was_done(client: Client) -> None:
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if name == "car":
            raise StepRefused("no cars left")

    town.trouble = trouble
    runner = runner_of(client, town)
    await runner.start("a", 7)
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPENSATED
    assert "no cars left" in state.error
    assert town.names() == ["flight", "hotel", "hotel/undo", "flight/undo"]


@on_memory
async def test_a_step_is_tried_again(client: Client) -> None:
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if name == "hotel" and attempt < 4:
            raise ConnectionError("no answer")

    town.trouble = trouble
    runner = runner_of(client, town)
    await runner.start("a", 7)
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPLETED
    assert town.calls == {"flight": 1, "hotel": 4, "car": 1}


@on_memory
async def test_a_step_that_fails_for_good_is_undone_too(client: Client) -> None:
    """Nobody knows what became of it."""
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if name == "hotel":
            raise ConnectionError("no answer")

    town.trouble = trouble
    runner = runner_of(client, town, attempts_max=3)
    await runner.start("a", 7)
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPENSATED
    assert town.calls["hotel"] == 3
    assert town.names() == ["flight", "hotel/undo", "flight/undo"]


@on_memory
async def test_a_compensation_that_never_works_is_stuck_and_can_be_resumed(client: Client) -> None:
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if name == "car":
            raise StepRefused("no cars left")
        if name == "no flight":
            raise ConnectionError("the airline is closed")

    town.trouble = trouble
    runner = runner_of(client, town, compensation_attempts_max=4)
    await runner.start("a", 7)
    await work_off(runner)
    [stuck] = await runner.states(SagaStatus.STUCK)
    assert "the airline is closed" in stuck.error
    assert town.calls["no flight"] == 4
    assert (await runner.queue.stats()).dead == 1, "its token shows it as well"

    town.trouble = lambda name, attempt: None
    await runner.retry("a")
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPENSATED
    assert state.undone == ("hotel", "flight")
    assert (await runner.retry("a")).status is SagaStatus.COMPENSATED


class MortalRunner(SagaRunner[int]):
    """Dies at a point of its life: before or after the n-th thing it writes."""

    lives: list[int]

    async def _write(self, state: SagaState | None, event: SagaEvent) -> SagaState:
        self._live()
        after = await super()._write(state, event)
        self._live()
        return after

    def _live(self) -> None:
        self.lives[0] -= 1
        if self.lives[0] == 0:
            raise Killed


def mortal(client: Client, town: Town, lives: int) -> MortalRunner:
    runner = MortalRunner(client, town.saga(), retry_delay=0.0, partitions=1)
    runner.lives = [lives]
    return runner


async def work_until_killed(runner: MortalRunner) -> Message[SagaToken] | None:
    """The token that the dead leave behind, leased."""
    await runner.open()
    tokens = await runner.queue.receive(1)
    for token in tokens:
        try:
            await runner.carry_on(token)
        except Killed:
            return token
    return None


@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_every_point(fails: bool) -> None:
    """Whatever was written when, every effect is there once, and in the right order."""

    @on_memory
    async def run(client: Client) -> None:
        for lives in range(1, 30):
            saga_id = f"s{lives}"
            town = Town()

            def trouble(name: str, attempt: int) -> None:
                if fails and name == "car":
                    raise StepRefused("no cars left")

            town.trouble = trouble
            starter = runner_of(client, town)
            await starter.start(saga_id, 7)
            left = await work_until_killed(mortal(client, town, lives))
            if left is not None:
                await left.release()  # As when its lease has ended.
            fresh = runner_of(client, town)
            await work_off(fresh)
            state = await fresh.state(saga_id)
            assert state is not None
            names = [key.removeprefix(f"trip/{saga_id}/") for key in town.effects]
            if fails:
                assert state.status is SagaStatus.COMPENSATED
                assert names == ["flight", "hotel", "hotel/undo", "flight/undo"]
            else:
                assert state.status is SagaStatus.COMPLETED
                assert names == ["flight", "hotel", "car"]
            if left is None:
                assert lives > 6
                return
        raise AssertionError("it was killed at every point and never lived")

    run()


@on_memory
async def test_the_starter_is_killed_between_token_and_log(client: Client) -> None:
    town = Town()
    with pytest.raises(Killed):
        await mortal(client, town, 1).start("a", 7)
    runner = runner_of(client, town)
    assert await runner.state("a") is None
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPLETED


@on_memory
async def test_killed_before_the_token_is_settled(client: Client) -> None:
    town = Town()
    runner = runner_of(client, town)
    await runner.start("a", 7)
    [token] = await runner.queue.receive(1)
    await runner.advance(token)
    await token.release()  # It was never acknowledged.
    await work_off(runner_of(client, town))
    assert town.calls.total() == 3


@on_memory
async def test_two_workers_with_one_saga(client: Client) -> None:
    """One has lost its lease and does not know: what it writes late does not count."""
    town = Town()
    first, second = runner_of(client, town), runner_of(client, town)
    await first.start("a", 7)
    [token] = await first.queue.receive(1)
    await asyncio.gather(first.advance(token), second.advance(token))
    one, other = await first.state("a"), await second.state("a")
    assert one == other
    assert one is not None
    assert one.status is SagaStatus.COMPLETED
    assert town.names() == ["flight", "hotel", "car"]


@on_memory
async def test_a_step_that_kills_its_workers_is_given_up(client: Client) -> None:
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if name == "hotel":
            raise Killed

    town.trouble = trouble
    await runner_of(client, town).start("a", 7)
    for _ in range(30):
        runner = runner_of(client, town, crashes_max=3)
        await runner.open()
        for token in await runner.queue.receive(1):
            try:
                await runner.carry_on(token)
            except Killed:
                await token.release()
    state = await runner_of(client, town).state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPENSATED
    assert town.calls["hotel"] <= 5
    assert "died" in state.error


@on_memory
async def test_many_sagas_and_several_workers_that_die_by_chance(client: Client) -> None:
    chance = Random(7)
    town = Town()

    def trouble(name: str, attempt: int) -> None:
        if chance.random() < 0.1:
            raise Killed
        if chance.random() < 0.2:
            raise ConnectionError("no answer")

    town.trouble = trouble
    sagas = 20
    starter = SagaRunner(client, town.saga(), partitions=3)
    for number in range(sagas):
        await starter.start(f"s{number}", number)
    for _ in range(1_000):
        # A new worker every time, which knows nothing but what the log says.
        worker = SagaRunner(client, town.saga(), retry_delay=0.0, attempts_max=1_000)
        await worker.open()
        tokens = await worker.queue.receive(3)
        if not tokens:
            break
        for token in tokens:
            try:
                await worker.carry_on(token)
            except Killed:
                await token.release()
    states = await starter.states()
    assert {state.status for state in states} == {SagaStatus.COMPLETED}
    assert len(states) == sagas
    assert Counter(town.effects) == {
        f"trip/s{n}/{step}": 1 for n in range(sagas) for step in ("flight", "hotel", "car")
    }


@on_memory
async def test_workers_that_run_until_they_are_stopped(client: Client) -> None:
    town = Town()
    runner = runner_of(client, town)
    working = asyncio.create_task(runner.run(concurrency=3))
    for number in range(10):
        await runner.start(f"s{number}", number)
    for number in range(10):
        state = await runner.wait(f"s{number}", every=0)
        assert state.status is SagaStatus.COMPLETED
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


@on_memory
async def test_async_steps_and_results_that_are_no_json(client: Client) -> None:
    async def fine(call: StepCall[int]) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": call.data}

    saga = Saga("odd", data=int, steps=[Step("fine", fine), Step("odd", lambda call: object())])
    runner = SagaRunner(client, saga, retry_delay=0.0, attempts_max=2)
    await runner.start("a", 7)
    await work_off(runner)
    state = await runner.state("a")
    assert state is not None
    assert state.status is SagaStatus.COMPENSATED, "nothing is to be undone"
    assert state.results == {"fine": {"n": 7}}


@on_memory
async def test_a_saga_that_nobody_started(client: Client) -> None:
    runner = runner_of(client, Town())
    assert await runner.state("a") is None
    with pytest.raises(InvalidRequest, match="no saga a"):
        await runner.retry("a")
    with pytest.raises(InvalidRequest, match="characters"):
        await runner.start("", 7)


@pytest.mark.slow
def test_sagas_outlive_the_process(tmp_path: Path) -> None:
    """On files: an engine is closed in the middle of everything, and the next one goes on."""
    town = Town()

    async def live(lives: int | None) -> list[SagaState]:
        url = f"file:{tmp_path / 'data'}"
        async with asyncio.timeout(60), penstock.connect(url) as client:
            if lives is not None:
                dying = mortal(client, town, lives)
                dying._lease = 0.2
                await dying.start(f"s{lives}", lives)
                await work_until_killed(dying)
                return []
            runner = runner_of(client, town)
            while any(not one.status.is_final for one in await runner.states()):
                await runner.work(10, wait=60)  # Until the leases of the dead have ended.
            return await runner.states()

    for lives in (3, 4, 6):
        asyncio.run(live(lives))
    states = asyncio.run(live(None))
    assert {state.status for state in states} == {SagaStatus.COMPLETED}
    assert len(states) == 3
    assert Counter(town.effects) == {
        f"trip/s{n}/{step}": 1 for n in (3, 4, 6) for step in ("flight", "hotel", "car")
    }


def test_waits_double_and_have_a_bound() -> None:
    @on_memory
    async def run(client: Client) -> None:
        runner = SagaRunner(
            client, Town().saga(), retry_delay=1.0, retry_delay_max=8.0, chance=Random(1)
        )
        state = await runner.start("a", 1)
        for attempts, longest in ((1, 1.0), (2, 2.0), (4, 8.0), (50, 8.0)):
            delay = runner.delay(replace(state, attempts=attempts))
            assert longest / 2 <= delay <= longest

    run()
