"""Penstock: a distributed message queue in Python.

    import penstock

    async with penstock.connect("penstock://127.0.0.1:9092") as client:
        await client.send("orders", {"id": 7})
        for message in await client.receive("orders", wait=20):
            print(message.body)
            await message.ack()

`connect` takes the address of a broker or cluster, `file:./data` for a whole engine inside this
process, or `memory:` for one that forgets. `penstock.blocking.connect` is the same without a loop.

    Client          queues, topics, groups, the cluster; one for a program
    Queue           send, receive, ack, release, reject, extend, peek, consume
    Topic           send, read
    Subscription    a log, read alone or by a consumer group
    Message         a leased message of a queue; `Record` is one of a log
    Guarantee       at most once, at least once, exactly once

What goes wrong is a `PenstockError`; `penstock.errors` has the tree.
"""

from penstock.client.client import Client
from penstock.client.codecs import JSON, Codec
from penstock.client.compression import Compression
from penstock.client.consumer import Consumer
from penstock.client.descriptions import (
    ClusterDescription,
    QueueDescription,
    QueueStats,
    TopicDescription,
    TopicSummary,
)
from penstock.client.guarantees import Guarantee
from penstock.client.message import Message
from penstock.client.outgoing import Outgoing
from penstock.client.partitioners import (
    HashPartitioner,
    Partitioner,
    RangePartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from penstock.client.peeked import PeekedMessage
from penstock.client.queue import Queue
from penstock.client.record import Record
from penstock.client.sent import Sent, SentMany
from penstock.client.settings import Batching, ClientSettings
from penstock.client.statistics import ClientStatistics
from penstock.client.subscription import Subscription
from penstock.client.topic import Topic
from penstock.core import errors
from penstock.core.errors import (
    DeadlinePassed,
    InvalidBody,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.core.version import __version__
from penstock.embedded.connecting import connect

__all__ = [
    "Batching",
    "Client",
    "ClientSettings",
    "ClientStatistics",
    "ClusterDescription",
    "Codec",
    "Compression",
    "Consumer",
    "DeadlinePassed",
    "Guarantee",
    "HashPartitioner",
    "InvalidBody",
    "JSON",
    "Message",
    "OutcomeUnknown",
    "Outgoing",
    "Partitioner",
    "PeekedMessage",
    "PenstockError",
    "Queue",
    "QueueDescription",
    "QueueStats",
    "RangePartitioner",
    "Record",
    "RoundRobinPartitioner",
    "Sent",
    "SentMany",
    "StickyPartitioner",
    "Subscription",
    "Topic",
    "TopicDescription",
    "TopicSummary",
    "Unavailable",
    "__version__",
    "connect",
    "errors",
]
