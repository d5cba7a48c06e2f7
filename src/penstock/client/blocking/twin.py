"""What the blocking classes have in common: each wraps an object of the async client."""

from collections.abc import Sequence
from typing import Generic, TypeVar, overload

from penstock.client.blocking.loop_thread import LoopThread

A = TypeVar("A")


class Twin(Generic[A]):
    """An object of the async client, and the thread whose loop it belongs to."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, inner: A, thread: LoopThread) -> None:
        self._inner = inner
        self._thread = thread


@overload
def unwrap(twins: Twin[A]) -> A: ...
@overload
def unwrap(twins: Sequence[Twin[A]]) -> list[A]: ...
def unwrap(twins: Twin[A] | Sequence[Twin[A]]) -> A | list[A]:
    """The async object behind one, or those behind several."""
    if isinstance(twins, Twin):
        return twins._inner  # noqa: SLF001 - of this module's own class.
    return [twin._inner for twin in twins]  # noqa: SLF001
