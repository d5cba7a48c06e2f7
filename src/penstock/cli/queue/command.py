"""`penstock queue …`: make, look at and run queues, through any node of a cluster.

All of it asks a broker's HTTP port (see `penstock.web.queues`), and `--json` prints its answer.
Messages are in `queue_messages.py`, dead letters in `queue_moves.py`.
"""

import sys
import time
from typing import Annotated

import msgspec
from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, Yes, ask_back, print_json
from penstock.cli.queue import messages as queue_messages
from penstock.cli.queue import moves as queue_moves
from penstock.cli.queue.flags import (
    MILLISECONDS,
    config_name,
    setting_name,
    takes_queue_settings,
)
from penstock.cli.queue.messages import Group, Name, parse_time_ms, queue_path, with_query
from penstock.cli.table import Tone, format_age, print_table
from penstock.core.configs import ConfigValue
from penstock.core.durations import format_duration_ms
from penstock.core.log_place import ALLOWED, Anchor, Place, parse_place
from penstock.core.plurals import counted
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.web.queue_lines import GroupCounts, QueueDetail, QueueLine, ResetPlace

app = App(name="queue", help="Create and manage queues, and show their messages.")

COUNTS = ("sent", "ready", "leased", "delayed", "dead", "acked", "moved")
ENDS = ("expired", "purged", "dropped", "duplicates")
FIFO_SUFFIX, ORDER = ".fifo", "queue.order"
SET_FOR_GROUP = ("own", "group")
_ENDS = {Anchor.START: "earliest", Anchor.END: "latest"}

Given = Annotated[
    list[str],
    Parameter(
        name="--set",
        metavar="NAME=VALUE",
        negative="",
        show_default=False,
        help="Any other topic config by its name; may be repeated.",
    ),
]


class _Listed(msgspec.Struct):
    queues: list[QueueLine]
    next: str | None


class _Reset(msgspec.Struct):
    partitions: list[ResetPlace]
    messages: int
    dry_run: bool


class _Created(msgspec.Struct, kw_only=True):
    name: str
    partitions: int
    settings: dict[str, ConfigValue]
    created: list[str]
    differs: dict[str, ConfigValue] = {}
    """The settings that were requested and differ from those of the existing queue."""


@app.command
@takes_queue_settings
def create(
    settings: dict[str, str],
    name: Name,
    /,
    *,
    partitions: Annotated[
        int, Parameter(name=["--partitions", "-p"], help="The number of partitions.")
    ] = 1,
    exist_ok: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Do not fail if the queue exists; leave it unchanged.",
        ),
    ] = False,
    given: Given = [],  # noqa: B006
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Create a queue, and its dead-letter queue if that does not exist.

    A message that fails is delivered 5 times, after growing waits, and is then moved to the
    dead-letter queue, NAME-dlq, unless you say otherwise: --deliveries-max 0 for any number of
    times, --retry-policy none for at once, --dead-letter-topic '' for no dead-letter queue.
    Messages may carry delivery headers (--no-message-headers turns them off), and are deleted when
    they are done (--no-delete-acked keeps them for log readers, as long as the topic does).
    A queue whose name ends with .fifo is a FIFO queue, unless --order says otherwise.

    Examples
    --------
    penstock queue create jobs
    penstock queue create mails --lease 1m --deliveries-max 3 --dead-letter-topic failed-mails
    penstock queue create orders --order fifo --deduplication id
    penstock queue create images --priority strict --partitions 4
    penstock queue create jobs --exist-ok
    """
    if name.endswith(FIFO_SUFFIX) and ORDER not in settings | _pairs(given):
        # SQS takes the name for the kind; who knows it from there means it.
        settings = {**settings, ORDER: "fifo"}
    body = {"name": name, "partitions": partitions, "settings": settings | _pairs(given)}
    if exist_ok:
        body["exist_ok"] = True
    answer = broker.ask_for("POST", "/v1/queues", _Created, body)
    if json:
        print_json(answer)
        return
    for one in answer.created:
        print(f"queue {one} is made")
    if name not in answer.created:
        print(f"queue {name} is there already")
    for key, value in answer.differs.items():
        remark = f"its {setting_name(key)} is {_written(key, answer.settings.get(key, ''))}, not"
        print(
            f"penstock: {remark} {_written(key, value)}; `penstock queue configure` changes it",
            file=sys.stderr,
        )


@app.command(name="list")
def list_queues(
    *,
    prefix: Annotated[str, Parameter(show_default=False, help="Only names with this prefix.")] = "",
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """List the queues: topics that have a work group, or were created as queues.

    Examples
    --------
    penstock queue list
    penstock queue list --prefix shop- --json
    """
    found = _list(broker, prefix)
    if json:
        print_json(found)
        return
    if not found:
        print("there are no queues; make one: penstock queue create NAME")
        return
    heads = ("QUEUE", "KIND", "GROUP", "READY", "LEASED", "DELAYED", "DEAD", "OLDEST",
             "DEAD LETTERS", "STATE")  # fmt: skip
    print_table(
        heads,
        [row for line in found for row in _rows(line)],
        tones=[tone for line in found for tone in _tones(line)],
        spare=("KIND", "DEAD LETTERS", "OLDEST", "DELAYED"),
    )


@app.command
def describe(name: Name, /, *, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Show the settings of a queue, its messages by state, and its moves.

    Examples
    --------
    penstock queue describe jobs
    """
    found = broker.ask_for("GET", queue_path(name), QueueDetail)
    if json:
        print_json(found)
        return
    parts = "1 partition" if found.partitions == 1 else f"{found.partitions} partitions"
    paused = ", paused" if found.paused else ""
    print(f"queue {found.name}: {found.kind}, {parts}{paused}")
    print()
    print_table(
        ("GROUP", *(state.upper().replace("_", " ") for state in (*COUNTS, *ENDS)), "OLDEST"),
        [
            (one.group, *(getattr(one, state) for state in (*COUNTS, *ENDS)), _oldest(one))
            for one in found.groups
        ],
        spare=("DUPLICATES", "DROPPED", "PURGED", "EXPIRED", "MOVED", "OLDEST"),
    )
    print()
    width = max(map(len, found.settings))
    for key, value in sorted(found.settings.items()):
        print(f"{setting_name(key):<{width}}  {_written(key, value)}")
    for group, settings in sorted(found.group_settings.items()):
        own = {key: one for key, one in settings.items() if one.source in SET_FOR_GROUP}
        if own:
            print(f"\nset for work group {group}; the rest is the queue's")
            for key, one in sorted(own.items()):
                on_all = " (on all topics)" if one.source == "group" else ""
                print(f"{setting_name(key):<{width}}  {_written(key, one.value)}{on_all}")
    if found.moves:
        print()
        queue_moves.print_moves(found.moves)


@app.command
@takes_queue_settings
def configure(
    settings: dict[str, str],
    name: Name,
    /,
    *,
    given: Given = [],  # noqa: B006
    unset: Annotated[
        list[str],
        Parameter(
            metavar="NAME",
            negative="",
            show_default=False,
            help="Reset a setting to its default; may be repeated.",
        ),
    ] = [],  # noqa: B006
    group: Annotated[
        str,
        Parameter(
            metavar="NAME",
            help="Give this work group settings of its own: lease, deliveries-max, retry-policy,"
            " retry-delay, retry-delay-max, dead-letter-topic, dead-letter-policy, in-flight-max."
            " What is not set for it is the queue's.",
        ),
    ] = DEFAULT_WORK_GROUP,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Change settings of a queue.

    Examples
    --------
    penstock queue configure jobs --lease 5m --retry-policy exponential
    penstock queue configure jobs --unset lease
    penstock queue configure jobs --group emails --lease 5m --dead-letter-topic emails-dlq
    """
    changes = settings | _pairs(given) | dict.fromkeys(map(config_name, unset))
    if not changes:
        raise CycloptsError(msg="Nothing to change: name a setting.")
    body: dict[str, object] = {"settings": changes}
    if group != DEFAULT_WORK_GROUP:
        body["group"] = group
    answer = broker.ask("PATCH", queue_path(name), body)
    if json:
        print_json(msgspec.json.decode(answer))
    elif group == DEFAULT_WORK_GROUP:
        print(f"queue {name} is configured")
    else:
        print(f"work group {group} of queue {name} is configured")


@app.command
def delete(
    name: Name, /, *, yes: Yes = False, broker: BrokerAddress = HERE, json: Json = False
) -> None:
    """Delete a queue: its topic, and every message in it.

    Examples
    --------
    penstock queue delete jobs
    penstock queue delete jobs --yes
    """
    if not yes:
        ask_back(
            name,
            warning=f"This would delete queue {name} and all its messages.",
            kept=f"the name does not match; {name} stays",
            cannot=f"deleting {name} cannot be undone",
        )
    answer = broker.ask("DELETE", queue_path(name))
    if json:
        print_json(msgspec.json.decode(answer))
    else:
        print(f"queue {name} is deleted")


@app.command
def purge(
    name: Name,
    /,
    *,
    group: Group = DEFAULT_WORK_GROUP,
    yes: Yes = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Drop all messages of a queue: ready, leased, delayed and dead.

    Examples
    --------
    penstock queue purge jobs --yes
    """
    if not yes:
        ask_back(
            name,
            warning=f"This would drop every message of {name}.",
            kept=f"the name does not match; {name} is as it was",
            cannot=f"purging {name} cannot be undone",
        )
    answer = broker.ask("POST", queue_path(name, "purge"), {"group": group})
    if json:
        print_json(msgspec.json.decode(answer))
    else:
        print(f"queue {name} is purged")


@app.command
def pause(name: Name, /, *, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Pause delivery. Messages can still be sent, and existing leases stay valid.

    Examples
    --------
    penstock queue pause jobs
    """
    _order(name, "pause", f"queue {name} is paused; go on with: penstock queue resume {name}",
           broker=broker, json=json)  # fmt: skip


@app.command
def resume(name: Name, /, *, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Resume delivery.

    Examples
    --------
    penstock queue resume jobs
    """
    _order(name, "resume", f"queue {name} delivers again", broker=broker, json=json)


@app.command
def reset(
    name: Name,
    start: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    to: Annotated[
        str | None,
        Parameter(
            metavar="PLACE",
            allow_leading_hyphen=True,
            help="earliest, latest, an offset, -10 for the last ten of each partition, +5, or a"
            " time such as @2026-01-31T09:30:00Z or @-1h.",
        ),
    ] = None,
    group: Group = DEFAULT_WORK_GROUP,
    partition: Annotated[int | None, Parameter(help="Only this partition.")] = None,
    dry_run: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Show the effect without changing anything."
        ),
    ] = False,
    yes: Yes = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Reset a work group to another offset: leases end, and messages from there on are delivered.

    Examples
    --------
    penstock queue reset jobs --to earliest --dry-run
    penstock queue reset jobs --to @-1h
    penstock queue reset jobs --to @2026-01-31T09:30:00Z --yes
    """
    # Until 0.1 the place was an argument, which is still understood.
    if (to is None) == (start is None):
        raise CycloptsError(msg=f"Say once where to go on: --to must be {ALLOWED}.")
    written = to or start or ""
    place = _place(written)
    if not yes and not dry_run:
        ask_back(
            name,
            warning=f"This would reset the offsets of group {group} of {name} to {written}.",
            kept=f"the name does not match; {name} is unchanged",
            cannot=f"a reset of {name} makes workers repeat or skip messages",
        )
    wanted: dict[str, object] = {"group": group, "partition": partition}
    answer = _reset(broker, queue_path(name, "reset"), wanted, place, dry_run=dry_run)
    if json:
        print_json(answer)
        return
    print_table(
        ("PARTITION", "WAS AT", "GOES ON AT", "END"),
        [(one.partition, one.was, one.start, one.end) for one in answer.partitions],
    )
    verb = "would be" if answer.dry_run else "is" if answer.messages == 1 else "are"
    print(f"\n{counted(answer.messages, 'message')} {verb} ahead of group {group}")


for _verb in (
    queue_messages.peek,
    queue_messages.send,
    queue_messages.receive,
    queue_messages.cancel,
    queue_moves.redrive,
    queue_moves.moves,
    queue_moves.dead,
):
    app.command(_verb)


def _list(broker: BrokerAddress, prefix: str) -> list[QueueLine]:
    found: list[QueueLine] = []
    after: str | None = ""
    while after is not None:
        path = with_query("/v1/queues", prefix=prefix, after=after)
        page = broker.ask_for("GET", path, _Listed)
        found += page.queues
        after = page.next
    return found


def _rows(line: QueueLine) -> list[tuple[object, ...]]:
    groups: list[GroupCounts | None] = [*line.groups] or [None]
    state = "paused" if line.paused else ""
    letters = line.dead_letter_topic or "-"
    return [
        (line.name, line.kind, "-", 0, 0, 0, 0, "-", letters, state)
        if one is None
        else (
            line.name, line.kind, one.group, one.ready, one.leased, one.delayed, one.dead,
            _oldest(one), letters, state,
        )
        for one in groups
    ]  # fmt: skip


def _tones(line: QueueLine) -> list[Tone]:
    """Dead letters wait for a person, and so does a queue that is paused."""
    paused: Tone = "attention" if line.paused else ""
    return ["critical" if one.dead else paused for one in line.groups] or [paused]


def _oldest(counts: GroupCounts) -> str:
    return "-" if counts.oldest_age_ms is None else format_age(counts.oldest_age_ms)


def _written(key: str, value: ConfigValue) -> str:
    if key.endswith(MILLISECONDS) and isinstance(value, int):
        return format_duration_ms(value) if value >= 0 else "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value != "" else "-"


def _order(name: str, verb: str, sentence: str, *, broker: BrokerAddress, json: bool) -> None:
    answer = broker.ask("POST", queue_path(name, verb), {})
    if json:
        print_json(msgspec.json.decode(answer))
    else:
        print(sentence)


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise CycloptsError(msg=f'--set = "{one}" must be NAME=VALUE.')
        pairs[config_name(key)] = value
    return pairs


def _place(written: str) -> Place:
    """Also a time without @, as it was written until 0.1."""
    try:
        return parse_place(written, int(time.time() * 1_000))
    except ValueError:
        pass
    try:
        return Place(anchor=Anchor.TIME, number=parse_time_ms(written))
    except ValueError as error:
        raise CycloptsError(msg=f'--to = "{written}" must be {ALLOWED}.') from error


def _reset(
    broker: BrokerAddress, path: str, wanted: dict[str, object], place: Place, *, dry_run: bool
) -> _Reset:
    """Ask for a reset; a place that is counted from an end is another offset in each partition."""

    def ask(start: dict[str, object], *, dry_run: bool) -> _Reset:
        body = {**wanted, "dry_run": dry_run, **start}
        return broker.ask_for("POST", path, _Reset, body)

    if place.anchor is Anchor.TIME:
        return ask({"time_ms": place.number}, dry_run=dry_run)
    if place.anchor is Anchor.ZERO:
        return ask({"start": place.number}, dry_run=dry_run)
    if not place.number:
        return ask({"start": _ENDS[place.anchor]}, dry_run=dry_run)
    seen = ask({"start": "earliest"}, dry_run=True).partitions
    rows = [
        msgspec.structs.replace(one, start=place.offset_in(start=one.start, end=one.end))
        for one in seen
    ]
    if not dry_run:
        for one in rows:
            ask({"partition": one.partition, "start": one.start}, dry_run=False)
    messages = sum(one.end - one.start for one in rows)
    return _Reset(partitions=rows, messages=messages, dry_run=dry_run)
