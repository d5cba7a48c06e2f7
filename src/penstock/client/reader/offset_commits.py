"""Commits of offsets: what a member has finished is reported to the group's coordinator.

One commit is under way at a time, so that an older one never overtakes a newer. Only what belongs
to a place that is still ours is committed, in the name of the generation we work in: a member that
others have replaced is refused, and what it finished is done again by them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.connection.group_link import ASK_SECONDS, GroupLink
from penstock.client.reader.membership import NO_GENERATION, Membership
from penstock.client.reader.positions import Place, TopicPartition
from penstock.core.errors import (
    DeadlinePassed,
    FencedInstance,
    IllegalGeneration,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    Unavailable,
    UnknownMember,
)
from penstock.wire.group_requests import CommitOffsets, OffsetsCommitted, OffsetToCommit

log = logging.getLogger("penstock.client")

_MOVED_ON: Final = (RebalanceInProgress, IllegalGeneration, UnknownMember, FencedInstance)
"""The group shares out anew, or has done so without us."""


class Committing:
    """See the top of this module. `places` are the owner's: those the member has now."""

    def __init__(
        self, link: GroupLink, membership: Membership, places: Mapping[TopicPartition, Place]
    ) -> None:
        self._link = link
        self._membership = membership
        self._places = places
        self._lock = asyncio.Lock()
        self.commits = 0

    @property
    def is_lost(self) -> bool:
        """We are no member now, and nothing can be committed."""
        return self._membership.generation == NO_GENERATION

    async def commit_done(self, *, deadline: float, patient: bool = False) -> bool:
        """Commit the processed records. Return False if some could not be committed because the
        group has rebalanced. With `patient`, wait until the rebalance is over, and commit what is
        still assigned."""
        return await self._commit(
            lambda: {place: place.done for place in self._places.values() if place.is_settled},
            deadline,
            patient=patient,
        )

    async def commit(self, offsets: Mapping[Place, int], *, deadline: float) -> bool:
        """Commit these offsets. False: some of the places are not ours any more."""
        whole = await self._commit(
            lambda: {
                place: offset
                for place, offset in offsets.items()
                if self._places.get(place.part) is place
            },
            deadline,
            patient=True,
        )
        return whole and all(self._places.get(place.part) is place for place in offsets)

    async def try_to_commit(self) -> None:
        """Commit the processed records if possible now; if not, a later call will."""
        try:
            await self.commit_done(deadline=asyncio.get_running_loop().time() + ASK_SECONDS)
        except PenstockError as error:
            log.info("group %s: not committed yet: %s", self._link.group, error)

    async def _commit(
        self, choose: Callable[[], dict[Place, int]], deadline: float, *, patient: bool
    ) -> bool:
        retries = self._link.router.retrier.until(deadline)
        async with self._lock:
            while True:
                # What is ours may have changed since the last attempt.
                chosen = choose().items()
                offsets = {place: offset for place, offset in chosen if offset != place.committed}
                if not offsets:
                    return True
                generation = self._membership.generation
                left = max(0.001, min(retries.left, ASK_SECONDS))
                try:
                    if not self.is_lost:
                        return await self._send(offsets, left)
                except _MOVED_ON as error:
                    log.debug("group %s: not committed: %s", self._link.group, error)
                except (Unavailable, OutcomeUnknown) as error:
                    if not await retries.pause(error):
                        raise DeadlinePassed(f"offsets could not be committed: {error}") from error
                    continue
                if not patient or not await self._membership.wait_next(generation, deadline):
                    return False

    async def _send(self, offsets: Mapping[Place, int], seconds: float) -> bool:
        rows = [
            (place, place.version, OffsetToCommit(place.topic_id, place.part.partition, offset))
            for place, offset in offsets.items()
        ]
        request = CommitOffsets(
            self._link.group,
            tuple(row for _, _, row in rows),
            self._membership.member,
            self._membership.settings.instance_id,
            self._membership.generation,
        )
        answer = await self._link.ask(request, OffsetsCommitted, seconds=seconds)
        self.commits += 1
        for (place, version, row), failure in zip(rows, answer.failures, strict=True):
            if failure is not None:
                log.debug("%s: not committed: %s", place.part, failure.message)
            elif place.version == version:
                place.committed = row.offset
        return all(failure is None for failure in answer.failures)
