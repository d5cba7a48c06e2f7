"""The flags of `penstock consume`, with what its help says about them."""

from typing import Annotated

from cyclopts import Parameter

Offset = Annotated[
    str,
    Parameter(
        name=["--offset", "-o"],
        metavar="PLACE",
        allow_leading_hyphen=True,
        help="The start position: start, end, -10 for the last ten of each partition, +5, an"
        " offset, or a time such as @2026-01-31T09:30:00Z or @-1h.",
    ),
]
Partitions = Annotated[
    tuple[int, ...],
    Parameter(
        name=["--partition", "-p"],
        metavar="N",
        negative="",
        show_default=False,
        help="Only this partition; may be repeated.",
    ),
]
Limit = Annotated[
    int | None,
    Parameter(name=["--limit", "-n"], metavar="N", help="Stop after this many messages."),
]
Follow = Annotated[
    bool,
    Parameter(
        name="--follow",
        negative=["--exit", "-e"],
        show_default=False,
        help="At the end, wait for more messages (the default) or exit.",
    ),
]
Format = Annotated[
    str | None,
    Parameter(
        name=["--format", "-f"],
        metavar="TEXT",
        help="The format of a message: %t topic, %p partition, %o offset, %k key, %v body, %h"
        " headers, %T time, %S size, %i id, %d deliveries, \\n, \\t. [default: %v\\n]",
    ),
]
Group = Annotated[
    str | None,
    Parameter(name=["--group", "-g"], metavar="NAME", help="Read as a member of this group."),
]
Lease = Annotated[
    str | None, Parameter(metavar="DURATION", help="For a queue: the duration of the lease.")
]
Ack = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="For a queue: acknowledge the messages after printing them.",
    ),
]
Release = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="For a queue: release the messages after printing them.",
    ),
]
JsonLines = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print each message as a line of JSON.",
    ),
]
