"""`penstock top`: depth, lag and rates of a running cluster, again and again.

A tick asks a broker's HTTP port three things, however many queues there are up to a thousand: the
queues with their counts, the groups of readers, and the cluster. How far groups of readers are is
asked for one by one, so that is done for a few of them each tick, in turn.

An engine that lives inside a program (file:, memory:) has no port that could be asked; such a
program asks its own client.
"""

import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Protocol
from urllib.parse import quote

import msgspec
from cyclopts import CycloptsError, Parameter
from rich.console import Console, RenderableType
from rich.live import Live

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, ask_for
from penstock.cli.cluster.rates import ClusterSample, Frame, GroupLook, Sorting, make_frame
from penstock.cli.cluster.top_screen import draw
from penstock.cli.queue.messages import with_query
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import LocalError, Unavailable
from penstock.engine.cluster.status import ClusterStatus
from penstock.engine.groups.lag import GroupLag, GroupLine
from penstock.web.queue_lines import QueueLine

GROUPS_PER_TICK = 16
GROUPS_MAX = 1_000
INTERVAL_LEAST_SECONDS = 0.1
INTERVAL_MOST_SECONDS = 3_600.0
PIPE_COLUMNS = 160
"""The width does not matter in a pipe, and no name should be cut."""
QUIT_KEYS = ("q", "Q", "\x03", "\x04")

Wait = Callable[[float], bool]
"""Waits this many seconds, or until the user ends it; True if the user did."""


class _Queues(msgspec.Struct):
    queues: list[QueueLine]
    next: str | None


class _Groups(msgspec.Struct):
    groups: list[GroupLine]


class Watched(Protocol):
    """A source of samples."""

    def look(self) -> ClusterSample:
        """Ask once; raises if no node answers."""
        ...


class Broker:
    """A source that asks a broker's HTTP port."""

    def __init__(self, http: str, *, prefix: str = "", clock: Clock | None = None) -> None:
        self._http = http
        self._prefix = prefix
        self._clock = clock or SystemClock()
        self._groups: dict[str, GroupLook] = {}
        self._turn = 0

    def look(self) -> ClusterSample:
        """Request the queues, the groups and the nodes."""
        path = with_query("/v1/queues", prefix=self._prefix)
        queues = ask_for(self._http, "GET", path, _Queues)
        at_ms = self._clock.monotonic_ms()
        cluster = ask_for(self._http, "GET", "/v1/cluster", ClusterStatus)
        groups = ask_for(self._http, "GET", "/v1/groups", _Groups).groups[:GROUPS_MAX]
        return ClusterSample(
            at_ms=at_ms,
            queues=tuple(queues.queues),
            groups=self._look_at_groups([one.group for one in groups]),
            cluster=cluster,
            more_queues=queues.next is not None,
        )

    def _look_at_groups(self, names: list[str]) -> tuple[GroupLook, ...]:
        """Some anew, the others as they were."""
        kept = {name: self._groups[name] for name in names if name in self._groups}
        count = min(len(names), GROUPS_PER_TICK)
        for step in range(count):
            name = names[(self._turn + step) % len(names)]
            before = kept.pop(name, None)
            if before is not None:
                before = replace(before, before=None)
            try:
                lag = ask_for(self._http, "GET", f"/v1/groups/{quote(name, safe='')}", GroupLag)
            except LocalError:
                continue  # It has ended since.
            now_ms = self._clock.monotonic_ms()
            kept[name] = GroupLook(at_ms=now_ms, lag=lag, before=before)
        self._turn += count
        self._groups = kept
        return tuple(kept[name] for name in names if name in kept)


def top(
    *,
    interval: Annotated[
        float, Parameter(metavar="SECONDS", help="The seconds between two samples.")
    ] = 1.0,
    once: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Show one frame and exit."),
    ] = False,
    prefix: Annotated[
        str, Parameter(show_default=False, help="Only queues with this prefix.")
    ] = "",
    sort: Annotated[Sorting, Parameter(help="The order of the queues.")] = "trouble",
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Watch depth, lag and rates of a running cluster.

    On a terminal the screen is renewed until you press q; in a pipe a frame follows the other, and
    with --json each is a line of JSON. Rates are differences between two looks: in is sent, out is
    taken by workers, ack is done. An engine inside a program (file:, memory:) has no port to ask.

    Examples
    --------
    penstock top
    penstock top --once --prefix orders
    penstock top --json --interval 5
    """
    if not INTERVAL_LEAST_SECONDS <= interval <= INTERVAL_MOST_SECONDS:
        raise CycloptsError(
            msg=f"--interval must be from {INTERVAL_LEAST_SECONDS:g} to"
            f" {INTERVAL_MOST_SECONDS:,.0f} seconds, not {interval:g}."
        )
    watched = Broker(str(broker.address()), prefix=prefix)
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    with _keys() as wait:
        frames = watch(watched, interval=interval, sorting=sort, wait=wait, once=once)
        if json:
            for frame, note in frames:
                print(msgspec.json.encode(_document(frame, note)).decode(), flush=True)
        elif once or not console.is_terminal:
            for frame, note in frames:
                console.print(draw(frame, columns=console.width, note=note), "")
                console.file.flush()
        else:
            _show_live(console, frames)


def watch(
    watched: Watched, *, interval: float, sorting: Sorting, wait: Wait, once: bool
) -> Iterator[tuple[Frame, str]]:
    """Frames, each with what went wrong, if something did. The first look must succeed; after it,
    a broker that is away may come back, and the last frame stays with a note."""
    before = watched.look()
    if once:
        # A rate needs two looks.
        wait(min(interval, 1.0))
        yield make_frame(watched.look(), before, sorting=sorting), ""
        return
    frame, note = make_frame(before, None, sorting=sorting), ""
    while True:
        yield frame, note
        if wait(interval):
            return
        try:
            now = watched.look()
        except Unavailable as error:
            note = str(error)
            continue
        frame, note, before = make_frame(now, before, sorting=sorting), "", now


def _show_live(console: Console, frames: Iterator[tuple[Frame, str]]) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for frame, note in frames:
            live.update(_fitted(console, frame, note), refresh=True)


def _fitted(console: Console, frame: Frame, note: str) -> RenderableType:
    return draw(frame, lines=console.height, columns=console.width, note=note)


def _document(frame: Frame, note: str) -> object:
    queues = [
        msgspec.to_builtins(row)
        | {"lag": row.lag, "depth": row.depth, "level": row.level.name.lower()}
        for row in frame.queues
    ]
    document = msgspec.to_builtins(replace(frame, queues=()))
    return document | {"queues": queues, "problem": note or None}


@contextmanager
def _keys() -> Iterator[Wait]:
    """Return a wait that a key press ends. Without a terminal the wait is on a pipe that is never
    written to, so only a signal ends it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield _wait_blindly
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    kept = termios.tcgetattr(descriptor)

    def wait(seconds: float) -> bool:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return bool(ready) and sys.stdin.read(1) in QUIT_KEYS

    try:
        tty.setcbreak(descriptor)
        yield wait
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, kept)


def _wait_blindly(seconds: float) -> bool:
    select.select([], [], [], seconds)
    return False
