"""A peer that breaks spoils nobody else's measurement."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.programs import ProgramFailed
from benchmarks.report import Progress


class Named(Protocol):
    """A kind of system."""

    @property
    def name(self) -> str:
        """By which the report knows it."""


K = TypeVar("K", bound=Named)


@contextmanager
def excused(kind: K, others: list[K], absences: list[str], progress: Progress) -> Iterator[None]:
    """One of the others that breaks is left out from then on, and told of; ours is not excused."""
    try:
        yield
    except (ClientFailed, ProgramFailed, OSError, subprocess.SubprocessError) as error:
        if kind not in others:
            raise
        others.remove(kind)
        why = str(error).partition("\n")[0].rstrip(":")
        absences.append(f"{kind.name}: it broke ({why}); shown are the rounds before, if any.")
        progress(f"{kind.name} broke: {error}")
