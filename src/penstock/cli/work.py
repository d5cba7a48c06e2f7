"""`penstock work`: run the workers of an application, in this process or in several.

With one process the application runs here. With more, this one supervises (`workers.supervisor`)
and the others are started with the same command line: each runs the application and prints its
statistics as lines of JSON, which is also what `--json` shows.
"""

import asyncio
import contextlib
import dataclasses
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from cyclopts import CycloptsError, Parameter
from rich.console import Console
from rich.live import Live
from rich.table import Table

from penstock.cli.address_flags import URL_VARIABLE
from penstock.client.connection.urls import Remote, parse_url
from penstock.core.decoders import decode_json
from penstock.core.errors import LocalError
from penstock.server.config import Log
from penstock.server.logs import configure_logs

if TYPE_CHECKING:
    from penstock.workers.app import App
    from penstock.workers.scale import Scaling
    from penstock.workers.statistics import WorkerStatistics
    from penstock.workers.supervisor import Depth

INTERVAL_SECONDS = 1.0
PROCESSES_MAX = 256
PIPE_COLUMNS = 160
"""The width does not matter in a pipe, and no name should be cut."""
_REPORT = b'{"pid":'
"""The beginning of a line of statistics."""
_NUMBERS = re.compile(r"(\d+)(?:\.\.(\d+))?")

Level = Literal["debug", "info", "warning", "error"]


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkFlags:
    """The flags, as they were typed."""

    url: Annotated[
        str | None,
        Parameter(
            name=["--url", "-u"],
            env_var=URL_VARIABLE,
            show_env_var=False,
            metavar="URL",
            help="The address of the broker, instead of the application's own; also from the"
            " variable PENSTOCK_URL.",
        ),
    ] = None
    concurrency: Annotated[
        int | None,
        Parameter(
            name=["--concurrency", "-c"],
            metavar="N",
            help="Concurrent messages per function; overrides the function's own setting.",
        ),
    ] = None
    processes: Annotated[
        str,
        Parameter(
            name=["--processes", "-p"],
            metavar="N[..M]",
            help="The number of processes; N..M scales with the lag of the queues.",
        ),
    ] = "1"
    queue: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--queue", "-q"],
            metavar="NAME",
            negative="",
            show_default=False,
            help="Process only this queue; may be repeated.",
        ),
    ] = ()
    grace: Annotated[
        float | None,
        Parameter(
            metavar="SECONDS",
            help="Seconds that a stop waits for messages in progress. [default: 30]",
        ),
    ] = None
    watch: Annotated[
        bool, Parameter(negative="", show_default=False, help="Show the progress of the workers.")
    ] = False
    json: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Print statistics every second, a line of JSON."
        ),
    ] = False
    log_level: Annotated[
        Level, Parameter(help="The least important log lines to write to stderr.")
    ] = "info"

    def check(self) -> None:
        """Refuse what cannot be, as typed wrongly."""
        processes_of(self.processes)
        if self.concurrency is not None and self.concurrency < 1:
            raise CycloptsError(
                msg=f"--concurrency {self.concurrency}: at least one worker is needed."
            )
        if self.grace is not None and self.grace < 0:
            raise CycloptsError(msg=f"--grace {self.grace}: it is a time, 0 or more seconds.")
        if self.watch and self.json:
            raise CycloptsError(
                msg="--watch is for people and --json for programs: give one of them."
            )

    def child_command(self, target: str) -> list[str]:
        """The command line of one process: the same for one process, which reports in JSON."""
        command = [sys.executable, "-m", "penstock.cli.main", "work", target, "--json"]
        command += ["--log-level", self.log_level]
        command += [] if self.url is None else ["--url", self.url]
        command += [] if self.concurrency is None else ["--concurrency", str(self.concurrency)]
        command += [] if self.grace is None else ["--grace", str(self.grace)]
        for queue in self.queue:
            command += ["--queue", queue]
        return command


PLAIN = WorkFlags()


def work(
    target: Annotated[
        str, Parameter(metavar="MODULE[:APP]", help="The module and its App, as MODULE:APP.")
    ],
    /,
    *,
    flags: WorkFlags = PLAIN,
) -> int:
    """Run the workers of an application until a signal stops them.

    SIGTERM and Ctrl-C end it gracefully: it receives no more, finishes the messages in progress,
    and releases the rest, uncounted. A second signal ends it at once.

    MODULE is looked for in the working directory first. Without a name, its only App is run, or
    the functions it declares with @penstock.worker(...).

    Examples
    --------
    penstock work shop.orders:app
    penstock work shop.orders --concurrency 50 --watch
    # as many processes as the lag needs, up to eight
    penstock work shop.orders:app --processes 1..8
    penstock work shop.orders:app --queue payments --url penstock://127.0.0.1:9092 --grace 60
    penstock work shop.orders:app --json --log-level warning
    """
    flags.check()
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    configure_logs(Log(level=flags.log_level), colour=colour)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a worker prints is to be seen when it is printed, in a container as on a terminal.
        sys.stdout.reconfigure(line_buffering=True)
    return _run(target, flags)


def processes_of(written: str) -> tuple[int, int]:
    """The least and the most of `N` or `N..M`."""
    found = _NUMBERS.fullmatch(written.strip())
    least = int(found[1]) if found else 0
    most = int(found[2] or found[1]) if found else 0
    if not 1 <= least <= most <= PROCESSES_MAX:
        raise CycloptsError(
            msg=f"--processes {written}: it is a number such as 4, or a range such as 1..8, of at"
            f" most {PROCESSES_MAX}."
        )
    return least, most


def _run(target: str, flags: WorkFlags) -> int:
    from penstock.workers.app_loader import load_app
    from penstock.workers.scale import Scaling

    app = load_app(target)
    if flags.url is not None:
        app.url = flags.url
    if flags.grace is not None:
        app.grace = flags.grace
    least, most = processes_of(flags.processes)
    if most > 1 and not isinstance(parse_url(app.url), Remote):
        raise LocalError(
            f"{app.url} is an engine inside one process, so others cannot share it; run a broker"
            " with `penstock serve`, or one process"
        )
    _announce(app, flags, most)
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform == "linux":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        if most > 1:
            scaling = Scaling(minimum=least, maximum=most)
            runner.run(_supervise(app, flags, flags.child_command(target), scaling))
        else:
            runner.run(_work(app, flags))
    if app.abandoned:
        # Threads that are still at work would keep the process alive; the signal that ended it has
        # been patient for long enough.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def _announce(app: "App", flags: WorkFlags, processes: int) -> None:
    """Print one line at the start: the broker, the tasks and the concurrency. With `--json`, and in
    a child of a supervisor, print nothing."""
    if flags.json:
        return
    chosen = [
        task
        for task in app.tasks
        if not flags.queue or set(flags.queue).intersection(task.options.queues)
    ]
    if flags.concurrency is not None:
        chosen = [task.with_concurrency(flags.concurrency) for task in chosen]
    if not chosen:
        return  # It is refused in a moment, with the reason.
    queues = sorted({queue for task in chosen for queue in task.options.queues})
    workers = sum(task.options.workers_max for task in chosen)
    each = f", in up to {processes} processes" if processes > 1 else ""
    print(
        f"penstock: working on {', '.join(queues)} at {app.url}, up to {workers} at once{each};"
        " Ctrl-C stops it",
        file=sys.stderr,
        flush=True,
    )


# In this process.


async def _work(app: "App", flags: WorkFlags) -> None:
    from penstock.workers.signals import on_orphaned, on_signals

    with on_signals(app.stop, lambda: app.stop(0)), on_orphaned(app.stop):
        showing = asyncio.create_task(_show(lambda: app.statistics().tasks, flags))
        try:
            await app.run(
                only=flags.queue or None, concurrency=flags.concurrency, waits_for_broker=True
            )
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
    if flags.json:
        _print_line(app.statistics().tasks)


# In several.


async def _supervise(app: "App", flags: WorkFlags, command: list[str], scaling: "Scaling") -> None:
    from penstock.workers.signals import on_signals
    from penstock.workers.supervisor import Supervisor

    supervisor = Supervisor(
        command,
        scaling,
        look=lambda: _look(app, flags),
        on_line=_print_child_report if flags.json else _print_child_line,
    )
    with on_signals(supervisor.stop, supervisor.kill):
        quiet = dataclasses.replace(flags, json=False)
        showing = asyncio.create_task(_show(supervisor.statistics, quiet))
        try:
            await supervisor.run()
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
            await app.close()


async def _look(app: "App", flags: WorkFlags) -> "Mapping[str, Depth]":
    from penstock.workers.supervisor import Depth

    client = await app.client()
    depths = {}
    for task in app.tasks:
        if flags.queue and not set(flags.queue).intersection(task.options.queues):
            continue
        group = task.options.group
        stats = [await client.queue(name, group=group).stats() for name in task.options.queues]
        ages = [one.oldest_age for one in stats if one.oldest_age is not None]
        depths[task.name] = Depth(
            sent=sum(one.sent for one in stats),
            backlog=sum(one.ready for one in stats),
            oldest_seconds=max(ages, default=None),
        )
    return depths


# What is shown.


async def _show(rows: "Callable[[], Sequence[WorkerStatistics]]", flags: WorkFlags) -> None:
    if flags.json:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            _print_line(rows())
    if not flags.watch:
        return
    console = Console()
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            console.print(draw(rows()))
    with Live(draw(rows()), console=console, transient=True) as live:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            live.update(draw(rows()))


def _print_line(rows: "Sequence[WorkerStatistics]") -> None:
    line = msgspec.json.encode({"pid": os.getpid(), "tasks": list(rows)}).decode()
    print(line, flush=True)


def _print_child_report(number: int, line: bytes) -> None:
    # A reader of our output that has gone, as `head` does, must not end the workers.
    with contextlib.suppress(OSError, msgspec.DecodeError):
        if line.startswith(_REPORT):
            document = decode_json(line, dict[str, object])
            print(msgspec.json.encode({"process": number, **document}).decode(), flush=True)


def _print_child_line(_number: int, line: bytes) -> None:
    """Pass on a line that the application printed."""
    with contextlib.suppress(OSError):
        if not line.startswith(_REPORT):
            print(line.decode(errors="replace"), end="", flush=True)


HEADS = ("TASK", "QUEUE", "WORKERS", "DONE", "FAILED", "REJECTED", "BACK", "STOLEN", "MEAN", "P95")


def draw(rows: "Sequence[WorkerStatistics]") -> Table:
    """Format the statistics of the workers as a table, a row for each task; `--json` has all the
    numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="left" if number < 2 else "right", no_wrap=True)
    for row in rows:
        counts = row.workers, row.processed, row.failed, row.rejected, row.returned, row.stolen
        times = _milliseconds(row.mean_seconds), _milliseconds(row.p95_seconds)
        table.add_row(row.worker, row.queue, *map(str, counts), *times)
    return table


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1_000:.1f} ms"
