"""Gives leases back: the one way in which messages that no receiver took become ready again.

A receiver may disconnect between its request and the answer, an answer may hold fewer messages than
were leased for it, a session may end with messages that were never acknowledged. Their leases would
expire in time; given back, the messages are ready at once.

    RETURN    the messages did not reach the receiver: the delivery is not counted
    RELEASE   the receiver had them and did not settle them: the delivery counts

The leader of a partition may have changed since the lease was granted, so the command goes to the
current one. A lease that cannot be given back expires: nothing is lost, only late.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress

from penstock.core.errors import PenstockError
from penstock.core.limits import SETTLEMENTS_MAX
from penstock.core.types import Offset, PartitionId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery.requests import LeasedRange
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.topics.topics import Topics
from penstock.machines.queue_commands import Settle, Settlement
from penstock.machines.queues import Settled


class LeaseReturns:
    """Gives leases back that no receiver has seen; one per node."""

    def __init__(self, topics: Topics, forwarder: Forwarder) -> None:
        self._topics = topics
        self._forwarder = forwarder
        self._tasks: set[asyncio.Task[None]] = set()

    def give_back(
        self, leased: Iterable[LeasedRange], verdict: Verdict = Verdict.RETURN
    ) -> "asyncio.Task[None]":
        """Give leases back in the background; the task is for callers that wait until it is done,
        and never fails."""
        places: dict[tuple[PartitionId, str], list[Settlement]] = {}
        for one in leased:
            settlements = places.setdefault((one.partition, one.group), [])
            last = settlements[-1] if settlements else None
            first = one.first
            if last is not None and (last.end, last.epoch) == (first, one.epoch):
                first = settlements.pop().first
            settlements.append(Settlement(first, one.end, one.epoch, verdict))
        task = asyncio.get_running_loop().create_task(self._settle_all(places))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _settle_all(self, places: dict[tuple[PartitionId, str], list[Settlement]]) -> None:
        await asyncio.gather(*(self._settle(*place, said) for place, said in places.items()))

    async def _settle(
        self, partition: PartitionId, group: str, settlements: list[Settlement]
    ) -> None:
        with suppress(PenstockError):  # The leases expire.
            late = await self._send(partition, group, settlements)
            # A range is settled whole or not at all. If the lease of one of its messages has
            # ended, the others are given back one by one.
            singles = [single for one in late if one.end - one.first > 1 for single in _split(one)]
            await self._send(partition, group, singles)

    async def _send(
        self, partition: PartitionId, group: str, settlements: list[Settlement]
    ) -> list[Settlement]:
        """Returns those that were not carried out."""
        late: list[Settlement] = []
        for start in range(0, len(settlements), SETTLEMENTS_MAX):
            portion = settlements[start : start + SETTLEMENTS_MAX]
            command = Settle(partition=partition, group=group, settlements=tuple(portion))
            reply = await self._forwarder.change(self._topics.shard_of(partition), command)
            assert isinstance(reply, Settled), f"a settle was answered with {reply}"
            pairs = zip(portion, reply.outcomes, strict=True)
            late += [one for one, outcome in pairs if outcome is not Outcome.DONE]
        return late

    async def close(self) -> None:
        """Cancel what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _split(one: Settlement) -> Iterator[Settlement]:
    for offset in range(one.first, one.end):
        yield Settlement(Offset(offset), Offset(offset + 1), one.epoch, one.verdict)
