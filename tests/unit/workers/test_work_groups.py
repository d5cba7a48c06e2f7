"""A worker of a group of its own: the queue's retry curve, delivery limit and dead letters."""

from tests.unit.workers.rig import Rig, play, until


def test_a_worker_group_retries_and_buries_as_its_queue_is_set() -> None:
    async def story() -> None:
        rig, times = Rig(), list[int]()

        @rig.app.worker(
            "orders",
            group="emails",
            create={
                "deliveries_max": 3, "retry": "fixed", "retry_delay": 1, "dead_letter": "failed",
            },
        )  # fmt: skip
        async def fail(number: int) -> None:
            times.append(rig.clock.wall_ms())
            raise ValueError(f"{number} fails")

        async with rig.working():
            queue = rig.client.queue("orders", group="emails")
            sent = await rig.client.send("orders", 7)
            for delivery in (1, 2, 3):
                await until(lambda delivery=delivery: len(times) == delivery)  # type: ignore[misc]
                if delivery < 3:
                    await rig.until_stats("orders", "emails", delayed=1)
                    rig.clock.advance(999)
                    assert (await queue.stats()).delayed == 1
                    rig.clock.advance(1)
            await rig.until_stats("orders", "emails", moved=1, purged=0)
            (letter,) = await rig.client.queue("failed").peek()
        assert [time - times[0] for time in times] == [0, 1_000, 2_000]
        assert letter.dead_letter is not None
        found = letter.dead_letter
        assert (found.queue, found.partition, found.offset) == ("orders", 0, sent.offset)
        assert (found.group, found.deliveries) == ("emails", 3)
        assert found.reason == "too many deliveries: ValueError: 7 fails"

    play(story)


def test_a_worker_group_may_have_its_own_retry_curve() -> None:
    async def story() -> None:
        rig, times = Rig(), list[int]()

        @rig.app.worker("orders", group="emails")
        async def fail(_number: int) -> None:
            times.append(rig.clock.wall_ms())
            raise ValueError("it fails")

        async with rig.client:
            orders = rig.client.queue("orders")
            await orders.create(retry="fixed", retry_delay=60)
            await orders.configure_group("emails", retry_delay=5)
            async with rig.app:
                await rig.client.send("orders", 7)
                await until(lambda: len(times) == 1)
                await rig.until_stats("orders", "emails", delayed=1)
                rig.clock.advance(5_000)
                await until(lambda: len(times) == 2)
        assert times[1] - times[0] == 5_000

    play(story)
