"""The way to a broker, as the client sees it: over TCP, or into an engine of this very process.

Above it, nothing knows which of the two it is.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from penstock.wire.requests import Answer, NodeInfo, Request

Buffer: TypeAlias = bytes | bytearray | memoryview


Late: TypeAlias = Callable[[int, Request, Answer], None]
"""Told of an answer that came when nobody waited for it any more: node, request and answer."""


class Channel(Protocol):
    """Carries requests to nodes."""

    on_late: Late

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        """Ask a node, or any one, and wait so many seconds for its answer.

        Raises what the broker refuses with; `Unavailable` if the request did not leave;
        `OutcomeUnknown` if it did and no answer came. A payload is given away."""
        ...

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """Where nodes are."""
        ...

    async def close(self) -> None:
        """Let go of everything; requests under way end with `OutcomeUnknown`."""
        ...
