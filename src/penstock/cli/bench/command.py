"""`penstock bench …`: put a load on a broker, and tell what came of it and who was the limit.

Each command makes a queue of its own and deletes it, whatever happens, unless it is given one. The
load is made by the native client, as a program of yours would make it; client and broker share a
machine if you let them, and then both are measured. Kafka's and SQS's own clients are not among the
dependencies of Penstock, so loads through them are theirs to make. What the project itself
measures, side by side with other systems, is `make bench`.
"""

from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import DEFAULT_URL, DeprecatedHttp, Url
from penstock.cli.admin import Json, print_json
from penstock.cli.bench.flags import (
    LIVES_MAX,
    WARM_UP_SECONDS_MAX,
    WORK_SECONDS_MAX,
    Batch,
    Clients,
    Duration,
    Hdr,
    Messages,
    Name,
    NoProgress,
    Partitions,
    Processes,
    Rate,
    Size,
    WarmUp,
    check_counts,
    check_length,
    check_processes,
    check_rate,
    check_seconds,
    check_share,
    check_size,
    check_wait,
)
from penstock.cli.bench.life import LIFE_STAMP_BYTES
from penstock.cli.bench.load import Load
from penstock.cli.bench.loads import STAMP_BYTES
from penstock.cli.bench.report import (
    check_writable,
    document,
    exit_code,
    report_lines,
    write_distribution,
)
from penstock.cli.bench.run import Outcome, run_load
from penstock.cli.session import with_client
from penstock.client.client import Client

MESSAGES = 100_000
LATENCY_SECONDS = 5.0
"""The default duration of `penstock bench latency`."""

app = App(name="bench", help="Load test a broker, and find the bottleneck.")


@app.command
def produce(
    *,
    messages: Messages = None,
    seconds: Duration = None,
    size: Size = "100",
    batch: Batch = 1_000,
    clients: Clients = 1,
    processes: Processes = 1,
    rate: Rate = None,
    warm_up: WarmUp = "0",
    queue: Name = None,
    partitions: Partitions = 1,
    hdr: Hdr = None,
    no_progress: NoProgress = False,
    http: DeprecatedHttp = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> int:
    """Send messages in batches and wait for each batch; 100,000 messages by default.

    Examples
    --------
    penstock bench produce
    penstock bench produce --seconds 30 --size 1KiB --batch 10000 --clients 4 --processes 2
    penstock bench produce --rate 5000 --batch 10 --seconds 10 --hdr produce.hgrm
    """
    check_counts(messages=messages, batch=batch, clients=clients, partitions=partitions)
    check_processes(processes, url)
    check_rate(rate)
    duration = check_seconds("--seconds", seconds)
    load = Load(
        kind="produce",
        url=url,
        queue=queue or "",
        messages=check_length(messages, duration, rate, MESSAGES),
        seconds=duration,
        size_bytes=check_size(size),
        batch=batch,
        clients=clients,
        rate=rate,
        warm_up_seconds=check_wait("--warm-up", warm_up, WARM_UP_SECONDS_MAX),
    )
    return _run(load, partitions, processes, http, hdr, hidden=no_progress, json=json)


@app.command
def consume(
    *,
    messages: Messages = None,
    seconds: Duration = None,
    size: Size = "100",
    batch: Batch = 1_000,
    clients: Clients = 1,
    processes: Processes = 1,
    rate: Rate = None,
    queue: Name = None,
    partitions: Partitions = 1,
    hdr: Hdr = None,
    no_progress: NoProgress = False,
    http: DeprecatedHttp = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> int:
    """Receive and acknowledge messages in batches; they are sent beforehand, which is not measured.

    With --queue nothing is sent: the messages in that queue are received and acknowledged.

    Examples
    --------
    penstock bench consume
    penstock bench consume --messages 1000000 --batch 5000 --clients 2 --json
    penstock bench consume --queue jobs --seconds 10
    """
    check_counts(messages=messages, batch=batch, clients=clients, partitions=partitions)
    check_processes(processes, url)
    check_rate(rate)
    load = Load(
        kind="consume",
        url=url,
        queue=queue or "",
        messages=messages if messages is not None or queue else MESSAGES,
        seconds=check_seconds("--seconds", seconds),
        size_bytes=check_size(size),
        batch=batch,
        clients=clients,
        rate=rate,
    )
    return _run(load, partitions, processes, http, hdr, hidden=no_progress, json=json)


@app.command
def latency(
    *,
    messages: Annotated[
        int | None,
        Parameter(
            metavar="N", show_default=False, help="The number of messages, instead of --seconds."
        ),
    ] = None,
    seconds: Duration = None,
    rate: Annotated[float, Parameter(metavar="N", help="Messages a second.")] = 500.0,
    warm_up: WarmUp = "1",
    size: Size = "100",
    queue: Name = None,
    hdr: Hdr = None,
    no_progress: NoProgress = False,
    http: DeprecatedHttp = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> int:
    """Send messages one by one at a fixed rate and receive them at the same time, for 5 seconds.

    Latency counts from when a message was due, and no message waits for the one before, so no
    wait is hidden.

    Examples
    --------
    penstock bench latency
    penstock bench latency --rate 1000 --seconds 30 --warm-up 5 --size 1KiB
    penstock bench latency --hdr latency.hgrm --json
    """
    check_counts(messages=messages)
    check_rate(rate)
    duration = check_seconds("--seconds", seconds)
    if messages is not None and duration is not None:
        raise CycloptsError(msg="--messages and --seconds exclude each other: the rate is fixed.")
    load = Load(
        kind="latency",
        url=url,
        queue=queue or "",
        messages=messages or max(1, round(rate * (duration or LATENCY_SECONDS))),
        size_bytes=check_size(size, STAMP_BYTES),
        batch=1,
        rate=rate,
        warm_up_seconds=check_wait("--warm-up", warm_up, WARM_UP_SECONDS_MAX),
    )
    return _run(load, 1, 1, http, hdr, hidden=no_progress, json=json)


@app.command
def queue(
    *,
    messages: Messages = None,
    seconds: Duration = None,
    size: Size = "100",
    batch: Annotated[
        int, Parameter(metavar="N", help="The largest number of messages in a call.")
    ] = 100,
    producers: Annotated[int, Parameter(metavar="N", help="In each process.")] = 1,
    consumers: Annotated[int, Parameter(metavar="N", help="In each process.")] = 1,
    processes: Processes = 1,
    rate: Rate = None,
    work_time: Annotated[
        str, Parameter(metavar="TIME", help="The simulated processing time of each message.")
    ] = "0",
    fail_share: Annotated[
        float,
        Parameter(metavar="SHARE", help="The share of messages whose first delivery fails."),
    ] = 0.0,
    warm_up: WarmUp = "0",
    name: Name = None,
    partitions: Partitions = 1,
    hdr: Hdr = None,
    no_progress: NoProgress = False,
    http: DeprecatedHttp = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> int:
    """Send, receive and acknowledge at once, and account for every message.

    It ends when all is done. The exit code is 1 if a message that was acknowledged is lost.

    Examples
    --------
    penstock bench queue
    penstock bench queue --rate 2000 --seconds 10 --batch 10 --producers 2 --consumers 4
    penstock bench queue --messages 5000 --work-time 1ms --consumers 20 --fail-share 0.05
    """
    check_counts(messages=messages, batch=batch, producers=producers, consumers=consumers)
    check_counts(partitions=partitions)
    check_processes(processes, url)
    check_rate(rate)
    check_share("--fail-share", fail_share)
    duration = check_seconds("--seconds", seconds)
    if messages is not None and messages > LIVES_MAX:
        raise CycloptsError(msg=f"--messages must be at most {LIVES_MAX:,} here: each is tracked.")
    load = Load(
        kind="queue",
        url=url,
        queue=name or "",
        messages=check_length(messages, duration, rate, MESSAGES),
        seconds=duration,
        size_bytes=check_size(size, LIFE_STAMP_BYTES),
        batch=batch,
        clients=producers,
        consumers=consumers,
        rate=rate,
        warm_up_seconds=check_wait("--warm-up", warm_up, WARM_UP_SECONDS_MAX),
        work_seconds=check_wait("--work-time", work_time, WORK_SECONDS_MAX),
        fail_share=fail_share,
    )
    return _run(load, partitions, processes, http, hdr, hidden=no_progress, json=json)


def _run(
    load: Load,
    partitions: int,
    processes: int,
    http: str | None,
    hdr: str | None,
    *,
    hidden: bool,
    json: bool,
) -> int:
    if hdr is not None:
        check_writable(hdr)

    async def work(client: Client) -> Outcome:
        return await run_load(
            client, load, partitions=partitions, processes=processes, http=http, hidden=hidden
        )

    outcome = with_client(load.url, work, makes_directory=True)
    if hdr is not None:
        write_distribution(hdr, outcome)
    if json:
        print_json(document(outcome))
    else:
        print("\n".join(report_lines(outcome)))
    return exit_code(outcome)
