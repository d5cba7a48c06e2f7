"""What a request is answered by: a function for each kind, in tables that the service joins."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from penstock.core.errors import UnknownTopicId
from penstock.core.topic import Topic
from penstock.core.types import TopicId
from penstock.engine.cluster.node import Node
from penstock.engine.engine import Engine
from penstock.wire.requests import Answer, Request

Buffer: TypeAlias = bytes | bytearray | memoryview
Reply: TypeAlias = tuple[Answer, Buffer]
"""The answer, and stored batches that go with it."""
# Each function takes the one kind of request it stands under.
Handler: TypeAlias = Callable[["Context", Any, memoryview], Awaitable[Reply]]
Handlers: TypeAlias = Mapping[type[Request], Handler]

PROTOCOL: Final = "native"


class Context:
    """What every handler works with."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.engine: Engine = node.engine
        self.flow = node.engine.topics.traffic.of(PROTOCOL)

    def topic(self, topic_id: bytes) -> Topic:
        """A topic by its id, or `UnknownTopicId`."""
        found = self.engine.topics.catalog.topic_by_id(TopicId(topic_id))
        if found is None:
            raise UnknownTopicId(
                "there is no topic with this id: it was deleted, or this node does not know it yet"
            )
        return found
