"""`penstock group …`: consumer groups, that is who reads which log and how far behind they are.

Work groups of queues are not meant: `penstock queue` looks after those.
"""

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json, Yes, ask_back, print_json
from penstock.cli.session import with_client
from penstock.cli.table import print_table
from penstock.client.client import Client
from penstock.client.group_descriptions import GroupDescription, GroupSummary, OffsetChange
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.start_position import Start
from penstock.core.log_place import ALLOWED, Anchor, Place, parse_place
from penstock.core.plurals import counted

app = App(name="group", help="Show, reset and delete consumer groups.")

Name = Annotated[str, Parameter(help="The name of the group.")]


@app.command(name="list")
def list_groups(
    *,
    prefix: Annotated[str, Parameter(show_default=False, help="Only names with this prefix.")] = "",
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """List the consumer groups and their coordinators.

    Examples
    --------
    penstock group list
    penstock group list --prefix shop- --json
    """

    async def work(client: Client) -> list[GroupSummary]:
        return [one for one in await client.groups() if one.name.startswith(prefix)]

    found = with_client(url, work)
    if json:
        print_json(found)
    elif found:
        rows = [(one.name, one.state, one.coordinator) for one in found]
        print_table(("GROUP", "STATE", "COORDINATOR"), rows)
    else:
        print("there are no groups; one is created by its first consumer", file=sys.stderr)


@app.command
def describe(name: Name, /, *, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Show the members of a group, its committed offsets and its lag.

    Examples
    --------
    penstock group describe billing
    penstock group describe billing --json
    """

    async def work(client: Client) -> GroupDescription:
        return await client.describe_group(name)

    found = with_client(url, work)
    if json:
        partitions = [{**msgspec.to_builtins(one), "lag": one.lag} for one in found.partitions]
        members = [
            {**msgspec.to_builtins(one), "assigned": [part._asdict() for part in one.assigned]}
            for one in found.members
        ]
        described = msgspec.to_builtins(found) | {"members": members, "partitions": partitions}
        print_json({**described, "lag": found.lag})
        return
    shared = f", shared by {found.assignor}" if found.assignor else ""
    print(f"group {name}: {found.state}{shared}, {counted(found.lag, 'message')} behind\n")
    if found.members:
        rows = [
            (
                one.id,
                one.instance_id or "-",
                one.client_id or "-",
                one.host or "-",
                _assigned(one.assigned),
            )
            for one in found.members
        ]
        print_table(("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"), rows)
    else:
        print("it has no members now")
    if found.partitions:
        print()
        print_table(
            ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG"),
            [
                (one.topic, one.partition, one.committed, _known(one.end), _known(one.lag))
                for one in found.partitions
            ],
        )


def _assigned(parts: tuple[TopicPartition, ...]) -> str:
    """`orders:0,2 bills:1`."""
    topics: dict[str, list[str]] = {}
    for topic, index in parts:
        topics.setdefault(topic, []).append(str(index))
    return " ".join(f"{topic}:{','.join(some)}" for topic, some in topics.items()) or "-"


@app.command
def reset(
    name: Name,
    /,
    *,
    to: Annotated[
        str,
        Parameter(
            metavar="PLACE",
            allow_leading_hyphen=True,
            help="earliest, latest, an offset, -10 for the last ten of each partition, +5, or a"
            " time such as @2026-01-31T09:30:00Z or @-1h.",
        ),
    ],
    topic: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--topic", "-t"],
            metavar="NAME",
            negative="",
            show_default=False,
            help="Only this topic, by default all that the group has read; may be repeated.",
        ),
    ] = (),
    dry_run: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Show the effect without changing anything."
        ),
    ] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Reset the offsets of a group, which must have no members while that happens.

    The changes are shown first and need a confirmation; scripts use --yes.

    Examples
    --------
    penstock group reset billing --to earliest --dry-run
    penstock group reset billing --to @2026-01-31T09:30:00Z --topic orders
    penstock group reset billing --to -100 --yes
    """
    try:
        place = parse_place(to, int(time.time() * 1_000))
    except ValueError as error:
        raise CycloptsError(msg=f'--to = "{to}" must be {ALLOWED}.') from error
    changes = with_client(url, lambda client: _reset(client, name, place, topic, dry_run=True))
    if not json:
        _print_changes(changes)
    if not dry_run:
        if not yes:
            sys.stdout.flush()
            ask_back(
                name,
                warning=f"This would reset the offsets of group {name}.",
                kept=f"the name does not match; {name} is as it was",
                cannot=f"a reset of {name} makes its members repeat or skip messages",
            )
        changes = with_client(url, lambda client: _reset(client, name, place, topic, dry_run=False))
        print(f"the offsets of group {name} are reset", file=sys.stderr)
    if json:
        print_json({"changes": changes, "dry_run": dry_run})


@app.command
def delete(name: Name, /, *, yes: Yes = False, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Delete a group and its committed offsets.

    Examples
    --------
    penstock group delete billing
    penstock group delete billing --yes
    """
    if not yes:
        ask_back(
            name,
            warning=f"This would delete group {name} and its offsets.",
            kept=f"the name does not match; {name} stays",
            cannot=f"deleting {name} cannot be undone",
        )
    with_client(url, lambda client: client.delete_group(name))
    if json:
        print_json({"deleted": name})
    else:
        print(f"group {name} is deleted")


async def _reset(
    client: Client, name: str, place: Place, topics: Sequence[str], *, dry_run: bool
) -> list[OffsetChange]:
    names = list(topics)
    if not names and (place.number or place.anchor is Anchor.ZERO):
        described = await client.describe_group(name)
        names = sorted({one.topic for one in described.partitions})
    to = await _start(client, place, names)
    return await client.reset_group(name, to, topics=names or None, dry_run=dry_run)


async def _start(client: Client, place: Place, topics: Sequence[str]) -> Start:
    """A place in the words of the client, in all partitions of these topics."""
    if place.anchor is Anchor.TIME:
        return place.time
    if place.anchor is Anchor.ZERO or place.number:
        return {
            TopicPartition(name, one.index): place.offset_in(start=one.start, end=one.end)
            for name in topics
            for one in (await client.describe_topic(name)).partitions
        }
    return "earliest" if place.anchor is Anchor.START else "latest"


def _print_changes(changes: Sequence[OffsetChange]) -> None:
    print_table(
        ("TOPIC", "PARTITION", "WAS AT", "GOES ON AT"),
        [(one.topic, one.partition, _known(one.before), one.after) for one in changes],
    )


def _known(number: int | None) -> int | str:
    return "-" if number is None else number
