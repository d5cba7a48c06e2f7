"""Every command of the moves, and their encoding.

The rules are those of `machines.commands`: a command is a request as it stands in the log, `plan`
stamps it, the encoding is strict, and a tag or an order of fields never changes.

A move is named by the topic it takes messages from and by its id, which the caller draws:
starting the same move twice is starting it once.
"""

from enum import IntEnum

from penstock.core.limits import MOVE_COMMAND_BYTES_MAX
from penstock.core.move_filter import MoveFilter
from penstock.core.types import Offset, TopicId
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand


class MoveState(IntEnum):
    """How a move fares. The numbers are on disk; the names are SQS's."""

    RUNNING = 1
    COMPLETED = 2
    CANCELLING = 3
    """It is to stop, and has not stopped yet."""
    CANCELLED = 4
    FAILED = 5

    @property
    def is_active(self) -> bool:
        """It is being worked on, or should be."""
        return self in (MoveState.RUNNING, MoveState.CANCELLING)


class StartMove(Stamped, frozen=True, kw_only=True, tag="start_move"):
    """Begin to move messages out of a topic; one at a time for each topic."""

    move_id: str
    source: TopicId
    destination: TopicId
    """Where they go; `NO_TOPIC_ID`: each goes back to where it died."""
    rate: int
    """Messages each second, at most."""
    filter: MoveFilter
    ends: tuple[Offset, ...]
    """By partition: what comes at or after this offset came too late to be moved."""
    to_move: int


class ProgressMove(Stamped, frozen=True, kw_only=True, tag="progress_move"):
    """So many more messages were moved, or could not be."""

    source: TopicId
    move_id: str
    moved: int
    failed: int
    positions: tuple[Offset, ...]
    """By partition: what is before was looked at and needs no second look."""


class CancelMove(Stamped, frozen=True, kw_only=True, tag="cancel_move"):
    """Stop; what was moved stays moved."""

    source: TopicId
    move_id: str


class EndMove(Stamped, frozen=True, kw_only=True, tag="end_move"):
    """It is over. One that was to stop has stopped, however it would have ended."""

    source: TopicId
    move_id: str
    failure: str = ""


class ForgetMoves(Stamped, frozen=True, kw_only=True, tag="forget_moves"):
    """These topics are deleted: forget the moves out of them that are over."""

    sources: tuple[TopicId, ...]


class UseMovesVersion(VersionCommand, frozen=True, kw_only=True, tag="use_moves_version"):
    """Apply every entry after this one as the version does."""


MoveCommand = StartMove | ProgressMove | CancelMove | EndMove | ForgetMoves | UseMovesVersion

MOVE_CODEC: CommandCodec[MoveCommand] = CommandCodec(MoveCommand, MOVE_COMMAND_BYTES_MAX)
encode_move_command = MOVE_CODEC.encode
decode_move_command = MOVE_CODEC.decode
