"""Dead letters that a SQL predicate holds for, delivered anew: those and no others.

The predicate is Spark's SQL over the columns of `letters`; what it chose is named to the cluster
place by place. So a letter that died since the report is not moved, and one that is gone
is not missed. The cluster moves them (see `penstock queue moves`), goes on if this process dies,
and moves each once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.client.client import Client
from penstock.client.queue import Queue
from penstock.client.queue import Redriven as Begun
from penstock.core.errors import (
    DeadlinePassed,
    InvalidRequest,
    MoveRunning,
    OutcomeUnknown,
    Unavailable,
)
from penstock.core.limits import MOVE_FILTER_PLACES_MAX
from penstock.spark.connections import client_of, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REDRIVEN_MAX: Final = 100_000
TRIES: Final = 5
LOOK_SECONDS: Final = 0.1
WAIT_SECONDS: Final = 3_600.0
RUNNING: Final = ("running", "cancelling")

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """The result of a redrive, or of its dry run."""

    predicate: str
    dry_run: bool
    matched: int
    moved: int
    queues: Mapping[str, int]
    """The number of selected messages, by the queue that holds them."""


def redrive_by(
    letters: "DataFrame",
    url: str,
    predicate: str,
    *,
    dry_run: bool = True,
    to: str | None = None,
    rate: int | None = None,
    messages_max: int = REDRIVEN_MAX,
    wait_seconds: float = WAIT_SECONDS,
) -> Redriven:
    """Choose by the predicate, then move; back to where each died, or to a queue. `rate` is in
    messages a second. More than `messages_max` are refused and not cut off."""
    places = choose(letters, predicate, messages_max=messages_max)
    moved = 0
    if not dry_run:
        moved = run(_move(client_of(url), places, to, rate), timeout=wait_seconds)
    return Redriven(
        predicate=predicate,
        dry_run=dry_run,
        matched=sum(map(len, places.values())),
        moved=moved,
        queues={name: len(some) for name, some in places.items()},
    )


def check_predicate(letters: "DataFrame", predicate: str) -> "DataFrame":
    """The letters it holds for; `InvalidRequest` if Spark cannot read it. Nothing is read yet."""
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415

    try:
        chosen = letters.where(predicate)
        assert chosen.schema is not None
    except (AnalysisException, ParseException) as error:
        said = str(error).strip().splitlines()[0]
        raise InvalidRequest(
            f"cannot choose by {predicate!r}: {said} The columns are {', '.join(letters.columns)}"
        ) from None
    return chosen


def choose(
    letters: "DataFrame", predicate: str, *, messages_max: int = REDRIVEN_MAX
) -> dict[str, list[Place]]:
    """Return the places of the selected dead letters, by queue, in order."""
    chosen = check_predicate(letters, predicate)
    rows = chosen.select("lies_in", "lies_partition", "lies_offset").limit(messages_max + 1)
    places: dict[str, list[Place]] = {}
    for row in rows.collect():
        places.setdefault(row.lies_in, []).append((row.lies_partition, row.lies_offset))
    if sum(map(len, places.values())) > messages_max:
        raise InvalidRequest(
            f"{predicate!r} chooses more than {messages_max} messages: narrow it, or allow more"
        )
    return {name: sorted(some) for name, some in sorted(places.items())}


async def _move(
    client: Client, places: Mapping[str, Sequence[Place]], to: str | None, rate: int | None
) -> int:
    moved = 0
    for name, some in places.items():
        for at in range(0, len(some), MOVE_FILTER_PLACES_MAX):
            moved += await _move_some(
                client, name, some[at : at + MOVE_FILTER_PLACES_MAX], to, rate
            )
    return moved


async def _move_some(
    client: Client, name: str, places: Sequence[Place], to: str | None, rate: int | None
) -> int:
    """Run one move to its end. Repeating it does no harm: messages that were moved are not there
    any more."""
    begun = await _begin(client.queue(name), places, to, rate)
    while True:
        try:
            seen = await begun.progress()
        except (Unavailable, OutcomeUnknown, DeadlinePassed):
            seen = None  # A node died; the next one goes on with the move.
        if seen is not None and seen.state not in RUNNING:
            break
        await asyncio.sleep(LOOK_SECONDS)
    if seen.failure:
        raise Unavailable(
            f"{seen.moved} of {len(places)} messages of {name} were moved, then it failed:"
            f" {seen.failure}"
        )
    return seen.moved


async def _begin(
    queue: Queue[Any], places: Sequence[Place], to: str | None, rate: int | None
) -> Begun:
    unknown = 0
    while True:
        try:
            return await queue.redrive(to=to, rate=rate, places=places)
        except OutcomeUnknown:
            unknown += 1
            if unknown == TRIES:
                raise
        except MoveRunning:
            if not unknown:
                raise
            await asyncio.sleep(LOOK_SECONDS)  # It is ours; when it is over, ask for the rest.
