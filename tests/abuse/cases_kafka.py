"""Hostile requests of the Kafka protocol: small ones that ask for much, and large ones that say
nothing."""

import asyncio
import struct

from tests.abuse.hostile_batches import GZIP, TIME_MS, batch, gzip_bomb, record
from tests.abuse.kafka_wire import KafkaConnection, fetch_frame, frame, raw_frame, varint
from tests.abuse.registry import Broken, case
from tests.abuse.streams import pour, silent
from tests.abuse.target import MIB, Target

_FETCH_BYTES = 55 * MIB


async def _fetch_unread(target: Target, times: int, connections: int = 1) -> None:
    """Pipeline so many fetches of the largest answer, and read nothing for a while."""
    topic = await target.fat_topic()
    data = fetch_frame(topic, [(0, 0)], bytes_max=_FETCH_BYTES, times=times)
    async with silent(target.kafka, data, connections, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("kafka", "F1", alone=True)
async def m01_five_fetches_in_one_read(target: Target) -> None:
    """300 bytes of pipelined fetches ask for 275 MiB of answers that nobody reads."""
    await _fetch_unread(target, 5)


@case("kafka", "F1", alone=True)
async def m02_twenty_fetches_in_one_read(target: Target) -> None:
    """1.2 kB of pipelined fetches ask for 1.1 GiB."""
    await _fetch_unread(target, 20)


@case("kafka", "F1", alone=True)
async def m03_hundred_fetches_in_one_read(target: Target) -> None:
    """6 kB of pipelined fetches ask for 5.5 GiB."""
    await _fetch_unread(target, 100)


@case("kafka", "F1", alone=True)
async def m03b_seven_hundred_fetches_in_one_packet(target: Target) -> None:
    """One packet of 64 KiB, full of fetches of the largest answer."""
    await _fetch_unread(target, 700)


@case("kafka", "F1", alone=True)
async def m04_one_fetch_on_each_of_many_connections(target: Target) -> None:
    """200 connections ask for the largest answer once each, and read nothing."""
    await _fetch_unread(target, 1, connections=200)


@case("kafka", "F1", alone=True)
async def m05_fetches_whose_answers_are_read_slowly(target: Target) -> None:
    """20 connections pipeline ten fetches each, and read a kilobyte now and then."""
    topic = await target.fat_topic()
    data = fetch_frame(topic, [(0, 0)], bytes_max=_FETCH_BYTES, times=10)
    loop = asyncio.get_running_loop()
    async with silent(target.kafka, data, 20, receive_buffer=4096) as sockets:
        for _ in range(30):
            for one in sockets:
                try:
                    async with asyncio.timeout(0.05):
                        await loop.sock_recv(one, 1024)
                except (OSError, TimeoutError):
                    continue
            await asyncio.sleep(0.05)


@case("kafka", "F1")
async def m06_fetches_that_wait_are_pipelined(target: Target) -> None:
    """A thousand fetches that wait for bytes which never come, on one connection."""
    topic = await target.fat_topic()
    one = frame(
        1,
        11,
        {
            "max_wait": 3_000,
            "min_bytes": 1 << 30,
            "max_bytes": _FETCH_BYTES,
            "topics": [
                {
                    "topic": topic,
                    "partitions": [
                        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": _FETCH_BYTES}
                    ],
                }
            ],
        },
    )
    await pour(target.kafka, one * 1_000, seconds=4.0)


# Small requests that hold the loop.


def _with_body_tags(whole: bytes, tags: bytes) -> bytes:
    """A flexible request whose empty list of tags at the end is replaced."""
    assert whole.endswith(b"\0")
    body = whole[4:-1] + tags
    return struct.pack(">i", len(body)) + body


@case("kafka", "F5a", seconds=40)
async def k19b_one_known_tag_400000_times(target: Target) -> None:
    """A Fetch v12 of 1.2 MB that repeats the tagged field cluster_id."""
    tags = varint(400_000) + b"\0\1\0" * 400_000
    whole = frame(1, 12, {"max_wait": 0, "min_bytes": 0, "topics": []})
    await pour(target.kafka, _with_body_tags(whole, tags), seconds=35.0, quiet_seconds=10.0)


@case("kafka", "F5a")
async def k19c_unknown_tags_in_a_small_request(target: Target) -> None:
    """ApiVersions v3 with 20,000 tags that nobody knows."""
    tags = varint(20_000) + b"\x7f\0" * 20_000
    whole = frame(18, 3, {"client_software_name": "a", "client_software_version": "1"})
    await pour(target.kafka, _with_body_tags(whole, tags), seconds=5.0)


@case("kafka", "F5c", seconds=40)
async def k20_header_tags_of_24_mebibytes(target: Target) -> None:
    """The header of a Produce request has 12 million empty tags."""
    count = 12 * MIB
    data = raw_frame(0, 9, b"", tags=varint(count) + b"\x7f\0" * count)
    await pour(target.kafka, data, seconds=35.0, quiet_seconds=8.0)


@case("kafka", "F5c", seconds=40)
async def k47_one_partition_in_250000_rows(target: Target) -> None:
    """A Fetch v4 of 4 MB that names the same partition in every row."""
    await target.topic("rows", 1)
    rows = 250_000
    body = struct.pack(">iiiib", -1, 0, 0, MIB, 0) + struct.pack(">i", 1)
    body += struct.pack(">h", 4) + b"rows" + struct.pack(">i", rows)
    body += struct.pack(">iqi", 0, 0, MIB) * rows
    await pour(target.kafka, raw_frame(1, 4, body), seconds=35.0, quiet_seconds=10.0)


def _offset_rows(topic: str, time_ms: int, rows: int) -> bytes:
    """ListOffsets v1 with so many equal rows, 12 bytes each."""
    name = topic.encode()
    body = struct.pack(">ii", -1, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">i", rows) + struct.pack(">iq", 0, time_ms) * rows
    return raw_frame(2, 1, body)


async def packed_topic(target: Target, name: str = "packed") -> str:
    """A topic with one batch of 15 KB that opens to 15 MB."""
    if name not in target.notes:
        await target.topic(name, 1, {"message.timestamp.after.max.ms": str(1 << 62)})
        packed = _gzipped([record(bytes(1 << 20), number) for number in range(15)])
        code = await target.produce(name, 0, batch(packed, 15, codec=GZIP))
        if code:
            raise ValueError(f"the packed batch was not taken: error {code}")
        target.notes[name] = True
    return name


def _gzipped(rows: list[bytes]) -> bytes:
    import gzip

    return gzip.compress(b"".join(rows), 9, mtime=0)


@case("kafka", "F5b", seconds=40)
async def b14c_list_offsets_of_one_time_200_times(target: Target) -> None:
    """2.4 kB of ListOffsets: the same time of the same partition, whose batch must be opened."""
    topic = await packed_topic(target)
    await pour(target.kafka, _offset_rows(topic, TIME_MS, 200), seconds=35.0, quiet_seconds=10.0)


@case("kafka", "F5b", seconds=40)
async def b14d_list_offsets_of_400_times(target: Target) -> None:
    """The same with a different time in every row, so that no two rows are one question."""
    topic = await packed_topic(target)
    name = topic.encode()
    rows = b"".join(struct.pack(">iq", 0, TIME_MS - number) for number in range(400))
    body = struct.pack(">ii", -1, 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">i", 400) + rows
    await pour(target.kafka, raw_frame(2, 1, body), seconds=35.0, quiet_seconds=10.0)


@case("kafka", "F5b", seconds=40)
async def b14e_list_offsets_on_twenty_connections(target: Target) -> None:
    """ListOffsets of 50 rows on twenty connections at once."""
    topic = await packed_topic(target)
    data = _offset_rows(topic, TIME_MS, 50)
    await asyncio.gather(
        *(pour(target.kafka, data, seconds=30.0, quiet_seconds=10.0) for _ in range(20))
    )


async def hostile_rows(
    target: Target, key: int, version: int, rows: int, row: bytes, before: bytes, after: bytes
) -> None:
    """An array of equal rows, as long as may be."""
    body = before + struct.pack(">i", rows) + row * rows + after
    await pour(target.kafka, raw_frame(key, version, body), seconds=25.0, quiet_seconds=6.0)


@case("kafka", "F5")
async def k48_metadata_of_250000_unknown_topics(target: Target) -> None:
    """Metadata v4 without creation: 250,000 names that are not there."""
    await hostile_rows(target, 3, 4, 250_000, struct.pack(">h", 3) + b"non", b"", b"\0")


@case("kafka", "F5", seconds=40)
async def k49_metadata_creates_topics(target: Target) -> None:
    """Metadata v4 with creation: 3,000 names, each a topic with its partitions."""
    names = b"".join(struct.pack(">h", 8) + b"auto%04d" % number for number in range(3_000))
    body = struct.pack(">i", 3_000) + names + b"\1"
    await pour(target.kafka, raw_frame(3, 4, body), seconds=30.0, quiet_seconds=10.0)


@case("kafka", "F5")
async def k50_offset_fetch_of_250000_rows(target: Target) -> None:
    """OffsetFetch v5 that asks for one partition 250,000 times."""
    before = struct.pack(">h", 1) + b"g" + struct.pack(">i", 1) + struct.pack(">h", 5) + b"known"
    await hostile_rows(target, 9, 5, 250_000, struct.pack(">i", 0), before, b"")


@case("kafka", "F5")
async def k51_describe_groups_of_250000_names(target: Target) -> None:
    """DescribeGroups v0 of 250,000 groups that are not there."""
    await hostile_rows(target, 15, 0, 250_000, struct.pack(">h", 1) + b"g", b"", b"")


@case("kafka", "F5")
async def k52_delete_records_of_100000_rows(target: Target) -> None:
    """DeleteRecords v0 that names one partition 100,000 times."""
    await target.topic("rows", 1)
    before = struct.pack(">i", 1) + struct.pack(">h", 4) + b"rows"
    await hostile_rows(
        target, 21, 0, 100_000, struct.pack(">iq", 0, 0), before, struct.pack(">i", 1_000)
    )


@case("kafka", "F5")
async def k53_leader_epochs_of_250000_rows(target: Target) -> None:
    """OffsetForLeaderEpoch v2 that names one partition 250,000 times."""
    before = struct.pack(">i", 1) + struct.pack(">h", 5) + b"known"
    await hostile_rows(target, 23, 2, 250_000, struct.pack(">iii", 0, -1, 0), before, b"")


@case("kafka", "F5")
async def k54_describe_configs_of_20000_resources(target: Target) -> None:
    """DescribeConfigs v1 of one topic 20,000 times: some 60 configs each."""
    row = struct.pack(">bh", 2, 5) + b"known" + struct.pack(">i", -1)
    await hostile_rows(target, 32, 1, 20_000, row, b"", b"\1")


@case("kafka", "F5")
async def k55_offset_commit_of_100000_rows(target: Target) -> None:
    """OffsetCommit v5 that commits one partition 100,000 times in one request."""
    before = struct.pack(">h", 1) + b"g" + struct.pack(">i", -1) + struct.pack(">h", 0)
    before += struct.pack(">i", 1) + struct.pack(">h", 5) + b"known"
    await hostile_rows(target, 8, 5, 100_000, struct.pack(">iqh", 0, 0, -1), before, b"")


@case("kafka", "F5")
async def k56_produce_of_50000_rows_without_records(target: Target) -> None:
    """Produce v3 with 50,000 rows of one partition, each without records."""
    body = struct.pack(">hhi", -1, -1, 1_000) + struct.pack(">i", 1)
    body += struct.pack(">h", 5) + b"known" + struct.pack(">i", 50_000)
    body += struct.pack(">ii", 0, -1) * 50_000
    await pour(target.kafka, raw_frame(0, 3, body), seconds=25.0, quiet_seconds=6.0)


@case("kafka", "F5")
async def k57_find_coordinator_of_100000_keys(target: Target) -> None:
    """FindCoordinator v4 with 100,000 keys."""
    body = b"\0" + varint(100_001) + (varint(2) + b"g") * 100_000 + b"\0"
    await pour(target.kafka, raw_frame(10, 4, body), seconds=25.0, quiet_seconds=6.0)


@case("kafka", "F5")
async def k58_share_fetch_of_250000_rows(target: Target) -> None:
    """ShareFetch v1 whose session forgets 250,000 partitions."""
    body = varint(2) + b"g" + varint(2) + b"m" + struct.pack(">iiiiii", 0, 0, 0, MIB, 10, 10)
    body += varint(1)
    body += varint(2) + bytes(16) + varint(250_001) + struct.pack(">i", 0) * 250_000 + b"\0\0"
    await pour(target.kafka, raw_frame(78, 1, body), seconds=25.0, quiet_seconds=6.0)


@case("kafka", "F5d", alone=True, seconds=60)
async def s14_a_topic_of_100000_partitions(target: Target) -> None:
    """CreateTopics in 60 bytes: one topic with 100,000 partitions."""
    await _create(target, "huge", 100_000)


@case("kafka", "F5d", alone=True, seconds=90)
async def s18_a_large_topic_is_deleted(target: Target) -> None:
    """Create the largest topic that is allowed, then delete it."""
    for count in (100_000, 10_000, 2_000, 1_000):
        if await _create(target, "huge", count) == 0:
            break
    async with await KafkaConnection.open(target.kafka) as connection:
        await connection.call(20, 1, {"topic_names": ["huge"], "timeout": 30_000})


async def _create(target: Target, name: str, partitions: int) -> int:
    async with await KafkaConnection.open(target.kafka) as connection:
        answer = await connection.call(
            19,
            2,
            {
                "topics": [{"name": name, "num_partitions": partitions, "replication_factor": -1}],
                "timeout": 30_000,
            },
        )
        return int(answer.topics[0].error_code)


@case("kafka", "F5d", alone=True, seconds=60)
async def s15_partitions_are_added_up_to_100000(target: Target) -> None:
    """CreatePartitions: a topic of one partition shall have 100,000."""
    await target.topic("grows", 1)
    async with await KafkaConnection.open(target.kafka) as connection:
        await connection.call(
            37, 0, {"topics": [{"name": "grows", "count": 100_000}], "timeout": 30_000}
        )


@case("kafka", "F5d", alone=True, seconds=60)
async def s16_a_thousand_topics_in_one_request(target: Target) -> None:
    """CreateTopics of a thousand topics with ten partitions each."""
    rows = [
        {"name": f"many-{number}", "num_partitions": 10, "replication_factor": -1}
        for number in range(1_000)
    ]
    data = frame(19, 2, {"topics": rows, "timeout": 30_000})
    await pour(target.kafka, data, seconds=50.0, quiet_seconds=15.0)


@case("kafka", "F5d")
async def s17_a_topic_with_its_replicas_named(target: Target) -> None:
    """CreateTopics with 20,000 assignments of brokers that are not there."""
    rows = [{"partition_index": number, "broker_ids": [9, 9, 9]} for number in range(20_000)]
    topic = {
        "name": "placed",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": rows,
    }
    data = frame(19, 2, {"topics": [topic], "timeout": 5_000})
    await pour(target.kafka, data, seconds=10.0)


# Half requests.


@case("kafka", "F6", alone=True)
async def begun_requests_shut_nobody_out(target: Target) -> None:
    """135 connections send 8 bytes each: the beginning of a Produce of 99 MiB."""
    async with silent(target.kafka, struct.pack(">ihh", 99 * MIB, 0, 9), 135):
        await asyncio.sleep(5.0)


@case("kafka", "F6", alone=True)
async def begun_requests_grow_slowly(target: Target) -> None:
    """300 connections have begun a large Produce and send a byte now and then."""
    loop = asyncio.get_running_loop()
    async with silent(target.kafka, struct.pack(">ihh", 99 * MIB, 0, 9), 300) as sockets:
        for _ in range(10):
            for one in sockets:
                try:
                    async with asyncio.timeout(0.05):
                        await loop.sock_sendall(one, b"\0")
                except (OSError, TimeoutError):
                    continue
            await asyncio.sleep(0.3)


@case("kafka", "F6", alone=True)
async def begun_control_requests(target: Target) -> None:
    """400 connections send the beginning of a Metadata of 8 MiB."""
    async with silent(target.kafka, struct.pack(">ihh", 8 * MIB, 3, 9), 400):
        await asyncio.sleep(4.0)


@case("kafka", "F6", alone=True, seconds=40)
async def begun_requests_that_are_nearly_whole(target: Target) -> None:
    """20 connections send 15 MiB of a Produce each, and stop a byte before the end."""
    size = 15 * MIB
    data = struct.pack(">ihh", size, 0, 9) + bytes(size - 5)
    async with silent(target.kafka, data, 20):
        await asyncio.sleep(4.0)


@case("kafka", "F1")
async def answers_of_metadata_that_nobody_reads(target: Target) -> None:
    """A thousand Metadata requests for everything on each of 20 connections, unread."""
    await target.topic("wide", 200)
    data = frame(3, 1, {"topics": None}) * 1_000
    async with silent(target.kafka, data, 20, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("kafka", "F5")
async def versions_are_asked_200000_times(target: Target) -> None:
    """ApiVersions pipelined as fast as it goes, and read."""
    await pour(target.kafka, frame(18, 0, {}) * 2_000, times=20, seconds=8.0)


@case("kafka", "F14")
async def a_coordinator_with_a_key_of_32_kilobytes(target: Target) -> None:
    """FindCoordinator v1 with a key as long as a string may be: the answer repeats it."""
    name = b"k" * 32_767
    body = struct.pack(">h", len(name)) + name + b"\0"
    await pour(target.kafka, raw_frame(10, 1, body), seconds=5.0)


@case("kafka", "F14")
async def strings_as_long_as_may_be_in_every_place(target: Target) -> None:
    """Groups, topics, members and configs with names of 32 kB, whose refusals repeat them."""
    long = "n" * 32_767
    requests = [
        frame(8, 5, {"group_id": long, "member_id": long, "topics": []}),
        frame(11, 5, {"group_id": long, "member_id": long, "protocol_type": long}),
        frame(12, 0, {"group_id": long, "member_id": long}),
        frame(13, 0, {"group_id": long, "member_id": long}),
        frame(14, 0, {"group_id": long, "member_id": long}),
        frame(15, 0, {"groups": [long]}),
        frame(19, 2, {"topics": [{"name": long, "num_partitions": 1, "replication_factor": 1}]}),
        frame(20, 1, {"topic_names": [long]}),
        frame(32, 1, {"resources": [{"resource_type": 2, "resource_name": long}]}),
        frame(33, 0, {"resources": [{"resource_type": 2, "resource_name": long}]}),
        frame(42, 0, {"groups_names": [long]}),
        frame(10, 0, {"key": long}),
    ]
    for data in requests:
        await pour(target.kafka, data, seconds=3.0, quiet_seconds=0.3)


@case("kafka", "F15")
async def commits_with_numbers_at_their_ends(target: Target) -> None:
    """OffsetCommit with offsets, epochs and indexes at both ends of their ranges."""
    ends = [(1 << 63) - 1, -(1 << 63), -1, 0]
    for offset in ends:
        for index in ((1 << 31) - 1, -(1 << 31), -1, 0):
            rows = [{"partition_index": index, "committed_offset": offset}]
            data = frame(
                8,
                6,
                {
                    "group_id": "ends",
                    "member_id": "",
                    "topics": [{"name": "known", "partitions": rows}],
                },
            )
            await pour(target.kafka, data, seconds=3.0, quiet_seconds=0.1)


@case("kafka", "F14")
async def a_topic_is_not_named_like_a_path(target: Target) -> None:
    """Topics named ., .., ../../etc and with a NUL: none may be made."""
    for name in (".", "..", "../../etc/passwd", "a\0b", "a/b", "a\nb", "", "ä", "x" * 250):
        answer = 0
        async with await KafkaConnection.open(target.kafka) as connection:
            made = await connection.call(
                19,
                2,
                {
                    "topics": [{"name": name, "num_partitions": 1, "replication_factor": -1}],
                    "timeout": 5_000,
                },
            )
            answer = int(made.topics[0].error_code)
        if answer == 0:
            raise Broken(f"a topic was made under the name {name!r}")


@case("batches", "F5b", seconds=40)
async def b14f_a_bomb_in_a_search_for_a_time(target: Target) -> None:
    """ListOffsets by time of a batch that would open to a gibibyte."""
    await target.topic("bomb-time", 1, {"message.timestamp.after.max.ms": str(1 << 62)})
    await target.produce("bomb-time", 0, batch(gzip_bomb(1_024), 1, codec=GZIP))
    await pour(
        target.kafka, _offset_rows("bomb-time", TIME_MS, 20), seconds=30.0, quiet_seconds=6.0
    )
