"""Options and columns of the sink: what is wrong is told before anything is done."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from penstock.client.producer.compression import OFF, Compression
from penstock.core.errors import InvalidRequest
from penstock.spark.sink.write_options import WriteOptions, check_columns, read_write_options

URL = {"url": "penstock://localhost:9092"}


HEADER = StructType().add("key", StringType()).add("value", BinaryType())
NAMED = StructType().add("name", StringType()).add("value", BinaryType())
TYPES: dict[str, DataType] = {
    "BINARY": BinaryType(),
    "STRING": StringType(),
    "VARCHAR": VarcharType(9),
    "TINYINT": ByteType(),
    "SMALLINT": ShortType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "DOUBLE": DoubleType(),
    "DECIMAL": DecimalType(9, 3),
    "INTERVAL": DayTimeIntervalType(),
    "TIMESTAMP": TimestampType(),
    "HEADERS": ArrayType(HEADER),
    "NAMED": ArrayType(NAMED),
    "STRINGS": ArrayType(StringType()),
    "MAP": MapType(StringType(), BinaryType()),
}


def schema(text: str) -> StructType:
    made = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        made.add(name, TYPES[kind])
    return made


def test_what_counts_if_nothing_is_said() -> None:
    assert read_write_options({"kafka.bootstrap.servers": "localhost:9092"}) == WriteOptions(
        url="penstock://localhost:9092",
        compression=Compression(codec="lz4", threshold_bytes=0),
    )


def test_all_options_whatever_their_case() -> None:
    options = {
        "URL": URL["url"],
        "TOPIC": "orders",
        "APPID": "nightly",
        "batchid": "17",
        "Compression": "None",
        "keeptimestamps": "TRUE",
        "createtopics": "true",
        "badrows": "deadletter",
        "deadlettertopic": "dead",
        "checkpointLocation": "/somewhere",
        "kafka.acks": "all",
    }
    assert read_write_options(options) == WriteOptions(
        url=URL["url"],
        topic="orders",
        application="nightly",
        batch=17,
        compression=OFF,
        keep_timestamps=True,
        create_topics=True,
        dead_letter_topic="dead",
        checkpoint="/somewhere",
    )


def test_the_names_of_the_kafka_connector() -> None:
    options = read_write_options({**URL, "kafka.compression.type": "zstd", "queue": "jobs"})
    assert options.compression == Compression(codec="zstd", threshold_bytes=0)
    assert options.topic == "jobs"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topc": "t"}, "perhaps `topic` is meant"),
        ({"deadLeterTopic": "t"}, "perhaps `deadLetterTopic` is meant"),
        ({"topic": "a", "queue": "b"}, "set one"),
        ({"topic": " "}, "is empty"),
        ({"batchId": "3"}, "set appId"),
        ({"appId": "a", "batchId": "-3"}, "whole number"),
        ({"appId": "a", "batchId": "x"}, "whole number"),
        ({"appId": ""}, "from 1 to 255"),
        ({"appId": "ü" * 128}, "appId has 256 bytes"),
        ({"compression": "brotli"}, "must be one of lz4, none"),
        ({"createTopics": "yes"}, "must be one of false, true"),
        ({"badRows": "deadLetter"}, "belong together"),
        ({"deadLetterTopic": "d"}, "belong together"),
        ({"asyncProgressTrackingEnabled": "true"}, "leave it out"),
        ({"kafka.security.protocol": "SASL_SSL"}, "does not speak"),
        ({"kafka.value.serializer": "x"}, "cast the column"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        read_write_options({**URL, **options})


def test_no_broker_is_named() -> None:
    with pytest.raises(InvalidRequest, match=r"kafka\.bootstrap\.servers"):
        read_write_options({"topic": "t"})


READ = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP,"
    " timestampType INT, headers HEADERS"
)
"""What the source reads can be written as it is."""
TO_TOPIC = WriteOptions(url=URL["url"], topic="t")
BY_COLUMN = WriteOptions(url=URL["url"])


@pytest.mark.parametrize(
    "columns",
    [
        "value BINARY",
        "value STRING, key STRING, topic STRING",
        "Value VARCHAR, KEY BINARY",
        READ,
        "value STRING, delay DOUBLE, priority SMALLINT",
        "value STRING, delay INTERVAL, partition BIGINT, priority TINYINT",
        "value STRING, delay DECIMAL",
    ],
)
def test_columns_that_can_be_written(columns: str) -> None:
    check_columns(schema(columns), TO_TOPIC)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("key STRING, body STRING", "no place for a column `body`"),
        ("key STRING, valu STRING", "perhaps `value` is meant"),
        ("key STRING", "no column `value`"),
        ("value INT", "`value` is int and must be BINARY or STRING"),
        ("value STRING, key BIGINT", "`key` is bigint"),
        ("value STRING, partition STRING", "`partition` is string and must be INT"),
        ("value STRING, delay STRING", "must be a number of seconds"),
        ("value STRING, priority DOUBLE", "must be INT"),
        ("value STRING, headers MAP", "must be ARRAY<STRUCT<key STRING"),
        ("value STRING, headers STRINGS", "must be ARRAY<STRUCT<key STRING"),
        ("value STRING, headers NAMED", "must be ARRAY"),
        ("value STRING, VALUE STRING", "two columns have one name"),
    ],
)
def test_columns_that_cannot_be_written(columns: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        check_columns(schema(columns), TO_TOPIC)


def test_every_row_needs_a_topic() -> None:
    with pytest.raises(InvalidRequest, match="no topic is given"):
        check_columns(schema("value STRING"), BY_COLUMN)
    check_columns(schema("value STRING, topic STRING"), BY_COLUMN)
    with pytest.raises(InvalidRequest, match="`topic` is binary"):
        check_columns(schema("value STRING, topic BINARY"), BY_COLUMN)


def test_times_must_be_times_if_they_are_kept() -> None:
    check_columns(schema("value STRING, timestamp STRING"), TO_TOPIC)
    keeping = WriteOptions(url=URL["url"], topic="t", keep_timestamps=True)
    with pytest.raises(InvalidRequest, match="`timestamp` is string and must be TIMESTAMP"):
        check_columns(schema("value STRING, timestamp STRING"), keeping)
