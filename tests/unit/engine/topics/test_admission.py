"""`engine.topics.admission`: batches are checked before they are stored, in the order they came."""

import asyncio
import gzip
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from penstock.core import compression
from penstock.core.errors import CorruptBatch, InvalidBatch, Overloaded, Unavailable
from penstock.core.limits import HEADER_BATCH_RECORDS_MAX, QUEUE_BATCH_RECORDS_MAX
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.types import Offset
from penstock.engine.topics import admission
from penstock.engine.topics.topics import Acks
from tests.batches import TODAY_MS, build_batch, with_bytes
from tests.unit.engine.nodes import Nodes

pytestmark = pytest.mark.slow

PACKED = 3  # lz4
WRONG = with_bytes(build_batch(400, value=bytes(100), compression=1), 200, b"wrong")


def large(count: int) -> bytearray:
    """A batch that is checked in a thread."""
    return build_batch(count, value=Random(count).randbytes(9_000), compression=PACKED)


def test_small_batches_wait_behind_one_that_is_in_the_thread(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 2, {})
        sent = []
        for _ in range(5):
            sent += [topics.produce(topic, 0, build_batch(1), Acks.ALL)]
            sent += [topics.produce(topic, 0, large(3), Acks.ALL)]
        assert not sent[2].done()
        other = topics.produce(topic, 1, build_batch(1), Acks.ALL)
        assert (await other).base_offset == 0
        bases = [(await one).base_offset for one in sent]
        assert bases == [0, 1, 4, 5, 8, 9, 12, 13, 16, 17]
        await nodes.stop()

    asyncio.run(story())


def test_what_is_refused_in_the_thread_holds_nothing_up(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 1, {})
        refused = topics.produce(topic, 0, bytearray(WRONG), Acks.ALL)
        gone = topics.produce(topic, 0, large(2), Acks.ALL)
        gone.cancel()
        stored = topics.produce(topic, 0, build_batch(2), Acks.ALL)
        with pytest.raises(InvalidBatch):
            await refused
        assert (await stored).base_offset == 2, "who goes away has sent all the same"
        damaged = large(2)
        damaged[-1] ^= 1
        with pytest.raises(CorruptBatch):
            await topics.produce(topic, 0, damaged, Acks.ALL)
        assert topics.bounds(topic, 0) == (0, 4)
        await nodes.stop()

    asyncio.run(story())


def test_what_waits_is_bounded_and_is_refused_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 1, {})
        first = topics.produce(topic, 0, large(2), Acks.ALL)
        monkeypatch.setattr(admission, "CHECKS_WAITING_BYTES_MAX", len(large(2)) + 10)
        with pytest.raises(Overloaded, match="wait to be checked"):
            await topics.produce(topic, 0, build_batch(1), Acks.ALL)
        assert (await first).base_offset == 0
        assert (await topics.produce(topic, 0, large(2), Acks.ALL)).base_offset == 2
        left = topics.produce(topic, 0, large(2), Acks.ALL)
        topics.close()
        with pytest.raises(Unavailable):
            await left
        with pytest.raises(Unavailable):
            await topics.produce(topic, 0, large(2), Acks.ALL)
        await nodes.stop()

    asyncio.run(story())


def test_a_budget_of_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 1, {"max.message.bytes": "4000000"})
        random = Random(1)
        sizes = [random.randrange(200) for _ in range(2_000)]
        batch = build_messages([NewMessage(bytes(size)) for size in sizes], TODAY_MS)
        monkeypatch.setattr(admission, "CHECK_MS_MAX", -1)
        with pytest.raises(InvalidBatch, match="ms to check"):
            await topics.produce(topic, 0, batch, Acks.ALL)
        assert topics.bounds(topic, 0) == (Offset(0), Offset(0))
        await nodes.stop()

    asyncio.run(story())


def test_a_bomb_of_empty_members_takes_no_time(tmp_path: Path) -> None:
    """3 MiB of them kept every replica busy for ten seconds and more."""

    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        configs = {"queue.order": "fifo", "max.message.bytes": "4000000"}
        topic = await topics.create_topic("orders.fifo", 1, configs)
        batch = build_batch(1)[:61] + gzip.compress(b"", mtime=0) * 157_000
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        bomb = with_bytes(batch, 21, (1).to_bytes(2, "big"))
        with pytest.raises(InvalidBatch, match="more than 20000 members of gzip"):
            await topics.produce(topic, 0, bomb, Acks.ALL)
        await nodes.stop()

    asyncio.run(story())


BOMB_BYTES = 16 << 20


def bomb() -> bytes:
    """A batch that unpacks to 16 MiB, and is refused."""
    batch = build_batch(1)[:61] + gzip.compress(bytes(BOMB_BYTES), mtime=0)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return bytes(with_bytes(batch, 21, (1).to_bytes(2, "big")))


@pytest.fixture
def traced() -> Iterator[None]:
    """Memory is counted."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("staged", [False, True])
def test_one_batch_at_a_time_is_unpacked(tmp_path: Path, staged: bool) -> None:
    """A refusal held the unpacked records by its traceback, until the garbage was collected."""

    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders.fifo", 1, {"queue.order": "fifo"})
        one = bomb()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        refused = await asyncio.gather(
            *(
                topics.admission.check(topic.settings, bytearray(one))
                if staged
                else topics.produce(topic, 0, bytearray(one), Acks.ALL)
                for _ in range(12)
            ),
            return_exceptions=True,
        )
        assert [type(answer) for answer in refused] == [InvalidBatch] * 12
        now, peak = tracemalloc.get_traced_memory()
        assert now - before < BOMB_BYTES
        assert peak - before < 3 * BOMB_BYTES
        await nodes.stop()

    asyncio.run(story())


def test_a_check_ends_with_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Event(), threading.Event()

    def decompress(packed: memoryview, codec: int, parts_max: int) -> bytes:
        began.set()
        go_on.wait()
        return compression.decompress(packed, codec, parts_max)

    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 1, {})
        monkeypatch.setattr(admission, "decompress", decompress)
        checks = [
            asyncio.ensure_future(topics.admission.check(topic.settings, bytearray(bomb())))
            for _ in range(3)
        ]
        await asyncio.to_thread(began.wait)
        topics.admission.close()
        go_on.set()
        ends = await asyncio.gather(*checks, return_exceptions=True)
        assert [type(end) for end in ends] == [InvalidBatch, Unavailable, Unavailable]
        with pytest.raises(Unavailable):
            await topics.admission.check(topic.settings, bytearray(bomb()))
        await nodes.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("configs", "most"),
    [
        ({"queue.order": "fifo"}, QUEUE_BATCH_RECORDS_MAX),
        ({"queue.deduplication": "id"}, QUEUE_BATCH_RECORDS_MAX),
        ({"queue.message.headers": "true"}, HEADER_BATCH_RECORDS_MAX),
    ],
)
def test_a_queue_that_looks_at_messages_takes_so_many_at_once(
    tmp_path: Path, configs: dict[str, str], most: int
) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        topics = nodes[1].topics
        topic = await topics.create_topic("orders", 1, configs)
        with pytest.raises(InvalidBatch, match=f"{most} at most: send smaller batches"):
            await topics.produce(topic, 0, build_batch(most + 1, compression=1), Acks.ALL)
        fits = build_batch(most, compression=1)
        assert (await topics.produce(topic, 0, fits, Acks.ALL)).base_offset == 0
        plain = await topics.create_topic("plain", 1, {})
        above = build_batch(most + 1, compression=1)
        assert (await topics.produce(plain, 0, above, Acks.ALL)).base_offset == 0
        await nodes.stop()

    asyncio.run(story())
