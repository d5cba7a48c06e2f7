"""`penstock bench …`: measure a running broker with the native client.

Each command makes a queue of its own, uses it and deletes it, whatever happens. Client and broker
share a machine if you let them, and then both are measured. What the project itself measures, side
by side with other systems, is `make bench`.
"""

import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from penstock.cli import bench_loads
from penstock.cli.admin import Json, print_json
from penstock.cli.bench_loads import Latencies, Outcome, Progress, Samples
from penstock.cli.quantities import parse_bytes, show_time
from penstock.cli.session import with_client
from penstock.cli.where import DEFAULT_URL, Url
from penstock.client.client import Client
from penstock.client.queue import Queue

MESSAGES_MAX = 1_000_000_000
BATCH_MAX = 100_000
CLIENTS_MAX = 1_000
SIZE_MAX = 1 << 20
RATE_MAX = 100_000.0

app = App(name="bench", help="Measure a running broker, with a queue made for it.")

Messages = Annotated[int, Parameter(metavar="N", help="How many messages.")]
Size = Annotated[str, Parameter(metavar="SIZE", help="Of a message.")]
Batch = Annotated[int, Parameter(metavar="N", help="How many messages a call takes.")]
Clients = Annotated[
    int, Parameter(metavar="N", help="How many work at a time, each with a connection.")
]
Partitions = Annotated[int, Parameter(metavar="N", help="Of the queue that is made.")]
NoProgress = Annotated[
    bool,
    Parameter(name="--no-progress", negative="", show_default=False, help="Draw no bar."),
]


@app.command
def produce(
    *,
    messages: Messages = 100_000,
    size: Size = "100",
    batch: Batch = 1_000,
    clients: Clients = 1,
    partitions: Partitions = 1,
    no_progress: NoProgress = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Send messages in batches, each waited for.

    Examples
    --------
    penstock bench produce
    penstock bench produce --messages 1000000 --size 1KiB --batch 10000 --clients 4
    """
    size_bytes = _checked(messages=messages, batch=batch, clients=clients, size=size)

    async def work(client: Client) -> Outcome:
        async with _queues(client, url, clients, partitions) as queues:
            with _bar("sending", messages, hidden=no_progress) as progress:
                return await bench_loads.produce(
                    queues,
                    messages=messages,
                    batch=batch,
                    size_bytes=size_bytes,
                    progress=progress,
                )

    _report("sent", with_client(url, work, makes_directory=True), size_bytes, json=json)


@app.command
def consume(
    *,
    messages: Messages = 100_000,
    size: Size = "100",
    batch: Batch = 1_000,
    clients: Clients = 1,
    partitions: Partitions = 1,
    no_progress: NoProgress = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Receive and acknowledge messages in batches; they are sent beforehand, which does not count.

    Examples
    --------
    penstock bench consume
    penstock bench consume --messages 1000000 --batch 5000 --clients 2 --json
    """
    size_bytes = _checked(messages=messages, batch=batch, clients=clients, size=size)

    async def work(client: Client) -> Outcome:
        async with _queues(client, url, clients, partitions) as queues:
            with _bar("filling", messages, hidden=no_progress) as progress:
                await bench_loads.produce(
                    queues[:1],
                    messages=messages,
                    batch=min(messages, 10_000),
                    size_bytes=size_bytes,
                    progress=progress,
                )
            with _bar("receiving", messages, hidden=no_progress) as progress:
                return await bench_loads.consume(
                    queues, messages=messages, batch=batch, progress=progress
                )

    _report(
        "received and acknowledged",
        with_client(url, work, makes_directory=True),
        size_bytes,
        json=json,
    )


@app.command
def latency(
    *,
    messages: Messages = 2_500,
    rate: Annotated[float, Parameter(metavar="N", help="Messages a second.")] = 500.0,
    size: Size = "100",
    no_progress: NoProgress = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Send messages one by one at a fixed rate and receive them at the same time.

    It counts from when a message was due, so that no wait is hidden.

    Examples
    --------
    penstock bench latency
    penstock bench latency --rate 1000 --messages 10000 --size 1KiB
    """
    size_bytes = _checked(messages=messages, batch=1, clients=1, size=size)
    if not 0 < rate <= RATE_MAX:
        raise CycloptsError(msg=f"--rate must be above 0 and at most {RATE_MAX:,.0f}.")
    if size_bytes < bench_loads.STAMP_BYTES:
        raise CycloptsError(msg=f"--size must be at least {bench_loads.STAMP_BYTES}, for a stamp.")

    async def work(client: Client) -> Latencies:
        async with _queues(client, url, 2, 1) as (sender, receiver):
            with _bar("sending and receiving", messages, hidden=no_progress) as progress:
                return await bench_loads.latency(
                    sender,
                    receiver,
                    messages=messages,
                    rate=rate,
                    size_bytes=size_bytes,
                    progress=progress,
                )

    _report_latencies(with_client(url, work, makes_directory=True), messages, rate, json=json)


def _checked(*, messages: int, batch: int, clients: int, size: str) -> int:
    """The size in bytes; refuses what would take no time, or all of it."""
    size_bytes = parse_bytes("--size", size)
    for flag, value, most in (
        ("--messages", messages, MESSAGES_MAX),
        ("--batch", batch, BATCH_MAX),
        ("--clients", clients, CLIENTS_MAX),
        ("--size", size_bytes, SIZE_MAX),
    ):
        if not 1 <= value <= most:
            raise CycloptsError(msg=f"{flag} must be from 1 to {most:,}, not {value:,}.")
    return size_bytes


@asynccontextmanager
async def _queues(
    client: Client, url: str, clients: int, partitions: int
) -> AsyncIterator[list[Queue[bytes]]]:
    """A queue by as many clients, the first of which makes it and deletes it in the end. An engine
    inside this process has no connections, so there everybody shares the one client."""
    from penstock import connect

    name = f"penstock-bench-{secrets.token_hex(4)}"
    await client.create_queue(name, partitions=partitions)
    try:
        async with AsyncExitStack() as stack:
            every = [client]
            for _ in range(clients - 1):
                shared = not url.startswith("penstock:")
                every.append(client if shared else await stack.enter_async_context(connect(url)))
            yield [one.queue(name, codec=bytes) for one in every]
    finally:
        await client.delete_queue(name)


@contextmanager
def _bar(title: str, total: int, *, hidden: bool) -> Iterator[Progress]:
    """A bar on stderr, where there is a terminal."""
    console = Console(stderr=True)
    if hidden or not sys.stderr.isatty() or not console.is_terminal:
        yield lambda _: None
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with ProgressBar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda count: bar.advance(task, count)


def _report(verb: str, outcome: Outcome, size_bytes: int, *, json: bool) -> None:
    rate = outcome.messages / outcome.seconds if outcome.seconds > 0 else 0.0
    if json:
        print_json(
            {
                "messages": outcome.messages,
                "seconds": outcome.seconds,
                "messages_per_second": rate,
                "megabytes_per_second": rate * size_bytes / 1e6,
                "call": _quantiles(outcome.calls),
            }
        )
        return
    print(f"{outcome.messages:,} messages {verb} in {show_time(outcome.seconds)}")
    print(f"{rate:,.0f} messages/s, {rate * size_bytes / 1e6:,.1f} MB/s")
    print(f"each call: {_sentence(outcome.calls)}")


def _report_latencies(found: Latencies, messages: int, rate: float, *, json: bool) -> None:
    if json:
        document: dict[str, object] = {"messages": messages, "rate": rate}
        document |= {"send": _quantiles(found.sent), "receive": _quantiles(found.received)}
        print_json(document)
        return
    print(f"{messages:,} messages at {rate:,g}/s")
    print(f"send:            {_sentence(found.sent)}")
    print(f"send to receive: {_sentence(found.received)}")


def _quantiles(samples: Samples) -> dict[str, float]:
    return {
        "p50_ms": samples.quantile(0.5) * 1e3,
        "p99_ms": samples.quantile(0.99) * 1e3,
        "max_ms": samples.most * 1e3,
    }


def _sentence(samples: Samples) -> str:
    return (
        f"p50 {show_time(samples.quantile(0.5))}, p99 {show_time(samples.quantile(0.99))},"
        f" max {show_time(samples.most)}"
    )
