"""What a Spark driver is told to measure, and what it answers; both travel as JSON."""

import msgspec

PENSTOCK, KAFKA, PARQUET = "penstock source", "Kafka connector", "local Parquet"
PLAIN = "Python loop, pandas"
ONE_ROW = "any Python source"
BATCH, STREAM, SINK = "batch", "stream", "sink"
READ, WINDOW, WRITE = "read", "1-minute windows", "write Parquet"
PUBLISH = "write topic"


class DriverOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One Spark application, and what it does one after the other."""

    bootstrap: str
    topics: dict[int, str]
    """By the size of their messages."""
    messages: dict[int, int]
    rounds: int
    stream_batches: int
    """Into how many micro-batches a stream is cut."""
    master: str
    directory: str
    connector: bool
    """Spark's Kafka connector takes part; its packages are fetched if they are not there."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One thing done once."""

    system: str
    way: str
    work: str
    message_bytes: int
    turn: int
    messages: int
    seconds: float


class DriverReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one application has measured."""

    timings: list[Timing]
    session_seconds: float
    """Until Spark itself is there."""
    first_load_seconds: dict[str, float]
    """By source: from then until its first rows; the first time costs each of them about the same,
    whoever comes first."""
    spark: str
    java: str
