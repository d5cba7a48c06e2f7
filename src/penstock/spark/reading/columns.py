"""The columns of a row of the source: those of Spark's Kafka connector, or a user's choice of them.

    key            BINARY                                      null if there is none
    value          BINARY                                      null for a tombstone
    topic          STRING
    partition      INT
    offset         BIGINT
    timestamp      TIMESTAMP
    timestampType  INT                                         0: the sender's, 1: the broker's
    headers        ARRAY<STRUCT<key: STRING, value: BINARY>>   with includeHeaders; null if none

Spark tells a Python source nothing about the columns a query uses. A query that should be faster
says so with `.schema("partition INT, offset BIGINT")`: what is not named there is not decoded.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.core.errors import InvalidRequest

HEADERS: Final = "headers"

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_KINDS: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    HEADERS: (
        ArrayType(_HEADER),
        pa.list_(
            pa.field(
                "element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
            )
        ),
    ),
}


def row_schema(*, include_headers: bool) -> StructType:
    """All columns, in the order of the Kafka connector."""
    return StructType(
        [
            StructField(name, kind)
            for name, (kind, _) in _KINDS.items()
            if include_headers or name != HEADERS
        ]
    )


def check_schema(schema: StructType) -> None:
    """A schema that a user has chosen is a choice of these columns."""
    if not schema.fields:
        raise InvalidRequest(f"a schema needs a column: choose from {', '.join(_KINDS)}")
    for field in schema.fields:
        known = _KINDS.get(field.name)
        if known is None:
            raise InvalidRequest(
                f"there is no column {field.name}: choose from {', '.join(_KINDS)}, and make others"
                " of them with select"
            )
        if field.dataType != known[0]:
            raise InvalidRequest(
                f"the column {field.name} is {known[0].simpleString().upper()}, not"
                f" {field.dataType.simpleString().upper()}: read it so, and cast it with select"
            )
        if not field.nullable:
            raise InvalidRequest(
                f"the column {field.name} is read as one that may be null: leave out NOT NULL"
            )
    if len(set(schema.names)) < len(schema.names):
        raise InvalidRequest(f"a column is named twice: {', '.join(schema.names)}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema for Arrow, exactly as Spark requires it."""
    return pa.schema([pa.field(name, _KINDS[name][1]) for name in schema.names])
