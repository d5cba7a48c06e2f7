"""Fan-out: every subscriber gets every message.

On a log this needs no copies. A topic is stored once, and each *work group* on it is a queue of its
own: it has its own leases, retries and dead letters, and gets every message as if it had the queue
for itself. A group that is slow, or down for a day, delays no other.

    orders = FanOut(client, "orders", groups=["billing", "mailing", "search"])
    await orders.open(deliveries_max=3, retry="exponential", dead_letter="orders-dlq")
    await orders.send({"order": 7}, key="customer 3")
    async for message in orders.queue("mailing"): …

All groups go by the queue's settings, unless a group has its own:

    FanOut(client, "orders", groups={"billing": {}, "mailing": {"lease": 300, "retry": "none"}})

A dead letter says which group gave the message up; the other groups are not concerned.

Work groups are to be opened before the first message they must not miss: a group begins with what
is sent after it was opened. A message is deleted when *every* group is done with it. That includes
the default group, `queue`: where nothing receives for it, messages stay until the topic's retention
time is over.

Copies are for queues that are not on one topic, or that differ in what is stored: `copy_to` sends
one message to several queues. It is not one transaction, there is none across queues: a sender that
dies in the middle, or gets `OutcomeUnknown`, calls it again with the same `dedup_id`, and queues
that remember ids (`deduplication="id"`) drop what they have.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar, Unpack

from penstock.client.client import Client
from penstock.client.queue import Queue
from penstock.client.queue_admin import GroupOptions, QueueOptions
from penstock.client.sent_message import Sent
from penstock.core.errors import InvalidRequest

GROUPS_MAX = 100

T = TypeVar("T")


class FanOut(Generic[T]):
    """A topic and the groups that each get all of it."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        groups: Sequence[str] | Mapping[str, GroupOptions],
        codec: type[T] | None = None,
    ) -> None:
        """`groups` are names, or names with the settings that a group has of its own, as
        `Queue.configure_group` takes them."""
        if not groups or len(groups) > GROUPS_MAX or len(set(groups)) != len(groups):
            raise InvalidRequest(f"fan-out goes to 1 to {GROUPS_MAX} groups, each named once")
        self.topic = topic
        self.groups = tuple(groups)
        self._options = dict(groups) if isinstance(groups, Mapping) else {}
        self._client = client
        self._codec = codec
        self._sending: Queue[T] = client.queue(topic, codec=codec, group=self.groups[0])

    async def open(self, **options: Unpack[QueueOptions]) -> None:
        """Create the queue where there is none, with options as `Client.create_queue` takes them,
        and open every group on it at its end. A group that is open stays where it is."""
        options["exist_ok"] = True
        described = await self._client.create_queue(self.topic, **options)
        for group in self.groups:
            queue = self.queue(group)
            if self._options.get(group):
                await queue.configure_group(group, **self._options[group])
            if group not in described.groups:
                await queue.begin("latest")

    async def send(
        self,
        body: T,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        dedup_id: str | None = None,
    ) -> Sent:
        """Send to all groups: one message, stored once."""
        return await self._sending.send(body, key=key, headers=headers, dedup_id=dedup_id)

    def queue(self, group: str) -> Queue[T]:
        """Return the queue of one group."""
        if group not in self.groups:
            raise InvalidRequest(f"{group} is none of {', '.join(self.groups)}")
        return self._client.queue(self.topic, codec=self._codec, group=group)


async def copy_to(
    client: Client,
    queues: Sequence[str],
    body: object,
    *,
    dedup_id: str,
    key: str | bytes | None = None,
    headers: Mapping[str, str | bytes | None] | None = None,
) -> list[Sent]:
    """Send one message to several queues, all at once. Raises if any of them did not get it: call
    it again with the same `dedup_id`."""
    if len(queues) > GROUPS_MAX:
        raise InvalidRequest(f"a message is copied to at most {GROUPS_MAX} queues")
    sending = (
        client.send(queue, body, key=key, headers=headers, dedup_id=dedup_id) for queue in queues
    )
    results = await asyncio.gather(*sending, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, Sent)]
