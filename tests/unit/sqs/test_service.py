"""Actions on a real node, without a protocol: what clients of HTTP cannot easily bring about."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from penstock.core.memory_budget import ANSWERS, MemoryBudget
from penstock.core.message_batches import iter_batches
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.records import read_outline
from penstock.core.types import Offset
from penstock.engine.engine import Engine
from penstock.sqs import answers, requests
from penstock.sqs.errors import InvalidParameterValue, QueueDeletedRecently, QueueNameExists
from penstock.sqs.queue_profiles import JOINED_BYTES_MAX
from penstock.sqs.requests import Request
from penstock.sqs.service import AGAIN, Call, Service, SqsSettings
from tests.idle_connection import IdleConnection
from tests.unit.engine.nodes import Nodes, until

CALL = Call("http://127.0.0.1:9324")


class Asked:
    """A service, and the engine behind it."""

    def __init__(self, engine: Engine, settings: SqsSettings) -> None:
        self.engine = engine
        self.service = Service(engine, settings)
        self.call = CALL

    async def ask(self, request: Request) -> answers.Answer | None:
        return await self.service.call(type(request).__name__, request, self.call)

    def begin(self, request: Request) -> "asyncio.Future[object]":
        """Without a task."""
        on_done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def tell(answer: object) -> bool:
            if not on_done.cancelled():
                on_done.set_result(answer)
            return not on_done.cancelled()

        assert self.service.begin(type(request).__name__, request, self.call, tell)
        return on_done

    def begins(self, request: Request) -> bool:
        """Whether it can be done without a task, which nobody waits for."""
        return self.service.begin(type(request).__name__, request, self.call, lambda _: False)

    def applied(self, name: str) -> int:
        """How many entries the shard of a queue has applied."""
        partition = self.engine.topics.topic(name).partitions[0]
        return self.engine.topics.led_shard(partition).replica.applied_index

    def end_offset(self, name: str) -> int:
        return self.engine.topics.bounds(self.engine.topics.topic(name), 0).high_watermark

    async def create(self, name: str, **attributes: str) -> answers.Answer | None:
        return await self.ask(requests.CreateQueue(queue_name=name, attributes=attributes))


def play(
    path: Path, story: Callable[[Asked], Awaitable[None]], settings: SqsSettings | None = None
) -> None:
    """Play a story on a cluster of one."""

    async def start() -> None:
        nodes = Nodes(path, [1])
        await nodes.start()
        try:
            engine = nodes[1].engine
            await until(lambda: bool(engine.topics.catalog.secrets))
            await story(Asked(engine, settings or SqsSettings()))
        finally:
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
            len(asked.engine.topics.topic(name).partitions)
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


def test_what_many_send_at_once_is_one_batch_and_each_is_told_of_his_own(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        sent = [
            asked.begin(requests.SendMessage(queue_url="q", message_body=f"m{number}"))
            for number in range(5)
        ]
        entries = [
            requests.SendMessageBatchEntry(id=one, message_body=one and f"m{one}")
            for one in ("5", "6")
        ]
        entries.insert(1, requests.SendMessageBatchEntry(id="x", message_body=""))
        several = asked.begin(requests.SendMessageBatch(queue_url="q", entries=entries))
        on_done = [await one for one in sent]
        batch = await several
        assert isinstance(batch, answers.BatchSent)
        assert [one.id for one in batch.successful] == ["5", "6"]
        assert [one.id for one in batch.failed] == ["x"]
        topic = asked.engine.topics.topic("q")
        data = asked.engine.topics.read(topic, 0, Offset(0), 1 << 20)
        assert [read_outline(one, 0)[2] for one in iter_batches(data)] == [7]
        found = await asked.ask(requests.ReceiveMessage(queue_url="q", max_number_of_messages=10))
        assert isinstance(found, answers.MessagesReceived)
        assert [one.body for one in found.messages] == [f"m{number}" for number in range(7)]
        ids = [one.message_id for one in on_done if isinstance(one, answers.MessageSent)]
        ids += [one.message_id for one in batch.successful]
        assert [one.message_id for one in found.messages] == ids
        handles = [one.receipt_handle for one in found.messages]
        gone = [
            asked.begin(requests.DeleteMessage(queue_url="q", receipt_handle=handle))
            for handle in handles[:3]
        ]
        more = asked.begin(
            requests.DeleteMessageBatch(
                queue_url="q",
                entries=[
                    requests.DeleteMessageBatchEntry(id="a", receipt_handle=handles[3]),
                    requests.DeleteMessageBatchEntry(id="b", receipt_handle="none"),
                    requests.DeleteMessageBatchEntry(id="c", receipt_handle=handles[4]),
                ],
            )
        )
        assert [await one for one in gone] == [None] * 3
        done = await more
        assert isinstance(done, answers.BatchDone)
        assert [one.id for one in done.successful] == ["a", "c"]
        assert [one.id for one in done.failed] == ["b"]
        counts = await asked.engine.delivery.counts(topic)
        assert (counts.acked, counts.leased) == (5, 2)

    play(tmp_path, story)


def test_duplicates_that_come_at_once_are_one_message(tmp_path: Path) -> None:
    def message(number: int, group: str = "g") -> requests.SendMessage:
        return requests.SendMessage(
            queue_url="q.fifo",
            message_body=f"m{number}",
            message_group_id=group,
            message_deduplication_id=f"id{number}",
        )

    async def story(asked: Asked) -> None:
        await asked.create("q.fifo", FifoQueue="true")
        on_done = [asked.begin(message(number)) for number in (1, 2, 1, 3, 2)]
        sent = [await one for one in on_done]
        assert all(isinstance(one, answers.MessageSent) for one in sent)
        ids = [one.message_id for one in sent if isinstance(one, answers.MessageSent)]
        assert (ids[2], ids[4]) == (ids[0], ids[1])
        assert len(set(ids)) == 3
        found = await asked.ask(
            requests.ReceiveMessage(queue_url="q.fifo", max_number_of_messages=10)
        )
        assert isinstance(found, answers.MessagesReceived)
        assert [one.body for one in found.messages] == ["m1", "m2", "m3"]

    play(tmp_path, story)


def test_what_cannot_be_sent_with_others_is_sent_alone(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        large = requests.SendMessage(queue_url="q", message_body="x" * JOINED_BYTES_MAX)
        assert not asked.begins(large)
        await asked.engine.topics.configure_topic("q", {"queue.length.max": "1"})
        small = requests.SendMessage(queue_url="q", message_body="x")
        assert not asked.begins(small)
        nothing = requests.DeleteMessageBatch(
            queue_url="q", entries=[requests.DeleteMessageBatchEntry(id="a")]
        )
        assert not asked.begins(nothing)
        assert asked.end_offset("q") == 0

    play(tmp_path, story)


def test_a_queue_of_several_partitions_is_sent_to_in_bags_of_each(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        sent = [
            asked.begin(requests.SendMessage(queue_url="q", message_body="x")) for _ in range(6)
        ]
        on_done = [await one for one in sent]
        ids = [one.message_id for one in on_done if isinstance(one, answers.MessageSent)]
        assert len(set(ids)) == 6
        topic = asked.engine.topics.topic("q")
        ends = [asked.engine.topics.bounds(topic, index).high_watermark for index in range(3)]
        assert ends == [2, 2, 2]
        entries = [requests.SendMessageBatchEntry(id="a", message_body="x")]
        batch = requests.SendMessageBatch(queue_url="q", entries=entries)
        assert not asked.begins(batch)

    play(tmp_path, story, SqsSettings(queue_partitions=3))


def receive(count: int, queue: str = "q", lease_s: int | None = None) -> requests.ReceiveMessage:
    return requests.ReceiveMessage(
        queue_url=queue,
        max_number_of_messages=count,
        message_system_attribute_names=["ApproximateReceiveCount"],
        visibility_timeout=lease_s,
    )


async def send_five(asked: Asked, queue: str = "q") -> None:
    group = "g" if queue.endswith(".fifo") else None
    entries = [
        requests.SendMessageBatchEntry(
            id=one,
            message_body=one,
            message_group_id=group,
            message_deduplication_id=group and one,
        )
        for one in "abcde"
    ]
    await asked.ask(requests.SendMessageBatch(queue_url=queue, entries=entries))
    # A queue begins to be one when it is first asked.
    await asked.engine.delivery.open(asked.engine.topics.topic(queue), DEFAULT_WORK_GROUP)


def bodies(answer: object) -> list[str]:
    assert isinstance(answer, answers.MessagesReceived)
    assert {one.attributes["ApproximateReceiveCount"] for one in answer.messages} == {"1"}
    return [one.body for one in answer.messages]


def test_what_many_receive_at_once_is_one_lease_dealt_out_in_their_order(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        await send_five(asked)
        before = asked.applied("q")
        asking = [asked.begin(receive(count)) for count in (2, 2, 3, 1)]
        on_done = [await one for one in asking]
        assert asked.applied("q") == before + 1
        assert list(map(bodies, on_done[:3])) == [["a", "b"], ["c", "d"], ["e"]]
        assert on_done[3] is AGAIN
        assert not asked.begins(receive(1)), "whoever finds nothing may want to wait"
        handles = [
            one.receipt_handle
            for answer in on_done[:3]
            if isinstance(answer, answers.MessagesReceived)
            for one in answer.messages
        ]
        gone = [
            asked.begin(requests.DeleteMessage(queue_url="q", receipt_handle=handle))
            for handle in handles
        ]
        assert [await one for one in gone] == [None] * 5
        counts = await asked.engine.delivery.counts(asked.engine.topics.topic("q"))
        assert (counts.acked, counts.leased) == (5, 0)

    play(tmp_path, story)


def test_what_nobody_is_there_for_any_more_goes_back_and_was_not_delivered(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        await send_five(asked)
        gone, there = asked.begin(receive(3)), asked.begin(receive(1))
        gone.cancel()
        assert bodies(await there) == ["d"]
        work = asked.engine.delivery.work(asked.engine.topics.topic("q"), 0, DEFAULT_WORK_GROUP)
        assert work is not None
        await until(lambda: work.ready == 4)
        assert bodies(await asked.begin(receive(10))) == ["a", "b", "c", "e"]

    play(tmp_path, story)


def test_a_receive_leases_nothing_that_there_is_no_memory_for(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        await send_five(asked)
        memory = MemoryBudget()
        others = memory.open("kafka", "host-1", IdleConnection())
        others.take(ANSWERS, memory.bytes_max)
        mine = memory.open("sqs", "host-2", IdleConnection())
        asked.call = msgspec.structs.replace(CALL, account=mine)
        assert await asked.begin(receive(5)) is AGAIN
        assert await asked.ask(receive(5)) == answers.MessagesReceived()
        others.close()
        assert bodies(await asked.ask(receive(2))) == ["a", "b"]
        assert bodies(await asked.begin(receive(3))) == ["c", "d", "e"]
        assert memory.held == 0, "what is answered is the connection's to count"

    play(tmp_path, story)


def test_leases_of_several_lengths_are_several(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        await send_five(asked)
        before = asked.applied("q")
        lengths = (None, 60, 60)
        asking = [asked.begin(receive(1, lease_s=one)) for one in lengths]
        assert list(map(bodies, [await one for one in asking])) == [["a"], ["b"], ["c"]]
        assert asked.applied("q") == before + 2

    play(tmp_path, story)


def test_a_lease_of_no_duration_is_over_when_the_receiver_has_its_message(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        await send_five(asked)
        assert bodies(await asked.begin(receive(1, lease_s=0))) == ["a"]
        counts = await asked.engine.delivery.counts(asked.engine.topics.topic("q"))
        assert (counts.ready, counts.leased) == (5, 0)

    play(tmp_path, story)


def test_messages_of_a_group_are_not_dealt_out(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q.fifo", FifoQueue="true")
        await send_five(asked, "q.fifo")
        assert not asked.begins(receive(1, "q.fifo"))
        assert bodies(await asked.ask(receive(2, "q.fifo"))) == ["a", "b"]

    play(tmp_path, story)


def test_a_queue_that_changes_is_seen_by_the_next_request(tmp_path: Path) -> None:
    async def story(asked: Asked) -> None:
        await asked.create("q")
        large = requests.SendMessage(queue_url="q", message_body="x" * 2_000)
        assert isinstance(await asked.begin(large), answers.MessageSent)
        await asked.ask(
            requests.SetQueueAttributes(queue_url="q", attributes={"MaximumMessageSize": "1024"})
        )
        with pytest.raises(InvalidParameterValue):
            asked.begins(large)

    play(tmp_path, story)
