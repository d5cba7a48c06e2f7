"""The client for programs without an event loop: the same names as in `penstock`, without `await`.

    from penstock import blocking

    with blocking.connect("penstock://127.0.0.1:9092") as client:
        client.send("orders", {"id": 7})
        for message in client.receive("orders", wait=20):
            print(message.body)
            message.ack()

One client serves any number of threads. It must be connected anew after a fork. Ctrl-C ends
whatever is being waited for.
"""

from penstock.client.blocking import (
    BlockingClient,
    BlockingConsumer,
    BlockingMessage,
    BlockingQueue,
    BlockingRedriven,
    BlockingSubscription,
    BlockingTopic,
)
from penstock.client.settings import ClientSettings
from penstock.core.clock import Clock
from penstock.embedded import connector as connecting

__all__ = [
    "BlockingClient",
    "BlockingConsumer",
    "BlockingMessage",
    "BlockingQueue",
    "BlockingRedriven",
    "BlockingSubscription",
    "BlockingTopic",
    "connect",
]


def connect(
    url: str | None = None,
    *,
    settings: ClientSettings | None = None,
    clock: Clock | None = None,
) -> BlockingClient:
    """A client that is connected when this returns; `penstock.connect` tells what a URL may be."""
    return BlockingClient(connecting.connect(url, settings=settings, clock=clock))
