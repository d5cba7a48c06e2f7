"""How a blocking client connects and closes, which its async twin leaves to `async with`."""

from collections.abc import Callable
from typing import Self

from penstock.client.blocking.loop_thread import LoopThread, close_at_exit
from penstock.client.blocking.twin import Twin
from penstock.client.client import Client


class ClientLifecycle(Twin[Client]):
    """The part of `BlockingClient` that is not generated."""

    def __init__(self, client: Client) -> None:
        """Take over a client that is not connected yet; it is connected at once."""
        super().__init__(client, LoopThread())
        self._forget_exit: Callable[[], None] = close_at_exit(self.close)
        try:
            self.open()
        except BaseException:
            self.close()
            raise

    def open(self) -> Self:
        """Connect; making one has done it already."""
        self._thread.run(self._inner.open())
        return self

    def close(self) -> None:
        """Send what waits to be sent, give back what was fetched ahead, and disconnect."""
        self._forget_exit()
        self._thread.close(self._inner.close)
