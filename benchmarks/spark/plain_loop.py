"""What somebody writes who has no Spark: a consumer loop that fills pandas frames."""

import time
from pathlib import Path

import pandas as pd
from confluent_kafka import Consumer, TopicPartition

from benchmarks.broker.clients import ClientFailed
from benchmarks.spark.orders import BATCH, PLAIN, READ, WINDOW, WRITE, Timing

_AT_ONCE = 10_000
_PATIENCE_SECONDS = 10.0


def read_plainly(bootstrap: str, topic: str, messages: int, size: int, directory: str) -> Timing:
    """All columns of all messages into frames, and nothing else."""
    began = time.perf_counter()
    rows = sum(len(frame) for frame in _frames(bootstrap, topic, messages))
    return _timing(READ, rows, size, began, messages, directory)


def window_plainly(bootstrap: str, topic: str, messages: int, size: int, directory: str) -> Timing:
    """Counted by minute."""
    began = time.perf_counter()
    parts = [
        frame.groupby(frame["timestamp"].dt.floor("min"))["value"].agg(
            [("count", "count"), ("bytes", lambda values: sum(map(len, values)))]
        )
        for frame in _frames(bootstrap, topic, messages)
    ]
    rows = int(pd.concat(parts).groupby(level=0).sum()["count"].sum())
    return _timing(WINDOW, rows, size, began, messages, directory)


def write_plainly(bootstrap: str, topic: str, messages: int, size: int, directory: str) -> Timing:
    """One Parquet file of everything."""
    began = time.perf_counter()
    frame = pd.concat(list(_frames(bootstrap, topic, messages)))
    path = Path(directory) / "plain.parquet"
    frame.to_parquet(path)
    path.unlink()
    return _timing(WRITE, len(frame), size, began, messages, directory)


def _frames(bootstrap: str, topic: str, messages: int) -> list[pd.DataFrame]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "plain-loop",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        found = consumer.list_topics(topic).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in found])
        frames, left = [], messages
        while left:
            got = consumer.consume(min(_AT_ONCE, left), _PATIENCE_SECONDS)
            if not got:
                raise ClientFailed(f"{left} of {messages} messages did not come")
            left -= len(got)
            frames.append(_frame(got))
    finally:
        consumer.close()
    return frames


def _frame(got: list) -> pd.DataFrame:  # type: ignore[type-arg]
    return pd.DataFrame(
        {
            "key": [one.key() for one in got],
            "value": [one.value() for one in got],
            "partition": [one.partition() for one in got],
            "offset": [one.offset() for one in got],
            "timestamp": pd.to_datetime([one.timestamp()[1] for one in got], unit="ms", utc=True),
        }
    )


def _timing(
    work: str, rows: int, size: int, began: float, messages: int, _directory: str
) -> Timing:
    if rows != messages:
        raise ClientFailed(f"{rows} of {messages} messages were counted")
    return Timing(
        system=PLAIN,
        way=BATCH,
        work=work,
        message_bytes=size,
        turn=0,
        messages=messages,
        seconds=time.perf_counter() - began,
    )
