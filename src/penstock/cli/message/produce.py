"""`penstock produce`: send the lines of stdin, or of files, to a topic or a queue.

    blocks of lines  ──▶  lists of messages  ──▶  a few `send_many` on their way, in order

Memory is bounded whatever comes in: a block is read when there is room for it, and there is room
when the broker has acknowledged an earlier one. So a slow broker slows the pipe down, and not the
other way round. What was acknowledged is printed at the end, also after an error.
"""

import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Annotated, Literal

from cyclopts import CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.message.formats import unescape
from penstock.cli.message.json_lines import outgoing_of
from penstock.cli.message.lines import read_blocks, split_lines
from penstock.cli.message.message_flags import NUMBER_MARK, PLAIN, Handling
from penstock.cli.message.sender import Batch, SendMany, Tally, byte_bar, paced, send_batches
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.client.producer.outgoing_message import Outgoing
from penstock.core.errors import LocalError, UnknownTopic

BATCH_MESSAGES = 10_000

Make = Callable[[list[bytes], int], Batch]


Files = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--file", "-F"],
        metavar="PATH",
        negative="",
        show_default=False,
        help="Read this file instead of stdin; may be repeated.",
    ),
]
NullDelimited = Annotated[
    bool,
    Parameter(
        name=["--null-delimited", "-0"],
        negative="",
        show_default=False,
        help="Messages end with a zero byte, as from `find -print0`, instead of a newline.",
    ),
]
KeyDelimiter = Annotated[
    str | None,
    Parameter(
        name=["--key-delimiter", "-K"],
        metavar="TEXT",
        help="Separator between key and value in a line; \\t is a tab.",
    ),
]
JsonLines = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Each line is a JSON object: body, key, headers, delay, at, ttl, priority,"
        " message_group, dedup_id.",
    ),
]
Count = Annotated[int, Parameter(name=["--count", "-n"], help="Send each message this many times.")]
Rate = Annotated[float | None, Parameter(metavar="N", help="Maximum rate, messages a second.")]
Create = Annotated[
    Literal["topic", "queue"] | None,
    Parameter(help="Create the topic or queue if it does not exist."),
]
Quiet = Annotated[
    bool,
    Parameter(
        name=["--quiet", "-q"], negative="", show_default=False, help="Do not report progress."
    ),
]


def produce(
    name: Annotated[str, Parameter(help="The topic or queue.")],
    /,
    *,
    file: Files = (),
    null_delimited: NullDelimited = False,
    key_delimiter: KeyDelimiter = None,
    json: JsonLines = False,
    handling: Handling = PLAIN,
    count: Count = 1,
    rate: Rate = None,
    create: Create = None,
    quiet: Quiet = False,
    url: Url = DEFAULT_URL,
) -> None:
    r"""Send each line of stdin, or of a file, as a message.

    The number of acknowledged messages is printed to stderr at the end. Input of any size
    is sent as fast as the broker acknowledges it. The format of --json is that of
    `consume --json`.

    Examples
    --------
    printf 'one\ntwo\n' | penstock produce orders
    penstock produce orders --file orders.csv --key-delimiter ,
    echo 'resize cat.png' | penstock produce jobs --delay 5m --priority 9 -H source=shell
    echo '{"body": {"id": 7}, "key": "7", "ttl": "1h"}' | penstock produce jobs --json
    penstock produce jobs --file import.txt --dedup-id 'import-7-%n'
    echo hello | penstock produce jobs --count 100000 --rate 5000
    penstock consume orders --exit --json | penstock produce copy --json --create topic
    """
    _check(count=count, rate=rate, json=json, alone=key_delimiter is None and handling == PLAIN)
    make = _maker(handling, _delimiter(key_delimiter), json=json)
    tally = Tally()
    begun: float | None = None

    async def work(client: Client) -> None:
        nonlocal begun
        send_many = await _target(client, name, create, handling)
        lines = _lines(file, b"\0" if null_delimited else b"\n")
        batches = paced(_batches(lines, make, count), rate)
        begun = time.perf_counter()
        hidden = quiet or (not file and sys.stdin.isatty())  # It would be where one types.
        with byte_bar(f"to {name}", _total_bytes(file, count), quiet=hidden) as advance:
            await send_batches(send_many, batches, tally, advance=advance)

    try:
        with_client(url, work, makes_directory=create is not None)
    except BaseException:
        if begun is not None and tally.messages and not quiet:
            print(tally.sentence(time.perf_counter() - begun), file=sys.stderr)
        raise
    if begun is not None and not quiet:
        print(tally.sentence(time.perf_counter() - begun), file=sys.stderr)


def _check(*, count: int, rate: float | None, json: bool, alone: bool) -> None:
    if count < 1:
        raise CycloptsError(msg=f"--count = {count} must be at least 1.")
    if rate is not None and rate <= 0:
        raise CycloptsError(msg=f"--rate = {rate} must be more than 0.")
    if json and not alone:
        raise CycloptsError(
            msg="--json cannot be combined with options of messages: each line has its own."
        )


def _delimiter(written: str | None) -> bytes | None:
    if written is None:
        return None
    try:
        found = unescape(written)
    except ValueError as error:
        raise CycloptsError(msg=f'--key-delimiter = "{written}": {error}.') from error
    if not found:
        raise CycloptsError(msg="--key-delimiter must not be empty.")
    return found


async def _lines(files: tuple[str, ...], delimiter: bytes) -> AsyncIterator[list[bytes]]:
    if not files:
        if sys.stdin.isatty():
            print("type messages, one a line; Ctrl-D ends", file=sys.stderr)
        async for lines in split_lines(read_blocks(sys.stdin.fileno()), delimiter):
            yield lines
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise LocalError(f"{path} cannot be read: {error.strerror}") from error
        async for lines in split_lines(read_blocks(descriptor), delimiter):
            yield lines
        os.close(descriptor)  # Not after a failure: the reading thread may be at it still.


async def _batches(
    blocks: AsyncIterator[list[bytes]], make: Make, count: int
) -> AsyncIterator[Batch]:
    """Lists of messages, none longer than `BATCH_MESSAGES`."""
    number = 1
    async for lines in blocks:
        for part in _portions(lines, count):
            yield make(part, number)
            number += len(part)


def _portions(lines: list[bytes], count: int) -> Iterator[list[bytes]]:
    if count == 1 and len(lines) <= BATCH_MESSAGES:
        yield lines
        return
    repeated = chain.from_iterable(repeat(line, count) for line in lines)
    while part := list(islice(repeated, BATCH_MESSAGES)):
        yield part


def _maker(handling: Handling, delimiter: bytes | None, *, json: bool) -> Make:
    """Return the function that makes messages of lines, given the number of the first line, from 1.
    Lines without flags or delimiter are sent as they are, which is the fast path."""
    same = handling.outgoing()
    if json:
        return _from_json
    if same.is_plain and delimiter is None:
        return lambda lines, _number: lines

    def make(lines: list[bytes], number: int) -> Batch:
        made: list[Outgoing[bytes | None]] = []
        for place, line in enumerate(lines, number):
            key, body = same.key, line
            if delimiter is not None:
                before, found, after = line.partition(delimiter)
                key, body = (before, after) if found else (same.key, line)
            dedup_id = same.dedup_id and same.dedup_id.replace(NUMBER_MARK, str(place))
            made.append(replace(same, body=body, key=key, dedup_id=dedup_id))
        return made

    return make


def _from_json(lines: list[bytes], number: int) -> Batch:
    return [outgoing_of(line, place) for place, line in enumerate(lines, number)]


async def _target(client: Client, name: str, create: str | None, handling: Handling) -> SendMany:
    """Return the send function of a topic or a queue. A name that is neither is refused unless
    `create` says which to make, so that a slip does not create the wrong kind."""
    try:
        found = await client.describe_topic(name)
    except UnknownTopic:
        if create is None:
            raise LocalError(
                f"there is no topic or queue {name}; make it with `penstock topic create {name}`,"
                " or add --create topic or --create queue"
            ) from None
        if create == "queue":
            await client.create_queue(name, exist_ok=True)
        else:
            await client.create_topic(name, exist_ok=True)
        found = await client.describe_topic(name)
    if found.is_queue:
        off = found.configs.get("queue.priority", "off") == "off"
        if handling.priority is not None and off:
            raise LocalError(
                f"{name} has no priorities, so --priority would not count; give it some with"
                f" `penstock queue configure {name} --priority strict`"
            )
        return client.queue(name).send_many
    flags = handling.of_queues_only()
    if flags:
        raise LocalError(f"{name} is a topic, not a queue: {', '.join(flags)} would not count")
    return client.topic(name).send_many


def _total_bytes(files: tuple[str, ...], count: int) -> int | None:
    """The total size of the input; None if it is unknown."""
    try:
        found = [os.stat(path) for path in files] or [os.fstat(sys.stdin.fileno())]
    except OSError:
        return None
    regular = all(stat.S_ISREG(one.st_mode) for one in found)
    return sum(one.st_size for one in found) * count if regular else None
