"""Actions on a real node, without a protocol: what clients of HTTP cannot easily bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.engine.engine import Engine
from penstock.sqs import answers, requests
from penstock.sqs.errors import QueueDeletedRecently, QueueNameExists
from penstock.sqs.requests import Request
from penstock.sqs.service import Call, Service, SqsSettings
from tests.unit.engine.nodes import Nodes, until

CALL = Call("http://127.0.0.1:9324")


class Asked:
    """A service, and the engine behind it."""

    def __init__(self, engine: Engine, settings: SqsSettings) -> None:
        self.engine = engine
        self.service = Service(engine, settings)

    async def ask(self, request: Request) -> answers.Answer | None:
        return await self.service.call(type(request).__name__, request, CALL)

    async def create(self, name: str, **attributes: str) -> answers.Answer | None:
        return await self.ask(requests.CreateQueue(queue_name=name, attributes=attributes))


def play(
    path: Path, story: Callable[[Asked], Awaitable[None]], settings: SqsSettings | None = None
) -> None:
    """Play a story on a cluster of one."""

    async def start() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        engine = nodes[1].engine
        await until(lambda: bool(engine.catalog.secrets))
        await story(Asked(engine, settings or SqsSettings()))
        await nodes.stop()

    asyncio.run(start())


def test_two_who_make_the_same_queue_at_once(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        made = await asyncio.gather(*(asked.create("same") for _ in range(5)))
        located = answers.QueueLocated(queue_url="http://127.0.0.1:9324/000000000000/same")
        assert made == [located] * 5
        outcomes = await asyncio.gather(
            *(asked.create("different", DelaySeconds=str(seconds)) for seconds in range(2)),
            return_exceptions=True,
        )
        kinds = [type(outcome) for outcome in outcomes]
        assert sorted(kinds, key=str) == [answers.QueueLocated, QueueNameExists]

    play(tmp_path, story)


def test_two_who_tag_a_queue_at_once(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("tagged", Policy="{}")
        tags = [
            requests.TagQueue(queue_url="tagged", tags={str(number): ""}) for number in range(5)
        ]
        await asyncio.gather(*map(asked.ask, tags))
        found = await asked.ask(requests.ListQueueTags(queue_url="tagged"))
        assert found == answers.QueueTags(tags={str(number): "" for number in range(5)})
        await asked.ask(requests.UntagQueue(queue_url="tagged", tag_keys=["0"]))
        kept = await asked.ask(
            requests.GetQueueAttributes(queue_url="tagged", attribute_names=["Policy"])
        )
        assert kept == answers.QueueAttributes(attributes={"Policy": "{}"})

    play(tmp_path, story)


def test_how_many_partitions_a_queue_gets(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("standard")
        await asked.create("one.fifo", FifoQueue="true")
        await asked.create("three.fifo", FifoQueue="true", DeduplicationScope="messageGroup")
        counts = [
            len(asked.engine.topic(name).partitions)
            for name in ("standard", "one.fifo", "three.fifo")
        ]
        assert counts == [3, 1, 3]

    play(tmp_path, story, SqsSettings(queue_partitions=3))


def test_cooldowns_can_be_turned_off(tmp_path: Path) -> None:
    async def delete(asked: Asked) -> None:
        await asked.create("gone")
        await asked.ask(requests.PurgeQueue(queue_url="gone"))
        await asked.ask(requests.DeleteQueue(queue_url="gone"))

    async def at_once(asked: Asked) -> None:
        for _ in range(2):
            await delete(asked)
        await asked.create("purged")
        for _ in range(2):
            await asked.ask(requests.PurgeQueue(queue_url="purged"))

    async def not_at_once(asked: Asked) -> None:
        await delete(asked)
        with pytest.raises(QueueDeletedRecently):
            await asked.create("gone")

    play(tmp_path / "off", at_once, SqsSettings(delete_cooldown_ms=0, purge_cooldown_ms=0))
    play(tmp_path / "on", not_at_once)


def test_a_handle_of_a_queue_that_was_made_again_is_another_queues(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        for _ in range(2):
            await asked.create("again")
            await asked.ask(requests.SendMessage(queue_url="again", message_body="x"))
            found = await asked.ask(requests.ReceiveMessage(queue_url="again"))
            assert isinstance(found, answers.MessagesReceived)
            handles.add(found.messages[0].receipt_handle)
            ids.add(found.messages[0].message_id)
            await asked.ask(requests.DeleteQueue(queue_url="again"))

    handles: set[str] = set()
    ids: set[str] = set()
    play(tmp_path, story, SqsSettings(delete_cooldown_ms=0))
    assert (len(handles), len(ids)) == (2, 2)
