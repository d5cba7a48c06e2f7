"""The blocking twin of the client: the same names, without `await`."""

from penstock.client.blocking.client import BlockingClient
from penstock.client.blocking.consumer import BlockingConsumer
from penstock.client.blocking.message import BlockingMessage
from penstock.client.blocking.queue import BlockingQueue, BlockingRedriven
from penstock.client.blocking.stage import BlockingStage
from penstock.client.blocking.subscription import BlockingSubscription
from penstock.client.blocking.topic import BlockingTopic

__all__ = [
    "BlockingClient",
    "BlockingConsumer",
    "BlockingMessage",
    "BlockingQueue",
    "BlockingRedriven",
    "BlockingStage",
    "BlockingSubscription",
    "BlockingTopic",
]
