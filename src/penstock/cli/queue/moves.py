"""`penstock queue redrive, moves, dead`: what becomes of messages that failed."""

import sys
import time
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, Yes, ask_back, print_json
from penstock.cli.queue.messages import (
    Group,
    Name,
    parse_flag_time_ms,
    queue_path,
    read_place,
)
from penstock.cli.table import print_table
from penstock.core.errors import LocalError
from penstock.core.plurals import counted
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.web.queue_lines import MoveLine, QueueDetail

LOOK_SECONDS = 0.5
OVER = ("completed", "cancelled", "failed")

Places = Annotated[
    tuple[str, ...],
    Parameter(
        metavar="PARTITION:OFFSET",
        negative="",
        show_default=False,
        help="Only this message, by the place that `peek` shows; may be repeated.",
    ),
]


class _Moves(msgspec.Struct):
    moves: list[MoveLine]


class _Planned(msgspec.Struct):
    matching: int


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageConditions:
    """The conditions that select messages; a message must meet all of them."""

    reason: Annotated[
        str | None, Parameter(metavar="TEXT", help="Only dead letters whose reason contains this.")
    ] = None
    died_in: Annotated[
        str | None, Parameter(metavar="QUEUE", help="Only dead letters of this queue.")
    ] = None
    since: Annotated[
        str | None, Parameter(metavar="TIME", help="Only dead letters from this time on.")
    ] = None
    until: Annotated[
        str | None, Parameter(metavar="TIME", help="Only dead letters from before this time.")
    ] = None
    key: Annotated[
        str | None, Parameter(metavar="TEXT", help="Only messages whose key contains this.")
    ] = None
    body: Annotated[
        str | None, Parameter(metavar="TEXT", help="Only messages whose body contains this.")
    ] = None
    header: Annotated[
        str | None,
        Parameter(
            metavar="NAME=TEXT",
            help="Only messages with this header, or whose header contains this value.",
        ),
    ] = None
    message: Places = ()

    def conditions(self) -> dict[str, object]:
        """Return the conditions as the body of a request."""
        header, _, header_value = (self.header or "").partition("=")
        said = {
            "reason": self.reason,
            "topic": self.died_in,
            "from_ms": parse_flag_time_ms("--since", self.since),
            "until_ms": parse_flag_time_ms("--until", self.until),
            "key": self.key,
            "body": self.body,
            "header": header or None,
            "header_value": header_value or None,
            "places": [_place(one) for one in self.message] or None,
        }
        return {word: value for word, value in said.items() if value is not None}


NO_CONDITION = MessageConditions()


def redrive(
    name: Name,
    /,
    *,
    to: Annotated[
        str | None,
        Parameter(
            metavar="QUEUE",
            help="The target queue; by default each message returns to the queue it died in.",
        ),
    ] = None,
    chosen: MessageConditions = NO_CONDITION,
    rate: Annotated[
        int | None, Parameter(metavar="N", help="The rate in messages per second.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="Only count the messages.")
    ] = False,
    wait: Annotated[
        bool, Parameter(negative="", show_default=False, help="Wait until the move is over.")
    ] = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> int | None:
    """Move dead letters back to the queue they died in, or to another queue.

    The cluster carries out the move, even if this command is stopped.

    Examples
    --------
    penstock queue redrive jobs-dlq --dry-run
    penstock queue redrive jobs-dlq --reason timeout --rate 50 --wait
    penstock queue redrive jobs-dlq --to jobs-retry --message 0:17
    """
    wanted = {"to": to, "rate": rate, "filter": chosen.conditions()}
    path = queue_path(name, "redrive")
    if dry_run:
        planned = broker.ask_for("POST", path, _Planned, {**wanted, "dry_run": True})
        if json:
            print_json(planned)
        else:
            print(f"{counted(planned.matching, 'message')} would be moved")
            if not planned.matching and to is None:
                _point_to_letters(broker, name)
        return None
    move = broker.ask_for("POST", path, MoveLine, wanted)
    if wait:
        move = _wait(broker, name, move)
    if json:
        print_json(move)
    else:
        print(_sentence(name, move))
        if move.failed and to is None:
            _point_to_letters(broker, name)
    return 1 if move.state == "failed" or move.failed else None


def _point_to_letters(broker: BrokerAddress, name: str) -> None:
    """Print the name of the dead-letter queue if the named queue has one."""
    letters = broker.ask_for("GET", queue_path(name), QueueDetail).dead_letter_topic
    if letters:
        print(
            f"penstock: the dead letters of {name} are in {letters}: penstock redrive {letters}",
            file=sys.stderr,
        )


def moves(
    name: Name,
    /,
    *,
    cancel: Annotated[
        str | None,
        Parameter(metavar="ID", help="Cancel this move; messages already moved stay moved."),
    ] = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """List the moves of messages out of a queue, or cancel one.

    Examples
    --------
    penstock queue moves jobs-dlq
    """
    if cancel is not None:
        stopped = broker.ask_for("DELETE", queue_path(name, "moves", cancel), MoveLine)
        if json:
            print_json(stopped)
        else:
            print(_sentence(name, stopped))
        return
    found = broker.ask_for("GET", queue_path(name, "moves"), _Moves).moves
    if json:
        print_json(found)
    elif found:
        print_moves(found)
    else:
        print(f"nothing was ever moved out of {name}, as far as is remembered", file=sys.stderr)


def dead(
    name: Name,
    verb: Annotated[
        Literal["revive", "discard", "archive"],
        Parameter(help="Redeliver, delete, or keep here instead of moving."),
    ],
    /,
    *,
    message: Places = (),
    group: Group = DEFAULT_WORK_GROUP,
    yes: Yes = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Redeliver, delete or keep dead messages that are still in their queue.

    Examples
    --------
    penstock queue dead jobs revive --message 0:17
    penstock queue dead jobs discard --yes
    """
    places = [_place(one) for one in message]
    if verb == "discard" and not yes:
        ask_back(
            name,
            warning=f"This would drop the dead messages of {name}.",
            kept=f"the name does not match; {name} is as it was",
            cannot=f"dropping dead messages of {name} cannot be undone",
        )
    body = {"group": group, "filter": {"places": places}} if verb != "archive" else {}
    answer = broker.ask_for("POST", queue_path(name, "dead", verb), dict[str, int], body)
    if json:
        print_json(answer)
        return
    done = {
        "revive": "are delivered again",
        "discard": "are dropped",
        "archive": "stay where they are",
    }
    number = answer["messages"]
    if number == 1:
        done = {"revive": "is delivered again", "discard": "is dropped", "archive": "stays there"}
    print(f"{counted(number, 'dead message')} of {name} {done[verb]}")


def print_moves(found: list[MoveLine]) -> None:
    """Print moves as a table."""
    print_table(
        ("MOVE", "TO", "STATE", "MOVED", "FAILED", "OF", "RATE", "PROBLEM"),
        [
            (
                one.id,
                one.to or "where they died",
                one.state,
                one.moved,
                one.failed,
                one.to_move,
                one.rate,
                _problem(one),
            )
            for one in found
        ],
    )


def _wait(broker: BrokerAddress, name: str, move: MoveLine) -> MoveLine:
    """Look every now and then until it is over; a bar shows how far it is, on a terminal."""
    talk = Console(stderr=True)
    with Progress(console=talk, disable=not talk.is_terminal, transient=True) as progress:
        bar = progress.add_task(f"moving messages of {name}", total=move.to_move or None)
        while move.state not in OVER:
            time.sleep(LOOK_SECONDS)
            found = broker.ask_for("GET", queue_path(name, "moves"), _Moves).moves
            same = next((one for one in found if one.id == move.id), None)
            if same is None:
                raise LocalError(f"move {move.id} of {name} is too old: its result was forgotten")
            move = same
            progress.update(bar, completed=move.moved + move.failed)
    return move


def _sentence(name: str, move: MoveLine) -> str:
    where = f"to {move.to}" if move.to else "back to where they died"
    told = f"move {move.id}: {counted(move.moved, 'message')} of {name} {where}, {move.state}"
    problem = _problem(move)
    return f"{told}; {problem}" if problem else told


def _problem(move: MoveLine) -> str:
    """Why messages stayed; a move may end well although some of them could not be moved."""
    told = []
    if move.failed:
        one = move.failed == 1
        told.append(f"{move.failed:,} could not be moved and {'stays' if one else 'stay'}")
        if not move.to:
            lost = "it does not say where it" if one else "they do not say where they"
            told.append(f"{lost} died, or it is gone; use --to")
    if move.failure:
        told.append(move.failure)
    return ": ".join(told)


def _place(written: str) -> tuple[int, int]:
    return read_place("--message", written)
