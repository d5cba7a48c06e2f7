"""`penstock consume`: print the messages of a topic or a queue.

There are three ways to read, and the flags say which:

    as a log             the usual one, of queues as well: no lease, nothing is counted
    --group              as a member of a consumer group: goes on where the group had got to
    --lease, --ack, …    as a worker of a queue (see `leases.py`)
"""

import sys
import time
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.message.consume_flags import (
    Ack,
    Follow,
    Format,
    Group,
    JsonLines,
    Lease,
    Limit,
    Offset,
    Partitions,
    Release,
)
from penstock.cli.message.leases import Fate, print_leased
from penstock.cli.message.log_messages import print_group, print_log
from penstock.cli.message.message_flags import seconds
from penstock.cli.message.output import open_output
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.core.errors import LocalError
from penstock.core.log_place import ALLOWED, Place, parse_place
from penstock.core.queue_rules import DEFAULT_WORK_GROUP


def consume(
    name: Annotated[str, Parameter(help="The topic or queue.")],
    /,
    *,
    offset: Offset = "start",
    partition: Partitions = (),
    limit: Limit = None,
    follow: Follow = True,
    written: Format = None,
    group: Group = None,
    lease: Lease = None,
    ack: Ack = False,
    release: Release = False,
    url: Url = DEFAULT_URL,
    json: JsonLines = False,
) -> None:
    r"""Print the messages of a topic or a queue as they come, a line each, until Ctrl-C.

    A queue is read like a log: nothing is leased or counted, unless --lease, --ack or --release is
    there. With --json every message is one line of JSON, which `penstock produce --json` takes.

    Examples
    --------
    penstock consume orders --exit
    penstock consume orders -o -10 -f '%p:%o %k\t%v\n'
    penstock consume orders -o @-1h --json | head -3
    penstock consume orders --group billing
    penstock consume jobs -n 10 --ack
    penstock consume jobs --lease 1m --release --exit
    """
    place = _place(offset)
    fate = _fate(lease, ack=ack, release=release)
    lease_seconds = seconds("--lease", lease)
    kind = "topic" if fate is None else "queue"
    output = open_output(name, written=written, json=json, limit=limit, kind=kind)
    if partition and (fate is not None or group is not None):
        raise CycloptsError(
            msg="--partition cannot be combined with --group, whose members share all partitions."
        )
    if offset != "start" and fate is not None:
        raise CycloptsError(msg="--offset is for topics; a queue chooses the next message itself.")

    async def work(client: Client) -> None:
        found = await client.describe_topic(name)
        if fate is None:
            if group is not None:
                await print_group(client, found, output, group=group, place=place, follow=follow)
                return
            if found.is_queue and sys.stderr.isatty():
                print(f"{name} is a queue; its log is read, nothing is leased", file=sys.stderr)
            await print_log(client, found, output, place=place, partitions=partition, follow=follow)
            return
        if not found.is_queue:
            raise LocalError(f"{name} is a topic, not a queue: its messages cannot be leased")
        queue = client.queue(name, codec=bytes, group=group or DEFAULT_WORK_GROUP)
        await print_leased(queue, output, fate=fate, lease=lease_seconds, follow=follow)

    with_client(url, work)


def _place(written: str) -> Place:
    try:
        return parse_place(written, int(time.time() * 1_000))
    except ValueError as error:
        raise CycloptsError(msg=f'--offset = "{written}" must be {ALLOWED}.') from error


def _fate(lease: str | None, *, ack: bool, release: bool) -> Fate | None:
    """The fate of leased messages, by the flags; None if messages are not leased."""
    if ack and release:
        raise CycloptsError(msg="--ack and --release exclude each other.")
    if ack:
        return Fate.ACK
    if release:
        return Fate.RELEASE
    return Fate.LEASED if lease is not None else None
