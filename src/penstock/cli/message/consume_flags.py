"""The flags of `penstock consume`, with what its help says about them."""

from typing import Annotated

from cyclopts import Parameter

Offset = Annotated[
    str,
    Parameter(
        name=["--offset", "-o"],
        metavar="PLACE",
        allow_leading_hyphen=True,
        help="Where to begin: start, end, -10 for the last ten of each partition, +5, an offset, or"
        " a time such as @2026-01-31T09:30:00Z or @-1h.",
    ),
]
Partitions = Annotated[
    tuple[int, ...],
    Parameter(
        name=["--partition", "-p"],
        metavar="N",
        negative="",
        show_default=False,
        help="Only this one; may be repeated.",
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
        help="Wait for more at the end, which is usual, or end there.",
    ),
]
Format = Annotated[
    str | None,
    Parameter(
        name=["--format", "-f"],
        metavar="TEXT",
        help="How to print a message: %t topic, %p partition, %o offset, %k key, %v body, %h"
        " headers, %T time, %S size, %i id, %d deliveries, \\n, \\t. [default: %v\\n]",
    ),
]
Group = Annotated[
    str | None,
    Parameter(name=["--group", "-g"], metavar="NAME", help="Read as a member of this group."),
]
Lease = Annotated[
    str | None, Parameter(metavar="DURATION", help="Of a queue: lease the messages for so long.")
]
Ack = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Of a queue: lease them, print them, done."),
]
Release = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Of a queue: lease them, and give them back."),
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
