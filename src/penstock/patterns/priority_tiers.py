"""Priority tiers: a queue for each class of work, and workers that serve all of them fairly.

Priorities inside one queue (`priorities="weighted"`) are enough for most. Tiers are for classes
that should differ in more than their order: other bounds, other retries, workers of their own,
depth and age that can be watched one by one.

A worker that always took from "high" first would starve "low" for as long as there is anything
high. Here every tier has a weight, and turns are shared out by *smooth weighted round-robin*: in
every turn each tier gains its weight, the richest is served and pays the sum of all. With weights
6, 3 and 1 ten turns are `h n h h n h l h n h`: each gets its share, spread evenly, and the poorest
waits at most for the sum of weights. A turn whose tier is empty goes to the next richest, so no
worker is idle while anything waits; and what an empty tier did not use it cannot save up.

    tiers = PriorityTiers(client, "jobs", {"high": 6, "normal": 3, "low": 1})
    await tiers.send("high", {"job": 7})
    for message in await tiers.receive(10, wait=20): …
"""

import asyncio
from collections.abc import Mapping
from typing import Generic, TypeVar

from penstock.client.client import Client
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.client.sent_message import Sent
from penstock.core.errors import InvalidRequest

TIERS_MAX = 20
WEIGHT_MAX = 1_000
WEIGHTS = {"high": 6, "normal": 3, "low": 1}

T = TypeVar("T")


class Turns:
    """Smooth weighted round-robin, pure: which tier is next."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        if not 1 <= len(weights) <= TIERS_MAX:
            raise InvalidRequest(f"there are 1 to {TIERS_MAX} tiers, not {len(weights)}")
        for name, weight in weights.items():
            if not 1 <= weight <= WEIGHT_MAX:
                raise InvalidRequest(f"the weight of {name} is {weight}, not 1 to {WEIGHT_MAX}")
        self.weights = dict(weights)
        self._credits = dict.fromkeys(weights, 0)

    def order(self) -> list[str]:
        """Return all tiers, the one whose turn it is first."""
        return sorted(self._credits, key=lambda name: -self._credits[name] - self.weights[name])

    def served(self, name: str, waiting: "set[str] | None" = None) -> None:
        """A message of this tier was served. Of those that had none waiting credit is not kept."""
        taking_part = self.weights if waiting is None else {*waiting, name}
        for one in taking_part:
            self._credits[one] += self.weights[one]
        self._credits[name] -= sum(self.weights[one] for one in taking_part)
        for one in self.weights:
            if one not in taking_part:
                self._credits[one] = 0


class PriorityTiers(Generic[T]):
    """Queues `<name>-<tier>`, and a way to receive from all of them by their weights."""

    def __init__(
        self,
        client: Client,
        name: str,
        weights: Mapping[str, int] = WEIGHTS,
        *,
        codec: type[T] | None = None,
    ) -> None:
        self._turns = Turns(weights)
        self._client = client
        self._waits: dict[str, asyncio.Task[list[Message[T]]]] = {}
        self.queues: dict[str, Queue[T]] = {
            tier: client.queue(f"{name}-{tier}", codec=codec) for tier in weights
        }

    async def create(self, *, partitions: int | None = None, lease: float | None = None) -> None:
        """Create the queues that are not there yet."""
        for queue in self.queues.values():
            await self._client.create_queue(
                queue.name, partitions=partitions, lease=lease, exist_ok=True
            )

    async def send(self, tier: str, body: T, *, key: str | None = None) -> Sent:
        """Send a message to a tier."""
        if tier not in self.queues:
            raise InvalidRequest(f"{tier} is none of the tiers {', '.join(self.queues)}")
        return await self.queues[tier].send(body, key=key)

    async def receive(self, max_messages: int = 1, *, wait: float = 0.0) -> list[Message[T]]:
        """Receive up to `max_messages`, shared out by weight; wait if there is none at all.

        Each tier is asked for its share; what one cannot fill, the others are asked for."""
        taken = self._arrived(max_messages)
        taken += await self._share(max_messages - len(taken))
        if not taken and wait > 0:
            await self._wait_for_any(wait)
            taken = self._arrived(max_messages)
        return taken

    async def close(self) -> None:
        """Stop waiting, and give back what came and was not handed out."""
        waits = list(self._waits.values())
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        for message in self._arrived(TIERS_MAX):
            await message.release()

    async def depths(self) -> dict[str, int]:
        """Return the number of messages in each tier."""
        stats = await asyncio.gather(*(queue.stats() for queue in self.queues.values()))
        return {tier: one.depth for tier, one in zip(self.queues, stats, strict=True)}

    async def _share(self, max_messages: int) -> list[Message[T]]:
        taken: list[Message[T]] = []
        waiting = set(self.queues)
        while waiting and len(taken) < max_messages:
            asked = self._shares(max_messages - len(taken), waiting)
            answers = await asyncio.gather(
                *(self.queues[tier].receive(count) for tier, count in asked.items())
            )
            for (tier, count), messages in zip(asked.items(), answers, strict=True):
                taken += messages
                if len(messages) < count:
                    waiting.discard(tier)
        return taken

    def _shares(self, places: int, waiting: set[str]) -> dict[str, int]:
        """The number of places for each tier, by rotation."""
        shares: dict[str, int] = {}
        for _ in range(places):
            tier = next(one for one in self._turns.order() if one in waiting)
            self._turns.served(tier, waiting)
            shares[tier] = shares.get(tier, 0) + 1
        return shares

    async def _wait_for_any(self, wait: float) -> None:
        """Wait on all tiers, which are empty, for one message each.

        The other waits go on when the first is over: one that is cancelled might have leased a
        message already. What they bring is handed out by the next `receive`."""
        for tier, queue in self.queues.items():
            if tier not in self._waits:
                self._waits[tier] = asyncio.create_task(queue.receive(1, wait=wait))
        await asyncio.wait(self._waits.values(), timeout=wait, return_when=asyncio.FIRST_COMPLETED)

    def _arrived(self, max_messages: int) -> list[Message[T]]:
        """The messages that earlier waits have received."""
        messages: list[Message[T]] = []
        for tier in self._turns.order():
            one = self._waits.get(tier)
            if one is not None and one.done() and len(messages) < max_messages:
                del self._waits[tier]
                if not one.cancelled():
                    messages += one.result()
        return messages
