"""What a client of a queue is asked to do, whichever system the queue is of.

Every system gets the same shape: bodies of random bytes, so that nobody gains by compressing them,
and so many of them at a time. An order ends by itself, by a count and by a time.
"""

import importlib
import os
from dataclasses import dataclass
from typing import Any

BODIES_MAX = 10_000
"""So many different bodies are made beforehand; further ones repeat them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """Send to a queue, or receive from it and acknowledge, a batch at a time."""

    place: str
    """Where the system is: an address, or what its client wants instead of one."""
    queue: str
    batch: int
    messages_max: int
    seconds: float
    body_bytes: int = 100

    def bodies(self) -> list[bytes]:
        """One batch."""
        return [os.urandom(self.body_bytes) for _ in range(min(self.batch, BODIES_MAX))]


def library(name: str) -> Any:
    """A peer's client, which is on this machine only if somebody has put it there: it is wanted
    by nothing but this benchmark, so no lock file names it."""
    return importlib.import_module(name)


def split_place(place: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = place.rpartition(":")
    return host, int(port)
