"""aiokafka: each member has an event loop of its own, in a thread that never stops turning."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.interop_full.kinds import (
    HEARTBEAT_MS,
    POLL_MS,
    POLL_RECORDS_MAX,
    SESSION_TIMEOUT_MS,
    Record,
)

T = TypeVar("T")

IN_FLIGHT_MAX = 2_000
CHUNK_MESSAGES = 50
REQUEST_TIMEOUT_MS = 10_000
_ANSWER_WITHIN_SECONDS = 120.0


def send_all(bootstrap: str, topic: str, codec: str, messages: Iterable[tuple[int, bytes]]) -> int:
    return asyncio.run(_send_all(bootstrap, topic, codec, messages))


async def _send_all(
    bootstrap: str, topic: str, codec: str, messages: Iterable[tuple[int, bytes]]
) -> int:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap.split(","),
        enable_idempotence=True,
        acks="all",
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    await producer.start()
    acked = 0
    waiting: list[asyncio.Future[Any]] = []
    try:
        source = iter(messages)
        # Whoever makes the messages may take his time, and must not hold up the loop.
        while some := await asyncio.to_thread(lambda: list(islice(source, CHUNK_MESSAGES))):
            for partition, value in some:
                waiting.append(await producer.send(topic, value, partition=partition))
            if len(waiting) >= IN_FLIGHT_MAX:
                acked += len(await asyncio.gather(*waiting))
                waiting.clear()
        acked += len(await asyncio.gather(*waiting))
    finally:
        await producer.stop()
    return acked


class AioMember:
    """A member by `AIOKafkaConsumer`."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer = self._do(self._start(bootstrap, group, topic))

    def poll(self) -> list[Record]:
        async def read() -> list[Record]:
            got = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
            return [
                Record(message.partition, message.offset, message.value)
                for messages in got.values()
                for message in messages
            ]

        return self._do(read())

    def commit(self, positions: Mapping[int, int]) -> bool:
        wanted = {TopicPartition(self._topic, part): offset for part, offset in positions.items()}
        try:
            self._do(self._consumer.commit(wanted))
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        self._do(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self, bootstrap: str, group: str, topic: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap.split(","),
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        await consumer.start()
        return consumer

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_ANSWER_WITHIN_SECONDS)
