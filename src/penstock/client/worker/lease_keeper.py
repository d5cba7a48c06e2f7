"""Keeps leases going while their messages are being worked on, or wait to be.

A lease is extended when a third of its time is left; all messages of one partition in one request.
A worker that dies is not extended any more, and its messages come back when the lease ends: the
lease can be short, however long the work is.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

from penstock.client.message import Lease, Message
from penstock.client.worker.settler import Settler
from penstock.core.errors import PenstockError
from penstock.core.verdicts import Verdict

SHARE_LEFT: Final = 3
PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_MS_MAX: Final = 60_000

log = logging.getLogger("penstock.client")


class LeaseKeeper:
    """See the top of this module; `close` ends it."""

    def __init__(self, settler: Settler) -> None:
        self._settler = settler
        self._leases: set[Lease] = set()
        self._task: asyncio.Task[None] | None = None

    def keep(self, messages: Sequence[Message[Any]]) -> None:
        """Keep these until they are settled or given up."""
        for message in messages:
            lease = message.lease
            if lease.held is None:
                lease.held = set()
                self._leases.add(lease)
            lease.held.add(message.offset)
        if self._task is None and self._leases:
            self._task = asyncio.create_task(self._work())

    def give_up(self, message: Message[Any]) -> None:
        """Let the lease of one message end by itself."""
        if message.lease.held is not None:
            message.lease.held.discard(message.offset)

    async def _work(self) -> None:
        try:
            while self._leases:
                due: list[Lease] = []
                soonest_ms = PAUSE_MS_MAX
                for lease in list(self._leases):
                    if not lease.held:
                        self._leases.discard(lease)
                        lease.held = None
                        continue
                    left_ms = lease.until_ms - lease.clock.monotonic_ms()
                    wait_ms = left_ms - lease.duration_ms // SHARE_LEFT
                    if wait_ms <= 0:
                        due.append(lease)
                    else:
                        soonest_ms = min(soonest_ms, wait_ms)
                if due:
                    await asyncio.gather(*map(self._extend, due))
                    continue
                await asyncio.sleep(max(PAUSE_SECONDS_MIN, soonest_ms / 1_000))
        finally:
            self._task = None

    async def _extend(self, lease: Lease) -> None:
        held = lease.held
        if not held:
            return
        began_ms = lease.clock.monotonic_ms()
        try:
            counted = await self._settler.settle_ranges(
                lease, _ranges(sorted(held)), Verdict.EXTEND, lease.duration_ms
            )
        except PenstockError as error:
            log.warning("leases on %s could not be extended: %s", lease.queue, error)
            if lease.until_ms <= lease.clock.monotonic_ms():
                lease.held = None
                self._leases.discard(lease)
            await asyncio.sleep(PAUSE_SECONDS_MIN)
            return
        if counted:
            lease.until_ms = began_ms + lease.duration_ms
        else:
            lease.held = None  # Another receiver may have them by now.
            self._leases.discard(lease)

    async def close(self) -> None:
        """Stop extending leases."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for lease in self._leases:
            lease.held = None
        self._leases.clear()


def _ranges(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Combine consecutive offsets into ranges."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found
