"""The way to a group's coordinator: the node that leads the shard the group lives in.

It is looked for when it is needed and remembered until it does not answer or says that it is
another one; then the next question finds the new one.
"""

from typing import Final, TypeVar

from penstock.client.connection.request_router import RequestRouter
from penstock.core.errors import (
    DeadlinePassed,
    NotCoordinator,
    OutcomeUnknown,
    RebalanceInProgress,
    Unavailable,
)
from penstock.wire.group_requests import AskCoordinator, CoordinatorInfo
from penstock.wire.requests import Answer, Request

ASK_SECONDS: Final = 10.0
"""The timeout of requests that do not wait for other members."""

A = TypeVar("A", bound=Answer)


class GroupLink:
    def __init__(self, router: RequestRouter, group: str) -> None:
        self.group = group
        self.router = router
        self._node = 0

    async def ask(self, request: Request, kind: type[A], *, seconds: float = ASK_SECONDS) -> A:
        """Ask the coordinator once. The caller decides whether to ask again, and when."""
        node = self._node or await self._find(seconds)
        try:
            answer, _ = await self.router.ask_node(node, request, kind, seconds)
        except RebalanceInProgress:
            raise
        except NotCoordinator as error:
            self._node = error.leader
            raise
        except (Unavailable, OutcomeUnknown):
            self._node = 0
            await self._look_around(seconds)
            raise
        return answer

    async def ask_until(self, request: Request, kind: type[A], *, deadline: float) -> A:
        """Ask until there is an answer, for idempotent requests; `DeadlinePassed` in the end."""
        retries = self.router.retrier.until(deadline)
        while True:
            seconds = max(0.001, min(retries.left, ASK_SECONDS))
            try:
                return await self.ask(request, kind, seconds=seconds)
            except RebalanceInProgress:
                raise
            except (Unavailable, OutcomeUnknown) as error:
                if not await retries.pause(error):
                    raise DeadlinePassed(
                        f"the coordinator of group {self.group} did not answer in time: {error}"
                    ) from error

    async def _find(self, seconds: float) -> int:
        found = await self.router.ask(
            AskCoordinator(self.group), CoordinatorInfo, deadline=self.router.deadline(seconds)
        )
        if not found.node:
            raise Unavailable(f"group {self.group} has no coordinator at the moment")
        self._node = found.node
        return found.node

    async def _look_around(self, seconds: float) -> None:
        """Nodes may have moved, or the address of this one is not known yet."""
        try:
            await self.router.metadata.cluster(min(seconds, ASK_SECONDS))
        except (Unavailable, OutcomeUnknown):
            return
