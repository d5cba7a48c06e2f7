"""Hostile requests of the native protocol."""

import asyncio
import contextlib

import msgspec

from penstock.core.message import NewMessage
from penstock.wire.cumulative_ack_requests import BeginWork
from penstock.wire.frames import PREFIX, Kind, greet, write_prefix
from penstock.wire.read_requests import AskOffset, AskOffsets, Fetch, FetchPart
from penstock.wire.requests import (
    AskTopics,
    Browse,
    CreateTopic,
    ReceiveRequest,
    Send,
)
from tests.abuse.cases_kafka import packed_topic
from tests.abuse.hostile_batches import TIME_MS
from tests.abuse.registry import Broken, case
from tests.abuse.streams import pour, silent
from tests.abuse.target import MIB, Target, native_call, native_frame


@case("native", "F1", alone=True)
async def n34_a_thousand_fetches_in_one_read(target: Target) -> None:
    """A thousand native fetches of 16 MiB each in 60 kB, none of which is read."""
    info = await target.info(await target.fat_topic())
    one = Fetch((FetchPart(info.topic_id, 0, 0),), 16 * MIB)
    data = greet() + b"".join(native_frame(one, number) for number in range(1_000))
    async with silent(target.kafka, data, 1, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("native", "F1", alone=True)
async def n34b_a_thousand_receives_in_one_read(target: Target) -> None:
    """A thousand receives of a megabyte each from a queue with large messages, unread."""
    info = await target.info(await target.fat_topic())
    await native_call(target.kafka, BeginWork("fat", "default", -2))
    one = ReceiveRequest(info.topic_id, "default", 10_000, 16 * MIB, lease_ms=1_000)
    data = greet() + b"".join(native_frame(one, number) for number in range(1_000))
    async with silent(target.kafka, data, 1, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("native", "F1", alone=True)
async def n35_fetches_of_a_thousand_rows(target: Target) -> None:
    """Fifty fetches that name one partition a thousand times."""
    info = await target.info(await target.fat_topic())
    one = Fetch((FetchPart(info.topic_id, 0, 0),) * 1_000, 16 * MIB)
    data = greet() + b"".join(native_frame(one, number) for number in range(50))
    async with silent(target.kafka, data, 1, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("native", "F5f", alone=True, seconds=40)
async def n30_a_head_of_15_megabytes(target: Target) -> None:
    """A settlement request of 15 MB: two million small arrays."""
    row = msgspec.msgpack.encode([0, 1, 1, 0, 0, ""])
    await _large_head(target, 15 * MIB, row)


@case("native", "F5f", alone=True, seconds=60)
async def n32_a_head_of_99_megabytes(target: Target) -> None:
    """The same as large as a frame may be."""
    row = msgspec.msgpack.encode([0, 1, 1, 0, 0, ""])
    await _large_head(target, 99 * MIB, row)


@case("native", "F5f", alone=True, seconds=40)
async def n31_many_messages_of_nothing(target: Target) -> None:
    """A send of a million messages without a byte in them."""
    info = await target.topic("empty", 1)
    row = msgspec.msgpack.encode(NewMessage(b""))
    count = 4 * MIB // len(row)
    head = b"\x94\xa4send" + msgspec.msgpack.encode(info.topic_id) + b"\0"
    head += b"\xdd" + count.to_bytes(4, "big") + row * count
    await pour(target.kafka, greet() + native_frame(head, 1), seconds=30.0, quiet_seconds=8.0)


async def _large_head(target: Target, size: int, row: bytes) -> None:
    info = await target.topic("settled", 1)
    count = size // len(row)
    head = b"\x95\xa6settle" + msgspec.msgpack.encode(info.topic_id) + b"\0"
    head += msgspec.msgpack.encode("default")
    head += b"\xdd" + count.to_bytes(4, "big") + row * count
    await pour(target.kafka, greet() + native_frame(head, 1), seconds=50.0, quiet_seconds=15.0)


@case("native", "F7", alone=True, seconds=40)
async def n33_thirty_unfinished_frames(target: Target) -> None:
    """30 connections send 40 MiB of a frame of 99 MiB each."""
    prefix = write_prefix(Kind.REQUEST, 1, 100, 99 * MIB - 200)
    async with silent(target.kafka, greet() + prefix + bytes(40 * MIB), 30):
        await asyncio.sleep(3.0)


@case("native", "F7", alone=True)
async def n33b_unfinished_frames_of_few_bytes(target: Target) -> None:
    """500 connections have sent the first bytes of a frame of 99 MiB."""
    prefix = write_prefix(Kind.REQUEST, 1, 100, 99 * MIB - 200)
    async with silent(target.kafka, greet() + prefix + bytes(64), 500):
        await asyncio.sleep(3.0)


@case("native", "F7", flags=("--limits.connection-idle", "2s"), seconds=30)
async def c13_a_native_client_that_says_nothing(target: Target) -> None:
    """A native connection that is silent for longer than limits.connection_idle is closed."""
    reader, writer = await asyncio.open_connection(*target.kafka)
    writer.write(greet())
    await reader.readexactly(len(greet()))
    try:
        async with asyncio.timeout(15.0):
            await reader.read()
    except TimeoutError:
        raise Broken("it is open 15 s after its greeting, with a bound of 2 s") from None
    except OSError:
        return
    finally:
        writer.transport.abort()


@case("native", "F13", seconds=20)
async def n36_garbage_on_3000_connections(target: Target) -> None:
    """3,000 connections, each ended by a frame that is none: how many lines does it log?"""
    data = greet() + b"\xff" * 32
    for _ in range(30):
        await asyncio.gather(
            *(pour(target.kafka, data, seconds=2.0, quiet_seconds=0.2) for _ in range(100))
        )


@case("native", "F14")
async def n37_a_timestamp_above_63_bits(target: Target) -> None:
    """A send whose message is from the year 292 million, and later."""
    info = await target.topic("times", 1)
    for time in ((1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63), -2):
        with contextlib.suppress(OverflowError):
            request = Send(info.topic_id, 0, (NewMessage(b"x", timestamp_ms=time),))
            await native_call(target.kafka, request)


@case("native", "F14")
async def n38_numbers_at_their_ends(target: Target) -> None:
    """Receive, fetch, browse and offsets with indexes and sizes at both ends of 64 bits."""
    info = await target.topic("ends", 1)
    ends = ((1 << 63) - 1, (1 << 64) - 1, -(1 << 63), -1, 1 << 31, 0)
    data = greet()
    for number, end in enumerate(ends):
        requests = (
            ReceiveRequest(info.topic_id, "default", end, end, lease_ms=end),
            Fetch((FetchPart(info.topic_id, end, end),), end),
            AskOffsets((AskOffset(info.topic_id, 0, end),)),
            Browse("ends", "default", end, end, ("ready",), end),
        )
        for at, request in enumerate(requests):
            data += native_frame(request, number * 10 + at)
    await pour(target.kafka, data, seconds=4.0)


@case("native", "F5b", seconds=40)
async def n39_offsets_of_a_thousand_times(target: Target) -> None:
    """AskOffsets: a thousand rows of times in a batch that must be opened."""
    info = await target.info(await packed_topic(target))
    rows = tuple(AskOffset(info.topic_id, 0, TIME_MS - number % 3) for number in range(1_000))
    data = greet() + native_frame(AskOffsets(rows), 1)
    await pour(target.kafka, data, seconds=30.0, quiet_seconds=8.0)


@case("native", "F5d", alone=True, seconds=60)
async def n40_a_topic_of_100000_partitions(target: Target) -> None:
    """CreateTopic of the native protocol with 100,000 partitions."""
    await native_call(target.kafka, CreateTopic("huge-native", 100_000, {}))


@case("native", "F5")
async def n41_lists_of_topics_are_pipelined(target: Target) -> None:
    """5,000 requests for the list of topics, unread."""
    data = greet() + b"".join(native_frame(AskTopics(), number) for number in range(5_000))
    async with silent(target.kafka, data, 3, receive_buffer=4096):
        await asyncio.sleep(1.0)


@case("native", "F7")
async def n42_receives_that_wait_on_100_connections(target: Target) -> None:
    """100 connections wait for messages of a queue that has none, and then hang up together."""
    info = await target.topic("nothing", 1)
    await native_call(target.kafka, BeginWork("nothing", "default", -2))
    one = ReceiveRequest(info.topic_id, "default", 10, MIB, wait_ms=20_000)
    data = greet() + b"".join(native_frame(one, number) for number in range(10))
    async with silent(target.kafka, data, 100):
        await asyncio.sleep(1.0)


@case("native", "F7")
async def n43_withdrawals_overtake_requests(target: Target) -> None:
    """Each of 2,000 receives is withdrawn in the same packet."""
    info = await target.topic("nothing", 1)
    one = ReceiveRequest(info.topic_id, "default", 10, MIB, wait_ms=20_000)
    pairs = (
        native_frame(one, number) + PREFIX.pack(PREFIX.size - 4, int(Kind.WITHDRAWAL), number, 0)
        for number in range(2_000)
    )
    await pour(target.kafka, greet() + b"".join(pairs), seconds=5.0)


@case("native", "F5e", alone=True, seconds=90)
async def takes_of_a_queue_of_20000_partitions(target: Target) -> None:
    """A queue with 20,000 partitions is made and received from; the good client goes on beside."""
    for count in (20_000, 10_000, 2_000, 1_000):
        made, _ = await native_call(target.kafka, CreateTopic("broad", count, {}))
        if made is not None:
            break
    info = await target.info("broad")
    await native_call(target.kafka, BeginWork("broad", "default", -2))
    one = ReceiveRequest(info.topic_id, "default", 100, MIB, wait_ms=500)
    for _ in range(10):
        await native_call(target.kafka, one)
