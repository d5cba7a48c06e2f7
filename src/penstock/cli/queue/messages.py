"""`penstock queue peek, send, receive, cancel`: the messages of a queue."""

import datetime as dt
import shutil
import sys
from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec
from cyclopts import CycloptsError, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.table import format_age, print_table
from penstock.core.clock import SystemClock
from penstock.core.delivery_headers import DEAD_REASON
from penstock.core.limits import QUEUE_WAIT_MS_MAX
from penstock.core.log_place import DIGITS_MAX
from penstock.core.message_states import DELAYED, LEASED
from penstock.core.plurals import counted
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.server.notation import parse_duration_ms
from penstock.web.queue_messages import Encoded, StoredMessage, Text

PAGE_MESSAGES = 100
SEND_MESSAGES = 100
"""The number of lines of stdin in one request."""
SEND_CHARACTERS = 200_000
OF_STATES = ("STATE", "UNTIL")
"""Columns about the state of a message."""

Name = Annotated[str, Parameter(help="The name of the queue.")]
Group = Annotated[
    str, Parameter(metavar="NAME", help="The work group; SQS and HTTP share the default one.")
]
Bodies = Annotated[
    list[str],
    Parameter(show_default=False, help="Bodies of messages; by default the lines of stdin."),
]


BeginAt = Annotated[
    str | None,
    Parameter(
        name=["--from", "-o"],
        metavar="PARTITION:OFFSET",
        help="Start here, such as 0:17; 17 is an offset of --partition, or of the first one.",
    ),
]


class Page(msgspec.Struct):
    messages: list[StoredMessage]
    next: str | None = None


class _Sent(msgspec.Struct):
    partition: int
    offset: int
    duplicate: bool


class _SentAll(msgspec.Struct):
    messages: list[_Sent]


def queue_path(name: str, *parts: str) -> str:
    """The path of a queue, or of a resource of it, at the HTTP port."""
    return "/".join(("/v1/queues", *(quote(part, safe="") for part in (name, *parts))))


def with_query(path: str, **given: object) -> str:
    """A path with those parameters that are not None."""
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return f"{path}?{query}" if query else path


def parse_time_ms(written: str) -> int:
    """Milliseconds since 1970 from an ISO time, which is UTC unless it says otherwise, or from now
    on with a duration, as in "+5m"."""
    if written.startswith("+"):
        now = dt.datetime.now(dt.UTC)
        return int(now.timestamp() * 1_000) + parse_duration_ms(written[1:])
    time = dt.datetime.fromisoformat(written)
    if time.tzinfo is None:
        time = time.replace(tzinfo=dt.UTC)
    return int(time.timestamp() * 1_000)


def parse_flag_time_ms(flag: str, written: str | None) -> int | None:
    """Parse the value of an optional flag as a time; None if the flag is missing."""
    if written is None:
        return None
    try:
        return parse_time_ms(written)
    except ValueError as error:
        raise CycloptsError(
            msg=f'{flag} = "{written}" must be a time such as 2030-01-31T09:30:00Z, or +5m.'
        ) from error


def read_place(argument: str, written: str) -> tuple[int, int]:
    """Partition and offset of a message."""
    partition, _, offset = written.partition(":")
    if not (is_number(partition) and is_number(offset)):
        raise CycloptsError(msg=f'{argument} = "{written}" must be PARTITION:OFFSET, such as 0:17.')
    return int(partition), int(offset)


def is_number(written: str) -> bool:
    """It can be a partition or an offset."""
    return written.isascii() and written.isdecimal() and len(written) <= DIGITS_MAX


def peek(
    name: Name,
    /,
    *,
    state: Annotated[
        str | None,
        Parameter(
            metavar="STATE,...",
            help="Only messages in this state.",
        ),
    ] = None,
    limit: Annotated[
        int, Parameter(name=["--limit", "-n"], help="Maximum number of messages.")
    ] = 20,
    partition: Annotated[
        int | None, Parameter(name=["--partition", "-p"], help="Only this partition.")
    ] = None,
    start: BeginAt = None,
    group: Group = DEFAULT_WORK_GROUP,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Show messages without leasing them; deliveries are not counted.

    Examples
    --------
    penstock queue peek jobs
    penstock queue peek jobs --state dead,delayed -n 100
    penstock queue peek jobs --json --from 0:17
    """
    found: list[StoredMessage] = []
    after: str | None = start
    while True:
        path = with_query(
            queue_path(name, "messages"),
            state=state,
            limit=min(limit - len(found), PAGE_MESSAGES),
            partition=partition,
            **({"from": after} if after is not None else {}),
            group=group,
        )
        page = broker.ask_for("GET", path, Page)
        found += page.messages
        after = page.next
        if after is None or len(found) >= limit:
            break
    if json:
        print_json({"messages": found, "next": after})
    else:
        print_messages(found)
        if after is not None:
            print(f"there are more; go on with --from {after}", file=sys.stderr)


def send(
    name: Name,
    bodies: Bodies = [],  # noqa: B006
    /,
    *,
    key: Annotated[
        str | None, Parameter(name=["--key", "-k"], metavar="TEXT", help="The key of all messages.")
    ] = None,
    header: Annotated[
        list[str],
        Parameter(
            name=["--header", "-H"],
            metavar="NAME=VALUE",
            negative="",
            show_default=False,
            help="May be repeated.",
        ),
    ] = [],  # noqa: B006
    priority: Annotated[
        int | None, Parameter(help="The priority, 0 to 9; higher is delivered sooner.")
    ] = None,
    delay: Annotated[
        str | None, Parameter(metavar="DURATION", help="Deliver after this delay.")
    ] = None,
    at: Annotated[
        str | None,
        Parameter(metavar="TIME", help="Deliver after this time: 2030-01-31T09:30:00Z, or +5m."),
    ] = None,
    ttl: Annotated[
        str | None, Parameter(metavar="DURATION", help="Expire after this time.")
    ] = None,
    message_group: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Message group: messages of one group keep their order."),
    ] = None,
    dedup_id: Annotated[
        str | None, Parameter(metavar="ID", help="A second message with this id is dropped.")
    ] = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Send messages: those given, or each line of stdin.

    Examples
    --------
    penstock queue send jobs 'resize cat.png' --delay 5m --priority 9
    cat lines.txt | penstock queue send jobs -k customer-7 -H source=batch
    """
    said = {
        "key": key,
        "headers": dict(_header(one) for one in header) or None,
        "priority": priority,
        "delay_ms": _duration("--delay", delay),
        "deliver_at_ms": parse_flag_time_ms("--at", at),
        "ttl_ms": _duration("--ttl", ttl),
        "message_group": message_group,
        "deduplication_id": dedup_id,
    }
    said = {word: value for word, value in said.items() if value is not None}
    sent: list[_Sent] = []
    lines = bodies or [line.rstrip("\n") for line in sys.stdin]
    for batch in _batches(lines):
        body = {"messages": [{"body": line, **said} for line in batch]}
        sent += broker.ask_for("POST", queue_path(name, "messages"), _SentAll, body).messages
    if json:
        print_json({"messages": sent})
        return
    for one in sent:
        repeated = " (a duplicate: this is the first one)" if one.duplicate else ""
        print(f"{name} partition {one.partition} offset {one.offset}{repeated}")


def receive(
    name: Name,
    /,
    *,
    limit: Annotated[
        int, Parameter(name=["--limit", "-n"], help="Maximum number of messages.")
    ] = 1,
    wait: Annotated[
        str | None,
        Parameter(metavar="DURATION", help="Wait this long for the first one, such as 30s."),
    ] = None,
    lease: Annotated[
        str | None,
        Parameter(metavar="DURATION", help="Lease (visibility timeout) of the messages."),
    ] = None,
    ack: Annotated[
        bool, Parameter(negative="", show_default=False, help="Acknowledge the messages.")
    ] = False,
    group: Group = DEFAULT_WORK_GROUP,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Receive messages as a worker does. Without --ack they are delivered again when their leases
    end.

    Examples
    --------
    penstock queue receive jobs --wait 20s --ack
    penstock queue receive jobs -n 10 --lease 5m --json
    """
    body = {"max": limit, "group": group, "lease_ms": _duration("--lease", lease)}
    found = _received(broker, name, body, _duration("--wait", wait) or 0)
    if json:
        print_json({"messages": found})
    else:
        # Acknowledged is no state that a table of messages knows: they are gone.
        print_messages(found, with_states=not ack)
    # Printed before they are acknowledged: what nobody has seen comes back.
    sys.stdout.flush()
    if ack and found:
        verdicts = [{"receipt": one.receipt, "verdict": "ack"} for one in found]
        path = queue_path(name, "settle")
        outcome = broker.ask_for("POST", path, dict[str, list[str]], {"verdicts": verdicts})
        late = sum(word != "done" for word in outcome["outcomes"])
        if late:
            print(f"{late} of them were not leased to us any more", file=sys.stderr)
        print(f"{counted(len(found) - late, 'message')} acked", file=sys.stderr)


def _received(
    broker: BrokerAddress, name: str, body: dict[str, object], wait_ms: int
) -> list[StoredMessage]:
    """Receive messages, waiting up to `wait_ms`, which may take several requests."""
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + wait_ms
    while True:
        left_ms = max(0, deadline_ms - clock.monotonic_ms())
        asked = {**body, "wait_ms": min(left_ms, QUEUE_WAIT_MS_MAX)}
        found = broker.ask_for("POST", queue_path(name, "receive"), Page, asked).messages
        if found or left_ms <= QUEUE_WAIT_MS_MAX:
            return found


def cancel(
    name: Name,
    place: Annotated[
        str,
        Parameter(metavar="PARTITION:OFFSET", help="The place, from `send` or `peek`: 0:17."),
    ],
    offset: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    group: Group = DEFAULT_WORK_GROUP,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Cancel a message that is ready or delayed: it is never delivered.

    Examples
    --------
    # the message at offset 17 of partition 0
    penstock queue cancel jobs 0:17
    """
    # Until 0.1 the two numbers were two arguments, which is still understood.
    partition, number = read_place("PLACE", place if offset is None else f"{place}:{offset}")
    path = with_query(queue_path(name, "messages", str(partition), str(number)), group=group)
    answer = broker.ask_for("DELETE", path, dict[str, int])
    if json:
        print_json(answer)
    else:
        print(f"message {partition}:{number} of {name} is called off")


def print_messages(messages: list[StoredMessage], *, with_states: bool = True) -> None:
    """A line each; bodies are cut to the terminal, and never cut where there is none."""
    now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1_000)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    rows = [
        (
            one.partition,
            one.offset,
            one.state,
            one.deliveries,
            format_age(max(0, now_ms - one.timestamp_ms)),
            _until(one, now_ms),
            _shown(one.key, 20 if columns else 0),
            _shown(one.body, max(20, columns - 60) if columns else 0),
            one.reason or _shown(_dead_reason(one), 40 if columns else 0),
        )
        for one in messages
    ]
    if rows:
        heads = ("PARTITION", "OFFSET", "STATE", "DELIVERIES", "AGE", "UNTIL", "KEY", "BODY",
                 "REASON")  # fmt: skip
        shown = [one for one in range(len(heads)) if with_states or heads[one] not in OF_STATES]
        print_table([heads[one] for one in shown], [[row[one] for one in shown] for row in rows])
    else:
        print("no messages", file=sys.stderr)


def _until(message: StoredMessage, now_ms: int) -> str:
    """In which time a lease or a delay ends: "in 3m"; nothing for other states."""
    if message.state not in (LEASED, DELAYED) or message.until_ms < 0:
        return "-"
    return f"in {format_age(max(0, message.until_ms - now_ms))}"


def _dead_reason(message: StoredMessage) -> Text:
    """The reason of a dead letter, from its header."""
    said = message.headers.get(DEAD_REASON, "")
    return said[0] if isinstance(said, list) else said


def _shown(text: Text, characters_max: int) -> str:
    if text is None:
        return "-"
    written = f"base64:{msgspec.to_builtins(text)['base64']}" if isinstance(text, Encoded) else text
    # A body must not move the cursor or colour the terminal.
    plain = "".join(one if one.isprintable() else repr(one)[1:-1] for one in written)
    if characters_max and len(plain) > characters_max:
        return plain[: characters_max - 1] + "…"
    return plain


def _batches(lines: list[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    characters = SEND_CHARACTERS
    for line in lines:
        if characters + len(line) > SEND_CHARACTERS or len(batches[-1]) >= SEND_MESSAGES:
            batches.append([])
            characters = 0
        batches[-1].append(line)
        characters += len(line)
    return batches


def _header(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise CycloptsError(msg=f'--header = "{written}" must be NAME=VALUE.')
    return name, value


def _duration(flag: str, written: str | None) -> int | None:
    if written is None:
        return None
    try:
        return parse_duration_ms(written)
    except ValueError as error:
        raise CycloptsError(
            msg=f'{flag} = "{written}" must be a duration with its unit, such as "30s".'
        ) from error
