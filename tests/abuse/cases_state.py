"""State that clients leave behind: offsets, members, producers, leases. It may be refused; what is
taken must be bounded, must survive a restart, and must not make the broker slow.

A case that is given the state it asks for leaves it behind in memory, `kept_mib`: offsets, their
metadata and assignments up to the budget of their shards, message groups and deduplication ids.
Each bar is what the case was seen to leave, and a quarter more. All others come back to 64 MiB.
"""

import asyncio
import contextlib
import json

from crc32c import crc32c

from penstock.core.message import NewMessage
from penstock.wire.cumulative_ack_requests import BeginWork
from penstock.wire.frames import greet
from penstock.wire.group_requests import JoinGroup
from penstock.wire.requests import CreateTopic, ReceiveRequest, Send, Settle
from tests.abuse.hostile_batches import batch, honest, record
from tests.abuse.kafka_wire import KafkaConnection, frame, produce_frame
from tests.abuse.registry import Broken, case
from tests.abuse.streams import http, pour
from tests.abuse.target import MIB, Target, native_call, native_frame

_SHARDS = 2
_LATE = {"message.timestamp.after.max.ms": str(1 << 62)}


async def _commit_much(target: Target, megabytes: int, *, one_shard: bool) -> int:
    """Commit offsets with metadata as long as may be, for one group after the other, until so much
    was sent; how many requests were refused."""
    partitions, metadata = 50, "m" * 4_000
    await target.topic("offsets", partitions)
    rows = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": metadata}
        for index in range(partitions)
    ]
    refused = sent = number = 0
    async with await KafkaConnection.open(target.kafka) as connection:
        while sent < megabytes * MIB:
            number += 1
            group = f"group-{number}"
            if one_shard and crc32c(group.encode()) % _SHARDS:
                continue
            answer = await connection.call(
                8,
                6,
                {
                    "group_id": group,
                    "member_id": "",
                    "topics": [{"name": "offsets", "partitions": rows}],
                },
            )
            sent += partitions * len(metadata)
            refused += any(one.error_code for one in answer.topics[0].partitions)
            if refused > 20:
                break
    return refused


@case("state", "F2", alone=True, seconds=180, kept_mib=128)
async def state_snapshot_of_1_3_gigabytes(target: Target) -> None:
    """1.3 GB of offset metadata to one shard: beyond some bound it is refused with an error, and
    the shard goes on."""
    refused = await _commit_much(target, 1_300, one_shard=True)
    if not refused:
        raise Broken("1.3 GB of metadata were taken")


@case("state", "F10", alone=True, seconds=90, kept_mib=256)
async def s02_400_megabytes_of_commits(target: Target) -> None:
    """400 MB of offset metadata, over all shards."""
    await _commit_much(target, 400, one_shard=False)


@case("state", "F10", alone=True, seconds=60)
async def s11_150_joins_with_4_megabytes(target: Target) -> None:
    """150 members of 150 groups, each with as much about itself as may be."""
    data = b"x" * (MIB - 100)
    rows = [{"name": "range", "metadata": data}]

    async def join(number: int) -> None:
        async with await KafkaConnection.open(target.kafka) as connection:
            fields = {
                "group_id": f"joined-{number}",
                "member_id": "",
                "session_timeout": 60_000,
                "rebalance_timeout": 60_000,
                "protocol_type": "consumer",
                "protocols": rows,
            }
            for _ in range(4):
                answer = await connection.call(11, 2, fields)
                fields["member_id"] = answer.member_id or ""

    for begun in range(0, 150, 10):
        await asyncio.gather(*(join(begun + more) for more in range(10)), return_exceptions=True)


@case("state", "F10", alone=True, seconds=60)
async def s11b_native_joins_with_a_megabyte(target: Target) -> None:
    """The same by the native protocol: 300 groups, a megabyte of protocols each."""
    for number in range(300):
        request = JoinGroup(
            f"native-{number}", "", None, "abuse", 60_000, 60_000, (("range", b"x" * MIB),)
        )
        await native_call(target.kafka, request)


@case("state", "F10", alone=True, seconds=60, kept_mib=288)
async def s12_an_assignment_of_16_megabytes(target: Target) -> None:
    """A leader of a group hands out 16 MB, again and again."""
    async with await KafkaConnection.open(target.kafka) as connection:
        for number in range(20):
            fields: dict[str, object] = {
                "group_id": f"assigned-{number}",
                "member_id": "",
                "session_timeout": 60_000,
                "rebalance_timeout": 60_000,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"m"}],
            }
            joined = await connection.call(11, 2, fields)
            await connection.call(
                14,
                2,
                {
                    "group_id": f"assigned-{number}",
                    "generation_id": joined.generation_id,
                    "member_id": joined.member_id,
                    "assignments": [
                        {"member_id": joined.member_id, "assignment": b"a" * (7 * MIB)}
                    ],
                },
            )


@case("state", "F10", seconds=40)
async def s03_50000_producer_ids(target: Target) -> None:
    """InitProducerId 50,000 times, pipelined."""
    data = frame(22, 1, {"transactional_id": None, "transaction_timeout": 1_000}) * 1_000
    await pour(target.kafka, data, times=50, seconds=30.0, quiet_seconds=2.0)


@case("state", "F10", seconds=40)
async def s04_10000_producers_write_once(target: Target) -> None:
    """10,000 producer ids append one batch each to one partition."""
    await target.topic("producers", 1)
    data = bytearray()
    for number in range(10_000):
        made = batch(record(b"x"), 1, producer=(1_000_000 + number, 0, 0))
        data += produce_frame("producers", 0, made)
    await pour(target.kafka, bytes(data), seconds=30.0, quiet_seconds=4.0)


@case("state", "F10", seconds=40)
async def s05_work_groups_of_one_queue(target: Target) -> None:
    """3,000 work groups begin on one queue."""
    await target.topic("worked", 1)
    data = greet() + b"".join(
        native_frame(BeginWork("worked", f"work-{number}", -1), number) for number in range(3_000)
    )
    await pour(target.kafka, data, seconds=30.0, quiet_seconds=4.0)


@case("state", "F10", seconds=60)
async def s06_leases_with_gaps(target: Target) -> None:
    """20,000 messages are leased, and every other one is acked: each is a run of its own."""
    info = await target.topic("gaps", 1)
    await native_call(target.kafka, BeginWork("gaps", "default", -2))
    for _ in range(20):
        await target.produce("gaps", 0, honest([b"x"] * 1_000))
    for _ in range(4):
        taken, _ = await native_call(
            target.kafka,
            ReceiveRequest(info.topic_id, "default", 10_000, 16 * MIB, lease_ms=600_000),
        )
        for part in getattr(taken, "parts", ()):
            rows = tuple(
                (at, at + 1, part.epoch, 0, -1, "")
                for first, end, *_ in part.runs
                for at in range(first, end, 2)
            )
            await native_call(target.kafka, Settle(info.topic_id, 0, "default", rows[:10_000]))


@case("state", "F10", seconds=60, kept_mib=160)
async def s07_50000_message_groups(target: Target) -> None:
    """A FIFO queue with 50,000 message groups of one message."""
    info = await target.topic("lines", 1, {"queue.order": "fifo"})
    await native_call(target.kafka, BeginWork("lines", "default", -2))
    for begun in range(0, 50_000, 5_000):
        rows = tuple(NewMessage(b"x", key=b"g%d" % (begun + number)) for number in range(5_000))
        await native_call(target.kafka, Send(info.topic_id, 0, rows))
    await native_call(target.kafka, ReceiveRequest(info.topic_id, "default", 1_000, MIB))


@case("state", "F10", seconds=60, kept_mib=160)
async def s08_200000_deduplication_ids(target: Target) -> None:
    """A queue that remembers ids gets 200,000 of them."""
    rules = {"queue.deduplication": "content", "queue.deduplication.window.ms": "604800000"}
    info = await target.topic("ids", 1, rules)
    for begun in range(0, 200_000, 5_000):
        rows = tuple(NewMessage(b"%d" % (begun + number)) for number in range(5_000))
        await native_call(target.kafka, Send(info.topic_id, 0, rows))


@case("state", "F10", seconds=60)
async def s09_rejections_with_long_reasons(target: Target) -> None:
    """5,000 messages are rejected, each with a reason of a thousand characters."""
    info = await target.topic("reasons", 1, {"queue.dead.letter.policy": "archive"})
    await native_call(target.kafka, BeginWork("reasons", "default", -2))
    await target.produce("reasons", 0, honest([b"x"] * 5_000))
    taken, _ = await native_call(
        target.kafka, ReceiveRequest(info.topic_id, "default", 5_000, 16 * MIB, lease_ms=60_000)
    )
    for part in getattr(taken, "parts", ()):
        rows = tuple(
            (at, at + 1, part.epoch, 2, -1, "r" * 1_000)
            for first, end, *_ in part.runs
            for at in range(first, end)
        )
        for begun in range(0, len(rows), 500):
            await native_call(
                target.kafka, Settle(info.topic_id, 0, "default", rows[begun : begun + 500])
            )


@case("state", "F10", seconds=60)
async def s10_topics_with_configs_as_long_as_may_be(target: Target) -> None:
    """500 topics, each with 16 kB of configs."""
    configs = {"queue.sqs": json.dumps({"tags": {"k": "v" * 15_000}})}
    for number in range(500):
        await native_call(target.kafka, CreateTopic(f"configured-{number}", 1, configs))


@case("state", "F10", seconds=40)
async def s13_group_configs_and_share_groups(target: Target) -> None:
    """500 share groups with 50 members that heartbeat once."""
    data = bytearray()
    for number in range(500):
        for member in range(50):
            fields = {
                "group_id": f"share-{number}",
                "member_id": f"member-{member}-{'x' * 20}",
                "member_epoch": 0,
                "subscribed_topic_names": ["known", "steady"],
            }
            data += frame(76, 1, fields)
    await pour(target.kafka, bytes(data), seconds=30.0, quiet_seconds=3.0)


@case("state", "F10", seconds=40)
async def s17b_events_and_audit_lines(target: Target) -> None:
    """500 audited orders by HTTP, with long names."""
    for number in range(50):
        name = f"{'audited' * 10}-{number}"
        rows = [
            http(
                target.http,
                "POST",
                f"/v1/queues/{name}/purge",
                b"{}",
                {"content-type": "application/json"},
            )
            for _ in range(10)
        ]
        await asyncio.gather(*rows)


@case("state", "F2")
async def s19_offsets_of_topics_that_come_and_go(target: Target) -> None:
    """Offsets are committed for a topic that is deleted and made anew, twenty times."""
    async with await KafkaConnection.open(target.kafka) as connection:
        for _ in range(20):
            await target.topic("comes", 1)
            row = [{"partition_index": 0, "committed_offset": 5}]
            fields = {
                "group_id": "follows",
                "member_id": "",
                "topics": [{"name": "comes", "partitions": row}],
            }
            await connection.call(8, 6, fields)
            await connection.call(20, 1, {"topic_names": ["comes"], "timeout": 10_000})
            with contextlib.suppress(AssertionError):
                await target.info("comes")
