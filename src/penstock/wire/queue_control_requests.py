"""The requests of native clients that manage messages of a queue, besides receiving and settling.

They are requests of their own, and not fields of older ones: a broker of 0.1 that ignored a filter
would move every message.
"""

import msgspec

from penstock.core.move_filter import EVERYTHING, MoveFilter
from penstock.wire.requests import Answer, Request


class CancelMessages(Request, frozen=True, tag="cancel_messages"):
    """Cancel messages that are not leased: a partition's index and an offset each. Answered with
    `Done`."""

    name: str
    group: str
    places: tuple[tuple[int, int], ...]


class RestartWork(Request, frozen=True, tag="restart_work"):
    """Reset the offset of a work group in one partition, or to `EARLIEST` or `LATEST`.
    Answered with `Done`."""

    name: str
    group: str
    index: int
    start: int


class DecideDead(Request, frozen=True, tag="decide_dead"):
    """Deliver dead messages anew that stayed in their queue, or drop them; those that pass the
    filter. Answered with `Done`."""

    name: str
    group: str
    discard: bool = False
    filter: MoveFilter = EVERYTHING
    dry_run: bool = False
    """Only count them; of a revival."""


class MoveMessages(Request, frozen=True, tag="move_messages"):
    """Move messages of a dead-letter queue that pass the filter, back to where they died or to
    `to`. Answered with `Redriven`."""

    name: str
    to: str = ""
    rate: int = 0
    filter: MoveFilter = EVERYTHING
    dry_run: bool = False


class StopMove(Request, frozen=True, tag="stop_move"):
    """Cancels a move; messages already moved stay moved. Answered with `MoveInfo`."""

    name: str
    move_id: str


class AskMoves(Request, frozen=True, tag="moves"):
    """Ask for the moves of dead letters from a queue, or to it."""

    name: str


class MoveRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of the list of moves."""

    move_id: str
    state: str
    moved: int
    total: int
    failure: str
    to: str
    """Empty: each message back to where it died."""
    started_ms: int


class MoveRows(Answer, frozen=True, tag="moves"):
    """The moves, latest first."""

    rows: tuple[MoveRow, ...]
