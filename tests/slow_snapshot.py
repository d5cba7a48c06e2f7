"""A snapshot that is taken a piece at a time while the machine goes on, and must not show it.

For property tests: `step` after every command. Tables are cut into pieces of two rows meanwhile, so
that almost every command falls between two pieces of the same table. What a snapshot restores also
counts its bytes anew: that must be what the machine counted as it went.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

from penstock.machines import partition_pieces, run_table, state_pieces
from penstock.machines.machine import Machine
from penstock.machines.state_pieces import Piece, joined

PIECES_AT_ONCE = 3


class SlowSnapshot:
    """`current` yields the machine that applies the next command; `make` an empty one."""

    def __init__(self, current: Callable[[], Machine], make: Callable[[], Machine]) -> None:
        self._current = current
        self._make = make
        self.taken = 0
        self._begin()

    def _begin(self) -> None:
        machine = self._current()
        self._expected, self._bytes = machine.snapshot(), machine.state_bytes()
        self._pieces = machine.snapshot_pieces()
        self._got: list[Piece] = []

    def step(self) -> None:
        """Some pieces more."""
        with _rows_at_once(2):
            got = list(islice(self._pieces, PIECES_AT_ONCE))
        self._got += got
        if len(got) < PIECES_AT_ONCE:
            self._check()
            self._begin()

    def _check(self) -> None:
        assert joined(iter(self._got)) == self._expected, "it shows what came later"
        restored = self._make()
        restored.restore(self._expected)
        assert restored.state_bytes() == self._bytes, "bytes are counted wrongly"
        self.taken += 1


@contextmanager
def _rows_at_once(count: int) -> Iterator[None]:
    modules = (state_pieces, run_table, partition_pieces)
    before = state_pieces.PIECE_ROWS
    for module in modules:
        module.PIECE_ROWS = count  # type: ignore[attr-defined]
    yield
    for module in modules:
        module.PIECE_ROWS = before  # type: ignore[attr-defined]
