"""The known set: messages that were acknowledged before the attacks and must be there after them.

1,000 messages in a topic and 200 in an SQS queue. They are read to the last one when the broker has
been killed and started again, so a set is checked once in the life of a data directory.
"""

import asyncio
import json
import time

from tests.abuse.hostile_batches import honest, values_of
from tests.abuse.kafka_wire import (
    Address,
    KafkaConnection,
    create_topic,
    fetch_frame,
    leader_of,
    produce,
)
from tests.abuse.streams import HttpConnection

TOPIC = "known"
PARTITIONS = 4
KAFKA_MESSAGES = 1_000
BATCH = 50
QUEUE = "known-sqs"
SQS_MESSAGES = 200
CHECK_SECONDS = 60.0
_RETRIABLE = (3, 5, 6, 7)
"""Of a topic that has just been made: not known everywhere, no leader, not the leader, too slow."""
_TROUBLE = (OSError, EOFError, ValueError, AssertionError, TimeoutError)


async def write_known_set(nodes: list[Address], http: Address) -> None:
    """Send everything, and return when all of it is acknowledged."""
    assert await create_topic(nodes[0], TOPIC, PARTITIONS) == 0, "the known topic was not made"
    for index in range(PARTITIONS):
        values = sorted(_kafka_values(index))
        connection = await _leader(nodes, index)
        for at in range(0, len(values), BATCH):
            connection = await _append(nodes, connection, index, values[at : at + BATCH])
        connection.close()
    sqs = await HttpConnection.open(http)
    url = (await sqs.sqs("CreateQueue", {"QueueName": QUEUE}))["QueueUrl"]
    bodies = sorted(_sqs_bodies())
    for at in range(0, len(bodies), 10):
        entries = [
            {"Id": str(number), "MessageBody": body}
            for number, body in enumerate(bodies[at : at + 10])
        ]
        done = await sqs.sqs("SendMessageBatch", {"QueueUrl": url, "Entries": entries})
        assert len(done["Successful"]) == len(entries), f"the known set was not taken: {done}"
    sqs.close()


async def _append(
    nodes: list[Address], connection: KafkaConnection, index: int, values: list[bytes]
) -> KafkaConnection:
    """Append until it is acknowledged; the connection that was used last."""
    deadline = time.monotonic() + CHECK_SECONDS
    while True:
        row = await produce(connection, TOPIC, index, honest(values))
        if row.error_code == 0:
            return connection
        again = row.error_code in _RETRIABLE and time.monotonic() < deadline
        assert again, f"the known set was not taken: error {row.error_code}"
        connection.close()
        await asyncio.sleep(0.1)
        connection = await _leader(nodes, index)


def _kafka_values(index: int) -> set[bytes]:
    each = KAFKA_MESSAGES // PARTITIONS
    return {f"known-{index}-{number:04}".encode() for number in range(each)}


def _sqs_bodies() -> set[str]:
    return {f"known-{number:04}" for number in range(SQS_MESSAGES)}


async def _leader(nodes: list[Address], index: int) -> KafkaConnection:
    deadline = time.monotonic() + CHECK_SECONDS
    while True:
        for node in nodes:
            try:
                async with asyncio.timeout(5.0):
                    leader = await leader_of(node, TOPIC, index)
                    if leader is not None:
                        return await KafkaConnection.open(leader)
            except _TROUBLE:
                continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"partition {index} of the known topic has no leader")
        await asyncio.sleep(0.1)


async def check_known_set(nodes: list[Address], http: Address) -> list[str]:
    """What is missing, in sentences; empty if all is there."""
    complaints = []
    for index in range(PARTITIONS):
        wanted = _kafka_values(index)
        try:
            found = await _read(nodes, index)
        except _TROUBLE as error:
            complaints.append(f"known set: partition {index} cannot be read: {error!r}")
            continue
        missing = wanted - found
        if missing:
            complaints.append(
                f"known set: {len(missing)} of {len(wanted)} messages of partition {index} are gone"
            )
    missing_sqs = await _receive_all(http)
    if missing_sqs:
        complaints.append(f"known set: {missing_sqs} of {SQS_MESSAGES} SQS messages are gone")
    return complaints


async def _read(nodes: list[Address], index: int) -> set[bytes]:
    found: set[bytes] = set()
    deadline = time.monotonic() + CHECK_SECONDS
    at = 0
    while at < KAFKA_MESSAGES // PARTITIONS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"read up to offset {at}")
        connection = await _leader(nodes, index)
        try:
            async with asyncio.timeout(10.0):
                connection.writer.write(fetch_frame(TOPIC, [(index, at)], bytes_max=1 << 20))
                answer = await connection.answer(1, 11)
        finally:
            connection.close()
        (part,) = answer.responses[0].partitions
        if part.error_code:
            await asyncio.sleep(0.1)
            continue
        values = values_of(bytes(part.records or b""))
        found.update(values)
        if not values:
            break  # The end of the log: what has not been found is gone.
        # Whole batches come back, and the first may begin before the offset.
        at = max(at + 1, at - at % BATCH + len(values))
    return found


async def _receive_all(http: Address) -> int:
    """How many messages of the queue are missing."""
    missing = _sqs_bodies()
    deadline = time.monotonic() + CHECK_SECONDS
    empty = 0
    while missing and empty < 3 and time.monotonic() < deadline:
        try:
            async with asyncio.timeout(30.0):
                sqs = await HttpConnection.open(http)
                try:
                    url = (await sqs.sqs("GetQueueUrl", {"QueueName": QUEUE}))["QueueUrl"]
                    got = await sqs.sqs(
                        "ReceiveMessage",
                        {
                            "QueueUrl": url,
                            "MaxNumberOfMessages": 10,
                            "VisibilityTimeout": 600,
                            "WaitTimeSeconds": 1,
                        },
                    )
                finally:
                    sqs.close()
        except (*_TROUBLE, json.JSONDecodeError):
            await asyncio.sleep(0.2)
            continue
        messages = got.get("Messages", ())
        empty = 0 if messages else empty + 1
        missing -= {message["Body"] for message in messages}
    return len(missing)
