"""`penstock peek`: short for `penstock queue peek`, over the native protocol, so that it looks into
a `file:` directory as well."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from cyclopts import CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json, print_json
from penstock.cli.queue.messages import BeginAt, Group, Name, is_number, print_messages, read_place
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.client.codecs import Encoded
from penstock.client.peeked_message import PeekedMessage
from penstock.core.message import Header
from penstock.core.message_states import STATES, parse_states
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.web.queue_messages import HeaderValue, StoredMessage, text


class Stored(NamedTuple):
    """A message as it lies in a log, with all its headers, also Penstock's own."""

    data: bytes
    headers: tuple[Header, ...]

    def text(self, name: str) -> str | None:
        """A header as a text."""
        for known, value in self.headers:
            if known == name:
                return None if value is None else value.decode(errors="replace")
        return None

    def number(self, name: str) -> int | None:
        """A header that is a number."""
        found = self.text(name)
        return int(found) if found is not None and found.isdecimal() else None


class StoredCodec:
    """Hands out what is stored; a command that looks at messages has nothing to send."""

    def encode(self, value: Stored) -> Encoded:
        return value.data, value.headers

    def decode(self, data: bytes, headers: Sequence[Header]) -> Stored:
        return Stored(data, tuple(headers))


def peek(
    name: Name,
    /,
    *,
    state: Annotated[
        str | None,
        Parameter(metavar="STATE,...", help="Only messages in this state."),
    ] = None,
    limit: Annotated[
        int, Parameter(name=["--limit", "-n"], help="Maximum number of messages.")
    ] = 20,
    partition: Annotated[
        int | None, Parameter(name=["--partition", "-p"], help="Only this partition.")
    ] = None,
    start: BeginAt = None,
    group: Group = DEFAULT_WORK_GROUP,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Show messages of a queue without leasing them; deliveries are not counted.

    Examples
    --------
    penstock peek jobs
    penstock peek jobs --state dead,delayed -n 100
    penstock peek jobs --json --url file:./data
    """
    states = None if state is None else _states(state)
    first, offset = _begin(start, partition)

    async def work(client: Client) -> list[PeekedMessage[Stored]]:
        queue = client.queue(name, group=group, codec=StoredCodec())
        if start is None or partition is not None:
            return await queue.peek(limit, states=states, partition=partition, start=offset)
        found: list[PeekedMessage[Stored]] = []
        last = len((await client.describe_topic(name)).partitions) - 1
        for index in range(first, max(first, last) + 1):
            if len(found) < limit:
                begin = offset if index == first else 0
                left = limit - len(found)
                found += await queue.peek(left, states=states, partition=index, start=begin)
        return found

    found = [_stored(one) for one in with_client(url, work)]
    if json:
        print_json({"messages": found})
    else:
        print_messages(found)


def _begin(start: str | None, partition: int | None) -> tuple[int, int]:
    """The first partition to look at, and the offset to begin at there."""
    if start is None:
        return 0, 0
    if is_number(start):
        return partition or 0, int(start)
    first, offset = read_place("--from", start)
    if partition is not None and first != partition:
        raise CycloptsError(msg=f'--from = "{start}" is not in partition {partition}.')
    return first, offset


def _states(written: str) -> list[str]:
    try:
        return sorted(parse_states(written.split(",")))
    except ValueError as error:
        raise CycloptsError(
            msg=f'--state = "{written}" must be some of {", ".join(STATES)}.'
        ) from error


def _stored(message: PeekedMessage[Stored]) -> StoredMessage:
    """Convert a message to the form in which `penstock queue peek` prints it."""
    body: Stored | None = message.body  # None if there is none, whatever the codec is.
    headers: dict[str, HeaderValue] = {} if body is None else _headers(body)
    return StoredMessage(
        partition=message.partition,
        offset=message.offset,
        state=message.state,
        deliveries=message.deliveries,
        timestamp_ms=message.timestamp_ms,
        until_ms=-1 if message.until is None else int(message.until.timestamp() * 1_000),
        reason=message.reason,
        key=text(message.key),
        body=None if body is None else text(body.data),
        headers=headers,
    )


def _headers(stored: Stored) -> dict[str, HeaderValue]:
    return {name: text(value) for name, value in stored.headers}
