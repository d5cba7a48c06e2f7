"""Requests that a node forwards to the leader of a queue's partition."""

import msgspec

from penstock.core.limits import QUEUE_CALL_SECONDS
from penstock.core.message import NewMessage
from penstock.core.types import Offset, TopicId
from penstock.engine.peers.calls import RemoteCall
from penstock.engine.topics.traffic import INTERNAL


class ForwardedSend(msgspec.Struct, frozen=True, array_like=True, tag="send"):
    """Append these messages."""

    topic_id: TopicId
    index: int
    messages: tuple[NewMessage, ...]
    protocol: str = INTERNAL
    """By which they came, for the counters."""


class ForwardedReceive(msgspec.Struct, frozen=True, array_like=True, tag="receive"):
    """Lease messages, and wait for some."""

    topic_id: TopicId
    index: int
    group: str
    messages_max: int
    lease_ms: int | None
    wait_ms: int
    receiver: str = ""
    bytes_max: int = 0
    """What the node that asks has memory for; 0: it does not say."""


class ForwardedCount(msgspec.Struct, frozen=True, array_like=True, tag="count"):
    """How many messages are in which state?"""

    topic_id: TopicId
    index: int
    group: str


class ForwardedBrowse(msgspec.Struct, frozen=True, array_like=True, tag="browse"):
    """Look at messages."""

    topic_id: TopicId
    index: int
    group: str
    start: Offset
    states: tuple[str, ...]
    messages_max: int


ForwardedRequest = ForwardedSend | ForwardedReceive | ForwardedCount | ForwardedBrowse


class QueueCall(msgspec.Struct, frozen=True, array_like=True):
    """The envelope of a forwarded request, whose type says which one it is."""

    there: ForwardedRequest


QUEUE = RemoteCall("queue", QueueCall, object, QUEUE_CALL_SECONDS)
"""The reply follows from the request: `list[Sent]` to a send, `list[Delivery]` to a receive,
`QueueCounts` to a count and `list[BrowsedMessage]` to a browse."""
