"""An engine inside this process: on a disk or in memory, by a clock that is moved."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.client.connection.urls import File, Memory
from penstock.core import delivery_headers
from penstock.core.clock import MovableClock
from penstock.core.errors import (
    DirectoryRefused,
    DiskFailed,
    OutcomeUnknown,
    PenstockError,
    StorageFull,
    Unavailable,
)
from penstock.core.message import NewMessage
from penstock.core.types import NodeId
from penstock.embedded.channel import EmbeddedChannel
from penstock.embedded.engine import EmbeddedEngine
from penstock.embedded.open_engines import Hold, OpenEngines
from penstock.embedded.settings import MEMORY_SETTINGS, EmbeddedSettings
from penstock.engine.cluster.node_file import NodeFile, store_node_file
from penstock.storage import RealDisk, memory_disk
from penstock.storage.memory_disk import MemoryDisk, MemoryFile
from penstock.testing.clock import ManualClock
from penstock.wire.requests import AskCluster, ClusterInfo, DeleteTopic, Send
from tests.unit.embedded.router import Asker

MIB = 1 << 20
HOUR_MS = 3_600_000
NAMELESS = Memory("")
Story = Callable[[Asker], Awaitable[None]]


def sockets() -> int:
    """How many sockets this process has open."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # It was the listing itself.
            count += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return count


def play(
    story: Story,
    place: File | Memory = NAMELESS,
    *,
    clock: ManualClock | None = None,
    settings: EmbeddedSettings | None = None,
) -> None:
    async def run() -> None:
        channel = await EmbeddedChannel.open(
            place, clock=clock, settings=settings, engines=OpenEngines()
        )
        try:
            await story(Asker(channel))
        finally:
            await channel.close()

    asyncio.run(run())


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


class TestPlaces:
    def test_in_memory_messages_are_sent_leased_and_acked(self) -> None:
        async def story(queue: Asker) -> None:
            await queue.create()
            await queue.send(b"one", b"two")
            leased = await queue.take()
            assert [offset for offset, _ in leased] == [0, 1]
            assert await queue.ack(leased) == (0, 0)
            assert await queue.counts() == {"sent": 2, "acked": 2}

        play(story)

    def test_a_directory_keeps_what_was_sent(self, tmp_path: Path) -> None:
        async def first(queue: Asker) -> None:
            await queue.create()
            await queue.send(b"kept")

        async def second(queue: Asker) -> None:
            queue.name = "work"
            assert (await queue.counts())["ready"] == 1

        play(first, File(str(tmp_path / "data")))
        play(second, File(str(tmp_path / "data")))

    def test_no_socket_is_opened(self) -> None:
        async def run() -> None:
            before = sockets()
            engine = await EmbeddedEngine.open(None)
            assert sockets() == before
            await engine.close()

        asyncio.run(run())

    def test_the_directory_of_a_larger_cluster_is_refused(self, tmp_path: Path) -> None:
        store_node_file(
            RealDisk(),
            str(tmp_path),
            NodeFile(
                node=NodeId(1),
                incarnation="a",
                cluster_id="b",
                shards=2,
                founders={NodeId(1): "a", NodeId(2): "c"},
            ),
        )
        with pytest.raises(DirectoryRefused, match="belongs to a cluster of several nodes"):
            asyncio.run(EmbeddedEngine.open(str(tmp_path)))

    def test_what_a_broker_said_of_its_ports_is_taken_back(self, tmp_path: Path) -> None:
        async def story(queue: Asker) -> None:
            node = queue.channel.engine.node
            await node.register(kafka="127.0.0.1:9092", http="127.0.0.1:8080")
            await settled(queue, "127.0.0.1:9092")

        async def settled(queue: Asker, address: str) -> None:
            async with asyncio.timeout(30):
                while True:
                    answer = await queue.ask(AskCluster())
                    assert isinstance(answer, ClusterInfo)
                    if [one.address for one in answer.nodes] == [address]:
                        return
                    await turns()

        async def later(queue: Asker) -> None:
            await settled(queue, "")

        play(story, File(str(tmp_path)))
        play(later, File(str(tmp_path)))


class TestTime:
    def test_a_manual_clock_can_be_watched(self) -> None:
        assert isinstance(ManualClock(), MovableClock)

    def test_a_delayed_message_comes_to_one_who_waits(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            await queue.create()
            await queue.send(b"later", headers=((delivery_headers.DELAY, b"%d" % HOUR_MS),))
            waiting = asyncio.create_task(queue.take(wait_ms=60_000))
            await turns()
            clock.advance(59_999)
            await turns()
            assert not waiting.done()
            assert await queue.take() == []
            clock.jump_wall(HOUR_MS)
            assert len(await waiting) == 1

        play(story, clock=clock)

    def test_a_lease_ends_and_the_next_answer_knows_it(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            await queue.create()
            await queue.send(b"again")
            first = await queue.take()
            assert await queue.take() == []
            clock.advance(seconds=30)
            assert (await queue.counts())["ready"] == 1, "without anybody having asked for it"
            assert len(await queue.take()) == 1
            assert await queue.ack(first) == (1,), "it is somebody else's now"

        play(story, clock=clock)

    def test_a_lifetime_ends(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            await queue.create(queue_ttl_ms="1000")
            await queue.send(b"stale")
            clock.advance(1001)
            assert (await queue.counts())["expired"] == 1
            assert await queue.take() == []

        play(story, clock=clock)

    def test_waiting_ends_when_the_clock_says_so(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            await queue.create()
            waiting = asyncio.create_task(queue.take(wait_ms=20_000))
            await turns()
            clock.advance(10_000)
            await turns()
            assert not waiting.done()
            clock.advance(10_000)
            assert await waiting == []

        play(story, clock=clock)

    def test_the_dead_move_when_time_passes(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            dead = Asker(queue.channel)
            await dead.create("dead")
            await queue.create(queue_deliveries_max="1", queue_dead_letter_topic="dead")
            await queue.send(b"poison")
            assert len(await queue.take()) == 1
            waiting = asyncio.create_task(dead.take(wait_ms=60_000))
            await turns()
            clock.advance(30_000)
            assert len(await waiting) == 1

        play(story, clock=clock)

    def test_a_clock_may_be_moved_after_its_engine_has_gone(self) -> None:
        clock = ManualClock()

        async def story(queue: Asker) -> None:
            await queue.create()

        play(story, clock=clock)
        clock.advance(1000)


class FailingFile(MemoryFile):
    """A file whose syncs fail when its disk says so."""

    def __init__(self, disk: "FailingDisk", file: MemoryFile) -> None:
        super().__init__(disk, file._content, file.path)
        self._failing = disk

    def sync(self) -> None:
        if self._failing.fails:
            raise DiskFailed(f"cannot sync {self.path}: Input/output error")
        super().sync()


class FailingDisk(MemoryDisk):
    """A disk that breaks when a test says so."""

    fails = False

    def open(self, path: str, *, create: bool = False, private: bool = False) -> FailingFile:
        return FailingFile(self, super().open(path, create=create, private=private))


@pytest.mark.slow
class TestBrokenDisk:
    def test_what_was_under_way_is_unknown_and_then_the_disk_is_named(self) -> None:
        async def story() -> None:
            disk = FailingDisk()
            engine = await EmbeddedEngine.open(None, disk=disk)
            queue = Asker(EmbeddedChannel(Hold(engine, engine.close)))
            await queue.create()
            await queue.send(b"safe")  # What belongs to making a queue is on the disk.
            disk.fails = True
            with pytest.raises(OutcomeUnknown):
                await queue.send(b"in the air")
            with pytest.raises(DiskFailed, match="cannot sync"):
                await self.send_for_ever(queue)
            await queue.channel.close()

        asyncio.run(story())

    async def send_for_ever(self, queue: Asker) -> None:
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(Unavailable, OutcomeUnknown):
                    await queue.ask(Send(queue.topic_id, 0, (NewMessage(b"more"),)), timeout=0.1)
                await turns()

    def test_one_failure_is_survived(self) -> None:
        async def story() -> None:
            disk = FailingDisk()
            engine = await EmbeddedEngine.open(None, disk=disk)
            queue = Asker(EmbeddedChannel(Hold(engine, engine.close)))
            await queue.create()
            await queue.send(b"safe")
            disk.fails = True
            with pytest.raises(OutcomeUnknown):
                await queue.send(b"in the air")
            disk.fails = False
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(Unavailable, OutcomeUnknown):
                        leased = await queue.take(wait_ms=100)
                        break
                    await turns()
            assert leased[0][0] == 0
            assert (await queue.ack(leased))[0] == 0
            await queue.channel.close()

        asyncio.run(story())


@pytest.mark.slow
class TestFullMemory:
    SETTINGS = EmbeddedSettings(
        shards=1,
        segment_bytes=MIB,
        ballast_bytes=2 * MIB,
        tick_ms=MEMORY_SETTINGS.tick_ms,
        memory_bytes_max=16 * MIB,
    )

    def test_sends_are_refused_and_everything_else_goes_on(self) -> None:
        async def story(queue: Asker) -> None:
            await queue.create()
            error: PenstockError | None = None
            for _ in range(100):
                try:
                    await queue.send(bytes(MIB // 2))
                except StorageFull as refusal:
                    error = refusal
                    break
            assert error is not None
            leased = await queue.take()
            assert set(await queue.ack(leased)) == {0}
            await queue.ask(DeleteTopic("work"))
            await queue.create("fresh")
            async with asyncio.timeout(60):
                while True:
                    try:
                        await queue.send(b"room again")
                    except StorageFull:
                        await turns()  # Segments are given back in the background.
                    else:
                        break

        play(story, settings=self.SETTINGS)


class SlowFile(MemoryFile):
    """Takes its time to sync, as a disk does that others are using."""

    def sync(self) -> None:
        threading.Event().wait(0.03)
        super().sync()


def test_a_slow_disk_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote that takes longer to write than an election lasts must not end the election."""
    monkeypatch.setattr(memory_disk, "MemoryFile", SlowFile)

    async def story() -> None:
        async with asyncio.timeout(60):
            engine = await EmbeddedEngine.open(None)
            answer, _ = await engine.answer(AskCluster())
            assert isinstance(answer, ClusterInfo)
            await engine.close()

    asyncio.run(story())
