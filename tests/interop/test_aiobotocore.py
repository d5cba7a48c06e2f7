"""aiobotocore: many requests at once on one loop, and clients that go away while they wait.

A receive that nobody waits for any more must lease nothing: what would be leased to it would be
missing for everybody else until the lease ends.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiobotocore.config
import pytest
from aiobotocore.session import get_session

from tests.interop.served import KEYS, Served, counts, serving

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0
LONG_SECONDS = 20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("aiobotocore")) as broker:
        yield broker


def run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await story

    asyncio.run(within())


@asynccontextmanager
async def connect(served: Served) -> AsyncIterator[Any]:
    config = aiobotocore.config.AioConfig(
        retries={"total_max_attempts": 1}, max_pool_connections=100
    )
    async with get_session().create_client(
        "sqs", endpoint_url=served.url, config=config, **KEYS
    ) as client:
        yield client


async def create(client: Any, name: str, **attributes: str) -> str:
    url: str = (await client.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"]
    return url


def entries_of(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [
        {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
        for number, message in enumerate(messages)
    ]


def test_many_send_and_many_receive_at_once(served: Served) -> None:
    total = 600
    done: Counter[str] = Counter()

    async def send(client: Any, url: str, name: int) -> None:
        for number in range(3):
            entries = [
                {"Id": str(each), "MessageBody": f"{name}-{number}-{each}"} for each in range(10)
            ]
            sent = await client.send_message_batch(QueueUrl=url, Entries=entries)
            assert len(sent["Successful"]) == 10

    async def work(client: Any, url: str) -> None:
        while done.total() < total:
            answer = await client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1
            )
            if messages := answer.get("Messages", []):
                done.update(message["Body"] for message in messages)
                await client.delete_message_batch(QueueUrl=url, Entries=entries_of(messages))

    async def story() -> None:
        async with connect(served) as client:
            url = await create(client, "crowded")
            workers = [work(client, url) for _ in range(10)]
            senders = [send(client, url, name) for name in range(total // 30)]
            await asyncio.gather(*workers, *senders)
        assert set(done.values()) == {1}
        assert counts(served.client(), url) == (0, 0, 0)

    run(story())


def test_a_receive_that_was_given_up_leases_nothing(served: Served) -> None:
    async def story() -> None:
        async with connect(served) as client:
            url = await create(client, "given-up")
            waiting = [
                asyncio.create_task(
                    client.receive_message(
                        QueueUrl=url, WaitTimeSeconds=LONG_SECONDS, MaxNumberOfMessages=10
                    )
                )
                for _ in range(30)
            ]
            done, _ = await asyncio.wait(waiting, timeout=0.5)
            assert not done
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            for number in range(5):
                await client.send_message(QueueUrl=url, MessageBody=str(number))
            assert counts(served.client(), url) == (5, 0, 0)
            found = await client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
            assert [message["Body"] for message in found["Messages"]] == list("01234")

    run(story())


def test_one_that_still_waits_gets_what_those_that_left_do_not(served: Served) -> None:
    async def story() -> None:
        async with connect(served) as client, connect(served) as other:
            url = await create(client, "still-waiting")
            waiting = [
                asyncio.create_task(one.receive_message(QueueUrl=url, WaitTimeSeconds=LONG_SECONDS))
                for one in (client, other, client)
            ]
            done, _ = await asyncio.wait(waiting, timeout=0.5)
            assert not done
            waiting[0].cancel()
            waiting[2].cancel()
            await asyncio.wait((waiting[0], waiting[2]))
            await client.send_message(QueueUrl=url, MessageBody="for whoever is there")
            (message,) = (await waiting[1])["Messages"]
            assert message["Body"] == "for whoever is there"

    run(story())


def test_many_wait_for_few_messages(served: Served) -> None:
    """Each message goes to one of those who wait, at once."""

    async def story() -> None:
        async with connect(served) as client:
            url = await create(client, "few-for-many")
            waiting = [
                asyncio.create_task(
                    client.receive_message(QueueUrl=url, WaitTimeSeconds=2, MaxNumberOfMessages=1)
                )
                for _ in range(40)
            ]
            for number in range(25):
                await client.send_message(QueueUrl=url, MessageBody=str(number))
            answers = await asyncio.gather(*waiting)
            found = [one["Body"] for answer in answers for one in answer.get("Messages", [])]
            assert sorted(found, key=int) == [str(number) for number in range(25)]

    run(story())


def test_groups_of_a_fifo_queue_go_side_by_side_and_each_in_order(served: Served) -> None:
    groups, each = 12, 10
    order: dict[str, list[str]] = defaultdict(list)
    busy: set[str] = set()

    async def work(client: Any, url: str) -> None:
        while sum(map(len, order.values())) < groups * each:
            answer = await client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=3,
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["MessageGroupId"],
            )
            messages = answer.get("Messages", [])
            held = {message["Attributes"]["MessageGroupId"] for message in messages}
            assert not held & busy, "a group is with two workers"
            busy.update(held)
            for message in messages:
                order[message["Attributes"]["MessageGroupId"]].append(message["Body"])
            if messages:
                await client.get_queue_url(QueueName="side-by-side.fifo")  # Others ask meanwhile.
                busy.difference_update(held)
                await client.delete_message_batch(QueueUrl=url, Entries=entries_of(messages))

    async def send(client: Any, url: str, group: str) -> None:
        for number in range(each):
            await client.send_message(
                QueueUrl=url,
                MessageBody=str(number),
                MessageGroupId=group,
                MessageDeduplicationId=f"{group}-{number}",
            )

    async def story() -> None:
        async with connect(served) as client:
            url = await create(client, "side-by-side.fifo", FifoQueue="true")
            senders = [send(client, url, f"group-{number}") for number in range(groups)]
            await asyncio.gather(*senders, *(work(client, url) for _ in range(5)))
        assert len(order) == groups
        assert all(found == [str(number) for number in range(each)] for found in order.values())

    run(story())
