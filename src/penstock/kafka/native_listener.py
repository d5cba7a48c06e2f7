"""Another protocol that shares Kafka's port, as the port sees it."""

import asyncio
from typing import Protocol


class NativeListener(Protocol):
    """Takes the connections whose first bytes are its own."""

    @property
    def magic(self) -> bytes:
        """The first bytes; no Kafka request may begin with them."""
        ...

    def __len__(self) -> int:
        """How many connections it has: they count as the port's."""
        ...

    def take_over(self, transport: asyncio.Transport, first: memoryview) -> None:
        """Take over a connection whose first bytes these are."""
        ...

    def sweep(self, now_ms: int) -> None:
        """Called every now and then, to find who is silent."""
        ...

    async def close(self, grace_seconds: float) -> None:
        """Let what is under way finish for a while, then close all connections."""
        ...
