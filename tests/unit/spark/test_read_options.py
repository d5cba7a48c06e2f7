"""Options of the source: what is read from them, and what is refused with which words."""

import pytest

from penstock.core.errors import InvalidRequest, InvalidUrl
from penstock.core.types import EARLIEST, LATEST
from penstock.spark.address import address_of
from penstock.spark.reading.read_options import Bound, ReadOptions, read_options

SERVERS = "kafka.bootstrap.servers"


def read(**options: str) -> ReadOptions:
    return read_options(given(options), is_stream=False)


def read_stream(**options: str) -> ReadOptions:
    return read_options(given(options), is_stream=True)


def given(options: dict[str, str]) -> dict[str, str]:
    all_of_them = {SERVERS: "one:9092,two:9093", "subscribe": "orders"} | options
    return {name: value for name, value in all_of_them.items() if value}


def test_a_job_of_the_kafka_connector_is_understood() -> None:
    options = read(
        subscribe="orders, payments",
        startingOffsets='{"orders": {"0": 23, "1": -2}}',
        endingOffsets="latest",
        failOnDataLoss="FALSE",
        includeHeaders="true",
        minPartitions="10",
        maxRecordsPerPartition="1000",
        groupIdPrefix="spark",
        **{"kafka.group.id": "g", "kafka.fetch.max.bytes": "1", "fetchOffset.numRetries": "3"},
    )
    assert options.address == "penstock://one:9092,two:9093"
    assert options.topics == ("orders", "payments")
    assert options.starting == Bound("startingOffsets", offsets={"orders": {0: 23, 1: -2}})
    assert options.ending == Bound("endingOffsets", word=LATEST)
    assert not options.fail_on_data_loss
    assert options.include_headers
    assert (options.partitions_min, options.records_max) == (10, 1000)


def test_batches_begin_at_the_beginning_and_streams_with_what_comes() -> None:
    assert read().starting.word == EARLIEST
    assert read_stream().starting.word == LATEST
    assert read_stream(startingOffsets="Earliest").starting.word == EARLIEST


def test_a_time_comes_before_offsets() -> None:
    options = read(
        startingTimestamp="17", startingOffsetsByTimestamp='{"orders": {"0": 5}}',
        startingOffsets="earliest", endingOffsetsByTimestamp='{"orders": {"0": 5}}',
        endingOffsets="latest", startingOffsetsByTimestampStrategy="latest",
    )  # fmt: skip
    assert options.starting.time_ms == 17
    assert options.ending.times == {"orders": {0: 5}}
    assert options.time_or_latest


def test_sizes_and_durations_have_units() -> None:
    options = read_stream(maxBytesPerTrigger="64m", maxTriggerDelay="2m", fetchTimeoutMs="500")
    assert options.trigger_bytes_max == 64 << 20
    assert options.trigger_delay_seconds == 120
    assert options.fetch_seconds == 0.5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOfsets": "earliest"}, "perhaps startingOffsets was meant"),
        ({"completelyElse": "1"}, "knows no option completelyelse"),
        ({"subscribe": ""}, "none of them is set"),
        ({"subscribePattern": "o.*"}, "subscribe and subscribePattern are set"),
        ({"subscribe": "", "subscribePattern": "o("}, "no regular expression"),
        ({"subscribe": "", "assign": "{}"}, "names no partition"),
        ({"subscribe": "", "assign": '{"orders": "0"}'}, 'write {"orders": [0, 1]}'),
        ({"subscribe": ","}, "names no topic"),
        ({"startingOffsets": "latest"}, "cannot be latest in a batch read"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "cannot be latest in a batch read"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "says -3 for partition 0 of orders"),
        ({"startingOffsets": "middle"}, 'write {"orders": {"0": 23, "1": 5}}'),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "it is error or latest"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no': it is true or false"),
        ({"minPartitions": "0"}, "minPartitions is '0': write a number, 1 or more"),
        ({"maxBytesPerTrigger": "much"}, "write a number of bytes"),
        ({"maxTriggerDelay": "soon"}, "write a duration"),
        ({SERVERS: ""}, "no broker is named"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets says where to begin"),
        ({"kafka.security.protocol": "SASL_SSL"}, "does not speak"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**options)
    assert words in str(caught.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(InvalidRequest, match="endingOffsets is for batch reads"):
        read_stream(endingOffsets="latest")


def test_addresses() -> None:
    assert address_of({SERVERS: "PLAINTEXT://one:9092, two"}) == "penstock://one:9092,two:9092"
    assert address_of({"URL": "penstock://one,[::1]:7"}) == "penstock://one:9092,[::1]:7"
    assert address_of({SERVERS: "one", "url": "penstock://one:9092"}) == "penstock://one:9092"
    with pytest.raises(InvalidRequest, match="set only one"):
        address_of({SERVERS: "one", "url": "penstock://two"})
    with pytest.raises(InvalidUrl, match="inside one process"):
        address_of({"url": "memory:"})
