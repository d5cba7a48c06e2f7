"""Messages counted by windows of time, and windows that stand out.

A window is so many seconds, aligned to 1970. Rates are of whole topics where they are judged: a
partition alone says more about keys than about load.
"""

import re
from typing import TYPE_CHECKING, Final

from penstock.core.errors import InvalidRequest
from penstock.spark.jobs.anomalies import ODD, robust_scores

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

WINDOWS_MAX: Final = 100_000
"""Of one topic, from its first message to its last: a window too narrow for so long a time is
refused."""
NO_PARTITION: Final = -1
_SPAN: Final = re.compile(r"(\d+) *(second|minute|hour|day)s?")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}


def window_seconds(window: str) -> int:
    """From "10 seconds", "1 minute", "6 hours"; `InvalidRequest` if it is none of those."""
    found = _SPAN.fullmatch(window.strip())
    if found is None or not 0 < int(found[1]) <= 366 * 86_400:
        raise InvalidRequest(
            f"{window!r} is no window: write a number and seconds, minutes, hours or days, such as"
            " '1 minute'"
        )
    return int(found[1]) * _SECONDS[found[2]]


def count_windows(messages: "DataFrame", seconds: int) -> "DataFrame":
    """Messages and bytes by window, topic and partition."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return (
        messages.groupBy(F.window("timestamp", f"{seconds} seconds"), "topic", "partition")
        .agg(F.count("*").alias("messages"), F.sum(size).cast("bigint").alias("bytes"))
        .select(
            F.col("window.start").alias("window_start"), "topic", "partition", "messages", "bytes"
        )
    )


def judge(counted: "DataFrame", seconds: int) -> "DataFrame":
    """Add rates, and for each topic's window the columns `score` and `is_odd`. A window that is odd
    because it has no messages gets a row of its own, without a partition."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    def score(rows: "pd.DataFrame") -> "pd.DataFrame":
        return _scored(rows, seconds)

    scores = (
        counted.groupBy("window_start", "topic")
        .agg(F.sum("messages").alias("messages"))
        .groupBy("topic")
        .applyInPandas(score, "window_start TIMESTAMP, topic STRING, score DOUBLE")
    )
    joined = counted.join(scores, ["window_start", "topic"], "full")
    return (
        joined.withColumn("is_odd", F.coalesce(F.abs("score") > ODD, F.lit(False)))
        .where("partition is not null or is_odd")
        .fillna({"partition": NO_PARTITION, "messages": 0, "bytes": 0})
        .withColumn("messages_per_second", F.col("messages") / seconds)
        .withColumn("bytes_per_second", F.col("bytes") / seconds)
    )


def _scored(rows: "pd.DataFrame", seconds: int) -> "pd.DataFrame":
    """The windows of one topic; those without messages are 0."""
    import pandas as pd  # noqa: PLC0415

    counts = rows.set_index("window_start")["messages"].sort_index()
    span = (counts.index[-1] - counts.index[0]).total_seconds() / seconds
    if span > WINDOWS_MAX:
        raise InvalidRequest(
            f"{rows['topic'].iloc[0]} has messages of {span:.0f} windows: choose a wider window, or"
            " a time to begin with"
        )
    every = pd.date_range(counts.index[0], counts.index[-1], freq=f"{seconds}s")
    full = counts.reindex(every, fill_value=0)
    return pd.DataFrame(
        {
            "window_start": every,
            "topic": rows["topic"].iloc[0],
            "score": robust_scores(full.tolist()),
        }
    )
