"""Penstock: a distributed message queue in Python.

    import asyncio
    import penstock

    async def main() -> None:
        async with penstock.connect("penstock://127.0.0.1:9092") as client:
            orders = client.queue("orders")
            await orders.send({"order": 7})
            for message in await orders.receive(10, wait=20):
                print(message.body)
                await message.ack()

    asyncio.run(main())

Where messages are kept:

    penstock://host:9092[,host:9092]   a broker or a cluster; `penstock dev` starts one here
    file:./data                        the same engine inside this process, durable, no server
    memory:                            the same without a disk, for tests

What to look at:

    connect(url) -> Client             everything begins here; help(penstock.Client)
    Client.queue(name) -> Queue        send, receive, consume, peek, stats, redrive
    Message                            body, key, headers; ack, release, reject, extend
    Client.topic(name) -> Topic        the same messages as a log: send, read, subscribe
    ClientSettings                     batching, compression, deadlines: defaults that suit most
    Guarantee, SqliteProcessed         at most once, at least once, exactly-once effect
    App                                functions as workers, retries, schedules: `penstock work`
    penstock.blocking                  the same client for programs without a loop
    penstock.patterns                  saga, outbox, request-reply, fan-out, event sourcing
    penstock.testing                   fixtures for pytest, a clock that is moved by hand

Durations are seconds. Every call has a deadline (30 s), within which it tries again by itself.
`Unavailable`: try later. `OutcomeUnknown`: it may have happened; send again with the same
`dedup_id`. Everything else that derives from `PenstockError` says what to change.
"""

from typing import TYPE_CHECKING

from penstock.core import errors
from penstock.core.version import __version__

if TYPE_CHECKING:
    from penstock import blocking
    from penstock.client.client import Client
    from penstock.client.codecs import JSON, Codec
    from penstock.client.consumer import Consumer
    from penstock.client.descriptions import (
        ClusterDescription,
        GroupSetting,
        QueueDescription,
        QueueStats,
        TopicDescription,
        TopicSummary,
    )
    from penstock.client.group_descriptions import GroupDescription, GroupSummary
    from penstock.client.guarantees import Guarantee
    from penstock.client.message import Message
    from penstock.client.peeked_message import PeekedMessage
    from penstock.client.processed_ids import DatabaseProcessed, ProcessedStore, SqliteProcessed
    from penstock.client.processed_store import Transaction
    from penstock.client.producer.compression import Compression
    from penstock.client.producer.outgoing_message import Outgoing
    from penstock.client.producer.partitioners import (
        HashPartitioner,
        Partitioner,
        RangePartitioner,
        RoundRobinPartitioner,
        StickyPartitioner,
    )
    from penstock.client.queue import Queue
    from penstock.client.record import Record
    from penstock.client.sent_message import Sent, SentMany
    from penstock.client.settings import Batching, ClientSettings
    from penstock.client.stage import Stage
    from penstock.client.staged_message import Publication, Staged
    from penstock.client.statistics import ClientStatistics
    from penstock.client.subscription import Subscription
    from penstock.client.topic import Topic
    from penstock.core.errors import (
        DeadlinePassed,
        InvalidBody,
        OutcomeUnknown,
        PenstockError,
        Unavailable,
    )
    from penstock.embedded.connector import connect
    from penstock.wire.trace_requests import TraceInfo
    from penstock.workers import (
        App,
        CircuitBreaker,
        NonRetryable,
        Pool,
        Reject,
        Retry,
        RetryLater,
        Scaling,
        worker,
    )
else:
    from penstock.core.public_names import load as __getattr__  # noqa: F401
    from penstock.core.public_names import names as __dir__  # noqa: F401

__all__ = [
    "App",
    "Batching",
    "CircuitBreaker",
    "Client",
    "ClientSettings",
    "ClientStatistics",
    "ClusterDescription",
    "Codec",
    "Compression",
    "Consumer",
    "DatabaseProcessed",
    "DeadlinePassed",
    "GroupDescription",
    "GroupSetting",
    "GroupSummary",
    "Guarantee",
    "HashPartitioner",
    "InvalidBody",
    "JSON",
    "Message",
    "NonRetryable",
    "OutcomeUnknown",
    "Outgoing",
    "Partitioner",
    "PeekedMessage",
    "PenstockError",
    "Pool",
    "ProcessedStore",
    "Publication",
    "Queue",
    "QueueDescription",
    "QueueStats",
    "RangePartitioner",
    "Record",
    "Reject",
    "Retry",
    "RetryLater",
    "RoundRobinPartitioner",
    "Scaling",
    "Sent",
    "SentMany",
    "SqliteProcessed",
    "Stage",
    "Staged",
    "StickyPartitioner",
    "Subscription",
    "Topic",
    "TopicDescription",
    "TopicSummary",
    "TraceInfo",
    "Transaction",
    "Unavailable",
    "__version__",
    "blocking",
    "connect",
    "errors",
    "worker",
]
