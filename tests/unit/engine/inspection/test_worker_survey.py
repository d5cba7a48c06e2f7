"""What each worker of a queue holds, does, and failed at."""

from penstock.core.verdicts import Verdict
from penstock.engine.inspection.worker_survey import LAPSED, WorkerActivity
from tests.unit.watch.looped import on_a_loop
from tests.unit.watch.test_watch import Watched, watched


async def workers(one: Watched) -> dict[str, WorkerActivity]:
    topic = one.node.engine.topics.topic("jobs")
    return {each.name: each for each in await one.node.workers.workers(topic, "queue")}


@on_a_loop
async def test_what_each_worker_did() -> None:
    async with watched() as one:
        topic = await one.make()
        await one.send(topic, 20)
        assert await workers(one) == {}
        good = await one.receive(topic, 6, "good")
        bad = await one.receive(topic, 4, "bad")
        await one.settle(topic, good[:5], Verdict.ACK)
        await one.node.delivery.settle(
            topic, [(bad[0].receipt, Verdict.REJECT, 0, "KeyError: 'vat'")]
        )
        found = await workers(one)
        assert (found["good"].leased, found["good"].delivered) == (1, 6)
        assert (found["good"].acked, found["good"].minute_acked, found["good"].failed) == (5, 5, 0)
        assert (found["bad"].leased, found["bad"].failed) == (3, 1)
        assert found["bad"].error == "KeyError: 'vat'"
        assert found["bad"].error_ms >= found["bad"].since_ms > 0


@on_a_loop
async def test_a_lease_that_runs_out_is_a_failure() -> None:
    async with watched() as one:
        topic = await one.make(queue_lease_ms="30000")
        await one.send(topic, 3)
        first = await one.receive(topic, 2, "slow")
        await one.after(20)
        await one.node.delivery.settle(topic, [(first[0].receipt, Verdict.EXTEND, 60_000, "")])
        assert (await workers(one))["slow"].leased == 2
        await one.after(71)
        slow = (await workers(one))["slow"]
        assert (slow.leased, slow.error, slow.minute_acked) == (0, LAPSED, 0)


@on_a_loop
async def test_others_are_left_out() -> None:
    async with watched() as one:
        topic, other = await one.make(), await one.make("other")
        for each in (topic, other):
            await one.send(each, 1)
        await one.receive(other, 1, "elsewhere")
        await one.node.delivery.open(topic, "emails")
        await one.node.delivery.receive(
            topic, group="emails", messages_max=1, receiver="another group"
        )
        assert await workers(one) == {}
