"""Fan-out: everybody who is interested gets every message.

On a log this needs no copies. A topic is stored once, and each *work group* on it is a queue of its
own: it has its own leases, retries and dead letters, and gets every message as if it had the queue
for itself. A group that is slow, or down for a day, holds up nobody.

    orders = FanOut(client, "orders", groups=["billing", "mailing", "search"])
    await orders.open()
    await orders.send({"order": 7}, key="customer 3")
    async for message in orders.queue("mailing"): …

Work groups are to be opened before the first message they must not miss: a group begins with what
is sent after it was opened. A message is deleted when *every* group is done with it.

Copies are for queues that are not on one topic, or that differ in what is stored: `copy_to` sends
one message to several queues. It is not one transaction, there is none across queues: a sender that
dies in the middle, or gets `OutcomeUnknown`, calls it again with the same `dedup_id`, and queues
that remember ids (`deduplication="id"`) drop what they have.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from penstock.client.client import Client
from penstock.client.queue import Queue
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
        groups: Sequence[str],
        codec: type[T] | None = None,
    ) -> None:
        if not groups or len(groups) > GROUPS_MAX or len(set(groups)) != len(groups):
            raise InvalidRequest(f"fan-out goes to 1 to {GROUPS_MAX} groups, each named once")
        self.topic = topic
        self.groups = tuple(groups)
        self._client = client
        self._codec = codec
        self._sending: Queue[T] = client.queue(topic, codec=codec, group=groups[0])

    async def open(self, *, partitions: int | None = None) -> None:
        """Create the topic where there is none, and open every group on it."""
        described = await self._client.create_queue(
            self.topic, partitions=partitions, exist_ok=True
        )
        for group in self.groups:
            if group not in described.groups:
                # The first receive opens a group. There is nothing to be had: it begins at the end.
                for message in await self.queue(group).receive(1):
                    await message.release(0)

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
        """The queue of one group."""
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
