"""Judged rows as messages: sound ones for the stage's topic, refused ones for its dead letters.

A dead letter is the message that was read, as it was, with the headers that every dead letter of
Penstock has (see `core.delivery_headers`): so `penstock redrive` sends it back to where it died,
and it is counted and looked at like any other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.core import delivery_headers
from penstock.spark.pipelines.frames import REASON, columns_of, errors_at
from penstock.spark.pipelines.reasons import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALUE_ONLY = ["value"]
"""A stage with this column and no other writes it as it is; otherwise a message is JSON."""
OBSERVED = "penstock"
ROWS_OUT = "out"
ROWS_DEAD = "dead"

_HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
_NO_HEADERS = f"CAST(array() AS {_HEADERS})"
_OWN = f"filter(_headers, h -> NOT startswith(h.key, {literal(delivery_headers.PREFIX)}))"
_KEPT = f"coalesce({_OWN}, {_NO_HEADERS})"
"""The headers of the message but for ours, which were about its handling there."""


def messages_of(
    frames: "Sequence[DataFrame]",
    *,
    source: str,
    topic: str,
    dead_letters: str,
    key: str | None,
    group: str,
    path: str = "",
) -> "DataFrame":
    """Return the messages to write: topic, key, value and headers; they are counted on the way.
    `source` is the topic that was read, for rows that have lost it."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    with errors_at(f"{path}.key"):
        parts = [_written(one, topic, dead_letters, key, _death(group, source)) for one in frames]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    whole = whole.observe(
        OBSERVED,
        F.count(F.when(F.col(REASON).isNull(), 1)).alias(ROWS_OUT),
        F.count(F.col(REASON)).alias(ROWS_DEAD),
    )
    return whole.drop(REASON)


def _written(
    frame: "DataFrame", topic: str, dead_letters: str, key: str | None, death: str
) -> "DataFrame":
    names = columns_of(frame)
    if names == VALUE_ONLY:
        body = "CAST(value AS BINARY)"
    else:
        body = f"CAST(to_json(struct({', '.join(map(quoted, names))})) AS BINARY)"
    new_key = "_key" if key is None else f"CAST(CAST(({key}) AS STRING) AS BINARY)"
    sound = f"{REASON} IS NULL"
    return frame.selectExpr(
        f"IF({sound}, {literal(topic)}, {literal(dead_letters)}) AS topic",
        f"IF({sound}, {new_key}, _key) AS key",
        # A row that a query has made anew has no message to go back to.
        f"IF({sound} OR _topic IS NULL, {body}, _value) AS value",
        f"IF({sound}, {_KEPT}, concat({_KEPT}, {death})) AS headers",
        REASON,
    )


def _death(group: str, source: str) -> str:
    said = {
        delivery_headers.DEAD_TOPIC: f"coalesce(_topic, {literal(source)})",
        delivery_headers.DEAD_PARTITION: "_partition",
        delivery_headers.DEAD_OFFSET: "_offset",
        delivery_headers.DEAD_GROUP: literal(group),
        delivery_headers.DEAD_REASON: REASON,
        delivery_headers.DEAD_DELIVERIES: "1",
        delivery_headers.DEAD_MS: "unix_millis(current_timestamp())",
        delivery_headers.SENT_MS: "unix_millis(_timestamp)",
    }
    headers = ", ".join(
        f"named_struct('key', {literal(name)}, 'value', CAST(CAST({value} AS STRING) AS BINARY))"
        for name, value in said.items()
    )
    return f"filter(array({headers}), h -> h.value IS NOT NULL)"
