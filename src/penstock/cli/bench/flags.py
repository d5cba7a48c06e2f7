"""The flags of `penstock bench`, and their allowed values."""

from typing import Annotated

from cyclopts import CycloptsError, Parameter

from penstock.cli.quantities import parse_bytes, parse_seconds
from penstock.client.connection.urls import Remote, parse_url

MESSAGES_MAX = 1_000_000_000
LIVES_MAX = 100_000_000
"""The number of messages that can be tracked, at a byte of memory each."""
BATCH_MAX = 100_000
CLIENTS_MAX = 1_000
PROCESSES_MAX = 64
SIZE_MAX = 1 << 20
RATE_MAX = 10_000_000.0
SECONDS_MAX = 7 * 86_400.0
WARM_UP_SECONDS_MAX = 3_600.0
WORK_SECONDS_MAX = 20.0
"""A message is leased for 30 seconds."""

Messages = Annotated[
    int | None,
    Parameter(
        metavar="N",
        show_default=False,
        help="The number of messages, of all processes together; with --seconds as well, whichever"
        " ends first.",
    ),
]
Duration = Annotated[
    str | None,
    Parameter(metavar="TIME", show_default=False, help="The duration: 30, 30s, 5m."),
]
WarmUp = Annotated[
    str,
    Parameter(
        metavar="TIME", help="The warm-up, which precedes the measurement and is not counted."
    ),
]
Size = Annotated[str, Parameter(metavar="SIZE", help="The size of a message.")]
Batch = Annotated[int, Parameter(metavar="N", help="The number of messages in a call.")]
Clients = Annotated[
    int,
    Parameter(
        metavar="N",
        help="The number of concurrent clients in each process, each with a connection.",
    ),
]
Processes = Annotated[
    int,
    Parameter(
        metavar="N",
        help="The number of client processes, which share the messages and the rate.",
    ),
]
Rate = Annotated[
    float | None,
    Parameter(
        metavar="N",
        show_default=False,
        help="Messages per second on a fixed schedule; latency counts from when a call is due.",
    ),
]
Name = Annotated[
    str | None,
    Parameter(
        name="--queue",
        metavar="NAME",
        help="Use this queue or topic and keep it, instead of a temporary one.",
    ),
]
Partitions = Annotated[int, Parameter(metavar="N", help="The partitions of the temporary queue.")]
Hdr = Annotated[
    str | None,
    Parameter(
        metavar="FILE",
        help="Write the percentiles to this file, in the format of HdrHistogram.",
    ),
]
NoProgress = Annotated[
    bool,
    Parameter(
        name="--no-progress",
        negative="",
        show_default=False,
        help="Do not show progress.",
    ),
]


def check_counts(**counts: int | None) -> None:
    """Refuse what would take no time, or all of it."""
    most = {
        "messages": MESSAGES_MAX,
        "batch": BATCH_MAX,
        "clients": CLIENTS_MAX,
        "producers": CLIENTS_MAX,
        "consumers": CLIENTS_MAX,
        "processes": PROCESSES_MAX,
        "partitions": BATCH_MAX,
    }
    for name, value in counts.items():
        if value is not None and not 1 <= value <= most[name]:
            raise CycloptsError(msg=f"--{name} must be from 1 to {most[name]:,}, not {value:,}.")


def check_size(size: str, least: int = 1) -> int:
    """Parse a message size, in bytes; raise CycloptsError if it is out of range."""
    size_bytes = parse_bytes("--size", size)
    if least > 1 and size_bytes < least:
        raise CycloptsError(msg=f"--size must be at least {least}, for a stamp.")
    if not 1 <= size_bytes <= SIZE_MAX:
        raise CycloptsError(msg=f"--size must be from 1 to {SIZE_MAX:,}, not {size_bytes:,}.")
    return size_bytes


def check_rate(rate: float | None) -> None:
    """Raise CycloptsError if the rate is out of range."""
    if rate is not None and not 0 < rate <= RATE_MAX:
        raise CycloptsError(msg=f"--rate must be above 0 and at most {RATE_MAX:,.0f}.")


def check_seconds(flag: str, written: str | None) -> float | None:
    """Parse a duration, in seconds; raise CycloptsError if it is out of range."""
    if written is None:
        return None
    seconds = parse_seconds(flag, written)
    if not 0 < seconds <= SECONDS_MAX:
        raise CycloptsError(msg=f"{flag} must be above 0 and at most 7d.")
    return seconds


def check_wait(flag: str, written: str, seconds_max: float) -> float:
    """Parse a wait, in seconds, which may be 0; raise CycloptsError if it is too long."""
    seconds = parse_seconds(flag, written)
    if seconds > seconds_max:
        raise CycloptsError(msg=f"{flag} must be at most {seconds_max:g} s, not {written}.")
    return seconds


def check_share(flag: str, share: float) -> None:
    """Raise CycloptsError unless a share of messages is at least 0 and below 1."""
    if not 0 <= share < 1:
        raise CycloptsError(msg=f"{flag} must be from 0 to below 1, such as 0.05; not {share:g}.")


def check_processes(processes: int, url: str) -> None:
    """An engine inside a process has no others."""
    check_counts(processes=processes)
    if processes > 1 and not isinstance(parse_url(url), Remote):
        raise CycloptsError(
            msg=f"--processes = {processes} needs a broker: {url} lives inside one process."
        )


def check_length(
    messages: int | None, seconds: float | None, rate: float | None, default: int
) -> int | None:
    """Return the number of messages that count; None if only the time limits the run. Raise
    CycloptsError if a rate is given without an end."""
    if messages is None and seconds is None:
        if rate is not None:
            raise CycloptsError(msg="--rate needs an end: add --seconds or --messages.")
        return default
    return messages
