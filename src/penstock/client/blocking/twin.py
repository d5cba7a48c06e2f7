"""What the blocking classes have in common: each wraps an object of the async client."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.client.blocking.loop_thread import LoopThread

A = TypeVar("A")


class Twin(Generic[A]):
    """An object of the async client, and the thread whose loop it belongs to."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, inner: A, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread


# It returns what the async client takes in place of what was given; that type cannot be said of a
# subclass of `Twin` in a union.
def unwrap(twins: Twin[Any] | str | Sequence[Twin[Any] | str]) -> Any:
    """The async object behind one, or those behind several; a receipt stays what it is."""
    if isinstance(twins, str):
        return twins
    if isinstance(twins, Twin):
        return twins._inner  # noqa: SLF001 - of this module's own class.
    return [twin if isinstance(twin, str) else twin._inner for twin in twins]  # noqa: SLF001
