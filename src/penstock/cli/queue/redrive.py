"""`penstock redrive`: short for `penstock queue redrive … --wait`, which shows a bar while messages
move.

The cluster moves them by itself. An engine inside this process (`--url file:…`) does so only as
long as the process lives, so there the command always waits.
"""

import asyncio
from typing import Annotated

from cyclopts import CycloptsError, Parameter
from rich.console import Console
from rich.progress import Progress

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.queue import moves as queue_moves
from penstock.cli.queue.messages import Name
from penstock.cli.queue.moves import LOOK_SECONDS, NO_CONDITION, OVER, MessageConditions
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.client.descriptions import MoveDescription
from penstock.core.plurals import counted


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
        bool,
        Parameter(
            negative="--no-wait",
            show_default=False,
            help="Wait until the move is over (the default), or return at once.",
        ),
    ] = True,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> int | None:
    """Move dead letters back to the queue they died in, or to another queue.

    It waits until they are moved, and shows the progress on a terminal. The cluster moves them,
    even if this command is stopped: Ctrl-C ends the command and not the move, which
    `penstock queue moves` lists and stops.

    Examples
    --------
    penstock redrive jobs-dlq --dry-run
    penstock redrive jobs-dlq
    penstock redrive jobs-dlq --reason timeout --rate 50
    penstock redrive jobs-dlq --to jobs-retry --no-wait
    penstock redrive jobs-dlq --url file:./data
    """
    url = broker.directory()
    if url is None:
        return queue_moves.redrive(
            name,
            to=to,
            chosen=chosen,
            rate=rate,
            dry_run=dry_run,
            wait=wait,
            broker=broker,
            json=json,
        )
    if chosen != NO_CONDITION:
        raise CycloptsError(
            msg=f"Conditions need a broker, and {url} is a directory; leave them out, or start one."
        )

    async def work(client: Client) -> MoveDescription | int:
        return await _move(client, name, to=to, rate=rate, dry_run=dry_run, wait=wait)

    return _tell(with_client(url, work), name, to, json=json)


def _tell(outcome: MoveDescription | int, name: str, to: str | None, *, json: bool) -> int | None:
    """Say how it went, as `queue redrive` does; returns the exit code."""
    if isinstance(outcome, int):
        if json:
            print_json({"matching": outcome})
        else:
            print(f"{counted(outcome, 'message')} would be moved")
        return None
    if json:
        print_json(outcome)
    else:
        where = f"to {to}" if to else "back to where they died"
        failure = f": {outcome.failure}" if outcome.failure else ""
        print(f"{counted(outcome.moved, 'message')} of {name} {where}, {outcome.state}{failure}")
    return 1 if outcome.state == "failed" else None


async def _move(
    client: Client, name: str, *, to: str | None, rate: int | None, dry_run: bool, wait: bool
) -> MoveDescription | int:
    """Redrive and return the final state of the move; with `dry_run`, the number of messages."""
    redriven = await client.queue(name).redrive(to=to, rate=rate, dry_run=dry_run)
    if dry_run:
        return redriven.count
    seen = await redriven.progress()
    talk = Console(stderr=True)
    with Progress(console=talk, disable=not talk.is_terminal, transient=True) as progress:
        bar = progress.add_task(f"moving messages of {name}", total=seen.total or None)
        while seen.state not in OVER and (wait or client.url.startswith("file:")):
            await asyncio.sleep(LOOK_SECONDS)
            seen = await redriven.progress()
            progress.update(bar, completed=seen.moved)
    return seen
