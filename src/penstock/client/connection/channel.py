"""The way to a broker, as the client sees it: over TCP, or into an engine of this very process.

Above it, nothing knows which of the two it is.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from penstock.core.errors import PenstockError
from penstock.wire.requests import Answer, NodeInfo, Request

Buffer: TypeAlias = bytes | bytearray | memoryview


Late: TypeAlias = Callable[[int, Request, Answer], None]
"""Called with the node, the request and the answer if the answer came after the caller stopped
waiting."""

PreparedRequest: TypeAlias = tuple[Request, Buffer, float]
"""A request, its payload, and the loop's time by which it must be answered."""
Make: TypeAlias = Callable[[], PreparedRequest | None]
"""Makes a request at the moment it leaves; None if there is nothing to ask any more."""
OnAnswer: TypeAlias = Callable[[Answer | PenstockError, Buffer], None]
"""Called with the outcome of a request, once: the answer with its payload, or the error."""


class Channel(Protocol):
    """Carries requests to nodes."""

    on_late: Late

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        """Send a request to a node, or to any node if it is None, and wait up to `timeout` seconds
        for the answer.

        Raises what the broker refuses with; `Unavailable` if the request did not leave;
        `OutcomeUnknown` if it did and no answer came. A payload is given away."""
        ...

    def begin(self, node: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        """Ask a node without a task that waits, together with all that is asked in this turn of
        the loop, or with all that was asked in it so far, if it is to leave `at_once`; the request
        is made when it leaves. False if that cannot be done now, and then nothing was: `ask` it,
        which may take its time."""
        ...

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """Store the addresses of nodes."""
        ...

    async def close(self) -> None:
        """Release everything; requests in flight end with `OutcomeUnknown`."""
        ...
