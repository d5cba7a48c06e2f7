"""What a sender makes of answers that contradict each other: never a second copy of a message.

The first batch of a sender is a task's, which asks who leads and for a producer's id; the next ones
need none, as long as they are answered. Both meet the same troubles.
"""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.client.client import Client
from penstock.client.connection.channel import Buffer, Late, Make, OnAnswer
from penstock.client.settings import ClientSettings
from penstock.core.errors import (
    BatchTooLarge,
    DeadlinePassed,
    NotLeader,
    OutcomeUnknown,
    OutOfOrderSequence,
    PenstockError,
    Unavailable,
)
from penstock.core.records import read_header
from penstock.wire.requests import (
    Answer,
    Append,
    Appended,
    AskCluster,
    AskProducer,
    AskTopic,
    ClusterInfo,
    NodeInfo,
    ProducerInfo,
    Request,
    TopicInfo,
)
from tests.manual_loop import run_manually
from tests.unit.client.loop_time import count_by_the_loop


class ScriptedBroker:
    """A channel to a broker that answers batches by a script, one line for each."""

    def __init__(self, *script: PenstockError | None, leaves: bool = True) -> None:
        self.on_late: Late = lambda _node, _request, _answer: None
        self._script = list(script)
        self._leaves = leaves
        self.silent = False
        self.unanswered: list[OnAnswer] = []
        self.begun = 0
        """How many batches came without a task."""
        self.batches: list[tuple[int, int]] = []
        """Producer and sequence number of every batch that came."""

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """There is one."""

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        match request:
            case AskCluster():
                return ClusterInfo("c", 1, 1, "1", (NodeInfo(1, "h:1", True),)), b""
            case AskTopic(name=name):
                return TopicInfo(
                    name, b"t" * 16, (1,), True, False, True, True, 1 << 20, {}, 0
                ), b""
            case AskProducer():
                return ProducerInfo(len(self.batches) + 1), b""
            case Append():
                return self._append(payload), b""
        raise AssertionError(f"{request} is not in the script")

    def begin(self, node: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        if at_once:
            self._leave(make, ended)
        else:
            asyncio.get_running_loop().call_soon(self._leave, make, ended)
        return True

    def _leave(self, make: Make, ended: OnAnswer) -> None:
        if not self._leaves:
            self._leaves = True
            ended(Unavailable("it did not leave"), b"")
            return
        made = make()
        if made is None:
            return
        request, payload, _ = made
        assert isinstance(request, Append)
        self.begun += 1
        if self.silent:
            self.unanswered.append(ended)
            return
        try:
            ended(self._append(payload), b"")
        except PenstockError as problem:
            ended(problem, b"")

    def _append(self, payload: Buffer) -> Appended:
        header = read_header(payload)
        self.batches.append((header.producer_id, header.base_sequence))
        problem = self._script.pop(0)
        if problem is not None:
            raise problem
        return Appended(7, -1)

    async def close(self) -> None:
        """Nothing is open."""


def send(broker: ScriptedBroker, count: int = 1) -> list[int]:
    async def scene() -> list[int]:
        async def opened() -> ScriptedBroker:
            return broker

        async with Client(opened, url="scripted", settings=ClientSettings(seed=1)) as client:
            return [(await client.send("orders", b"x")).offset for _ in range(count)]

    return asyncio.run(scene())


def test_a_lost_answer_is_asked_for_again_under_the_same_number() -> None:
    broker = ScriptedBroker(OutcomeUnknown("lost"), None)
    assert send(broker) == [7]
    assert broker.batches == [(1, 0), (1, 0)]


def test_numbers_go_on() -> None:
    broker = ScriptedBroker(None, None)
    assert send(broker, 2) == [7, 7]
    assert broker.batches == [(1, 0), (1, 1)]


def test_a_broker_that_forgot_the_producer_gets_a_new_one() -> None:
    broker = ScriptedBroker(OutOfOrderSequence("who are you?"), None)
    assert send(broker) == [7]
    assert broker.batches == [(1, 0), (2, 0)]


def test_what_may_be_stored_is_not_sent_under_another_number() -> None:
    broker = ScriptedBroker(OutcomeUnknown("lost"), OutOfOrderSequence("too late"))
    with pytest.raises(OutcomeUnknown):
        send(broker)
    assert broker.batches == [(1, 0), (1, 0)]


# Without a task.


def test_what_comes_after_the_first_batch_needs_no_task() -> None:
    broker = ScriptedBroker(None, None, None)
    assert send(broker, 3) == [7, 7, 7]
    assert (broker.begun, broker.batches) == (2, [(1, 0), (1, 1), (1, 2)])


@pytest.mark.parametrize("problem", [OutcomeUnknown("lost"), NotLeader("ask another")])
def test_a_task_goes_on_under_the_same_number(problem: PenstockError) -> None:
    broker = ScriptedBroker(None, problem, None, None)
    assert send(broker, 3) == [7, 7, 7]
    assert (broker.begun, broker.batches) == (2, [(1, 0), (1, 1), (1, 1), (1, 2)])


def test_a_producer_that_was_forgotten_between_two_batches_is_made_anew() -> None:
    broker = ScriptedBroker(None, OutOfOrderSequence("who are you?"), None, None)
    assert send(broker, 3) == [7, 7, 7]
    assert broker.batches == [(1, 0), (1, 1), (3, 0), (3, 1)]


def test_a_later_batch_that_may_be_stored_is_not_sent_under_another_number() -> None:
    broker = ScriptedBroker(None, OutcomeUnknown("lost"), OutOfOrderSequence("too late"))
    with pytest.raises(OutcomeUnknown):
        send(broker, 2)
    assert broker.batches == [(1, 0), (1, 1), (1, 1)]


def test_what_is_refused_is_told() -> None:
    broker = ScriptedBroker(None, BatchTooLarge("no"))
    with pytest.raises(BatchTooLarge):
        send(broker, 2)
    assert broker.begun == 1


def test_what_could_not_leave_is_asked_by_a_task() -> None:
    broker = ScriptedBroker(None, None, leaves=False)
    assert send(broker, 2) == [7, 7]
    assert (broker.begun, broker.batches) == (1, [(1, 0), (1, 1)])


def test_each_has_its_own_deadline_and_learns_what_is_known() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(None)

        async def opened() -> ScriptedBroker:
            return broker

        async with Client(opened, url="scripted", settings=ClientSettings(seed=1)) as client:
            await client.send("orders", b"x")
            broker.silent = True
            under_way = asyncio.create_task(client.send("orders", b"y", timeout=60))
            await asyncio.sleep(0)
            assert broker.unanswered, "whoever comes alone leaves at once"
            with pytest.raises(DeadlinePassed, match="others were waiting"):
                await client.send("orders", b"z", timeout=30)
            with pytest.raises(OutcomeUnknown, match="the deadline has passed"):
                await under_way
            assert client.statistics().waiting_bytes > 0, "it may still be answered"
            broker.unanswered.pop()(Appended(7, -1), b"")
            assert client.statistics().waiting_bytes == 0

    with pytest.MonkeyPatch.context() as patched:
        count_by_the_loop(patched)
        run_manually(scene())


def test_a_send_that_is_cancelled_leaves_the_others_of_its_batch_alone() -> None:
    async def scene() -> None:
        broker = ScriptedBroker(None)

        async def opened() -> ScriptedBroker:
            return broker

        async with Client(opened, url="scripted", settings=ClientSettings(seed=1)) as client:
            await client.send("orders", b"x")
            broker.silent = True
            first = asyncio.create_task(client.send("orders", b"a"))
            both = [asyncio.create_task(client.send("orders", b"b")) for _ in range(2)]
            await asyncio.sleep(0)
            broker.unanswered.pop()(Appended(6, -1), b"")
            assert (await first).offset == 6
            waiting = asyncio.create_task(client.send("orders", b"c"))
            await asyncio.sleep(0)
            for task in (both[0], waiting):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            broker.unanswered.pop()(Appended(7, -1), b"")
            assert (await both[1]).offset == 8
            assert client.statistics().waiting_bytes == 0
        assert not broker.unanswered, "what was cancelled in time never leaves"

    asyncio.run(scene())
