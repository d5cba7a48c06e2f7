"""Kafka requests as bytes, sound and unsound, and a connection that sends them.

`frame` writes a request from the project's own schema table, with whatever values it is given.
`raw_frame` puts any body behind a sound header.
"""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.kafka.codec import Message, reader, write_varint, writer
from penstock.kafka.schema import Field, schema_of

Address = tuple[str, int]
CLIENT = b"abuse"


def frame(key: int, version: int, fields: Mapping[str, object], correlation: int = 1) -> bytes:
    """A request; fields that are missing, at any depth, take their defaults."""
    out = bytearray()
    whole = _complete(schema_of(key, "request").fields, version, fields)
    writer(key, "request", version)(whole, out)
    return raw_frame(key, version, bytes(out), correlation)


def _complete(
    fields: Sequence[Field], version: int, given: Mapping[str, object]
) -> dict[str, object]:
    whole: dict[str, object] = {}
    for field in fields:
        if not field.exists_in(version):
            continue
        value = given.get(field.name, field.neutral)
        if field.children and field.is_array and isinstance(value, list | tuple):
            value = [_complete(field.children, version, row) for row in value]
        elif field.children and isinstance(value, Mapping):
            value = _complete(field.children, version, value)
        elif field.children and not field.is_array and value is None and field.null is None:
            value = _complete(field.children, version, {})
        whole[field.name] = value
    return whole


def raw_frame(
    key: int,
    version: int,
    body: bytes,
    correlation: int = 1,
    *,
    client: bytes = CLIENT,
    tags: bytes = b"\0",
) -> bytes:
    """A length and a sound header with any body behind it."""
    head = struct.pack(">hhih", key, version, correlation, len(client)) + client
    if schema_of(key, "request").is_flexible_in(version):
        head += tags
    return struct.pack(">i", len(head) + len(body)) + head + body


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    write_varint(value, out)
    return bytes(out)


class KafkaConnection:
    """One connection that asks and waits."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams
        self._correlation = 0

    @classmethod
    async def open(cls, address: Address) -> "KafkaConnection":
        """Connect."""
        return cls(await asyncio.open_connection(*address, limit=1 << 20))

    async def call(self, key: int, version: int, fields: Mapping[str, object]) -> Message:
        """The answer to one request."""
        self._correlation += 1
        self.writer.write(frame(key, version, fields, self._correlation))
        return await self.answer(key, version)

    async def answer(self, key: int, version: int) -> Message:
        """The next answer, read as one to a request of this API."""
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        data = await self.reader.readexactly(length)
        flexible = schema_of(key, "response").is_flexible_in(version) and key != 18
        message: Message = reader(key, "response", version)(data, 5 if flexible else 4)[0]
        return message

    def close(self) -> None:
        """Abort it."""
        self.writer.transport.abort()

    async def __aenter__(self) -> "KafkaConnection":
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()


async def ask(address: Address, key: int, version: int, fields: Mapping[str, object]) -> Message:
    """One request on a connection of its own."""
    async with await KafkaConnection.open(address) as connection:
        return await connection.call(key, version, fields)


async def leader_of(address: Address, topic: str, index: int = 0) -> Address | None:
    """Where the leader of a partition is; None if there is none now."""
    answer = await ask(
        address, 3, 9, {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    )
    nodes = {node.node_id: (node.host, node.port) for node in answer.brokers}
    for row in answer.topics:
        for partition in row.partitions:
            if partition.partition_index == index and not partition.error_code:
                return nodes.get(partition.leader_id)
    return None


async def create_topic(
    address: Address, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> int:
    """Make a topic; the error code, 0 if it was made or had been."""
    answer = await ask(
        address,
        19,
        5,
        {
            "topics": [
                {
                    "name": name,
                    "num_partitions": partitions,
                    "replication_factor": -1,
                    "configs": [
                        {"name": key, "value": value} for key, value in (configs or {}).items()
                    ],
                }
            ],
            "timeout": 20_000,
        },
    )
    code = int(answer.topics[0].error_code)
    return 0 if code == 36 else code  # TOPIC_ALREADY_EXISTS


def produce_frame(topic: str, index: int, records: bytes, correlation: int = 1) -> bytes:
    """A Produce request with one batch, to be answered when it is safe."""
    return frame(
        0,
        9,
        {
            "acks": -1,
            "timeout": 20_000,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": index, "records": records}]}
            ],
        },
        correlation,
    )


async def produce(connection: KafkaConnection, topic: str, index: int, records: bytes) -> Any:
    """Append one batch; the partition's row of the answer."""
    connection.writer.write(produce_frame(topic, index, records))
    answer = await connection.answer(0, 9)
    return answer.responses[0].partition_responses[0]


def fetch_frame(
    topic: str, rows: Sequence[tuple[int, int]], *, bytes_max: int, wait_ms: int = 0, times: int = 1
) -> bytes:
    """Fetch v11 requests, `times` of them, of rows (index, offset)."""
    one = frame(
        1,
        11,
        {
            "max_wait": wait_ms,
            "min_bytes": 0,
            "max_bytes": bytes_max,
            "topics": [
                {
                    "topic": topic,
                    "partitions": [
                        {"partition": index, "fetch_offset": at, "partition_max_bytes": bytes_max}
                        for index, at in rows
                    ],
                }
            ],
        },
    )
    return one * times
