"""`machines.catalog_commands`: what is logged stays readable, and nothing is half understood."""

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidRequest, UnsupportedVersion
from penstock.core.limits import CATALOG_COMMAND_BYTES_MAX
from penstock.core.types import NO_TOPIC_ID, NodeId, ShardId, TopicId
from penstock.machines.catalog_commands import (
    AddNode,
    AddPartitions,
    CatalogCommand,
    ConfigureGroup,
    ConfigureTopic,
    ConfigureWorkGroup,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    FoundCluster,
    KeepSecret,
    PlaceShard,
    RegisterNode,
    RemoveNode,
    TakeProducerIds,
    UseCatalogVersion,
    decode_catalog_command,
    encode_catalog_command,
)

ID = TopicId(b"0123456789abcdef")
ONE, TWO = NodeId(1), NodeId(2)

ON_DISK: list[tuple[CatalogCommand, list[object]]] = [
    (
        FoundCluster(shards=1, nodes=((ONE, "a:1"),), placement=((ShardId(1), (ONE,)),)),
        ["found_cluster", 9, 1, [[1, "a:1"]], [[1, [1]]], []],
    ),
    (
        CreateTopic(name="t", topic_id=ID, partitions=3, configs={"retention.ms": "5"}),
        ["create_topic", 9, "t", ID, 3, {"retention.ms": "5"}],
    ),
    (DeleteTopic(name="t"), ["delete_topic", 9, "t", NO_TOPIC_ID]),
    (AddPartitions(name="t", total=5), ["add_partitions", 9, "t", 5]),
    (
        ConfigureTopic(name="t", changes={"retention.ms": None, "flush.ms": "1"}),
        ["configure_topic", 9, "t", {"retention.ms": None, "flush.ms": "1"}],
    ),
    (AddNode(node=TWO, peer="b:1"), ["add_node", 9, 2, "b:1"]),
    (
        RegisterNode(node=TWO, peer="b:1", kafka="b:2", http="b:3", incarnation="i", rack="r"),
        ["register_node", 9, 2, "b:1", "b:2", "b:3", "i", "r"],
    ),
    (DrainNode(node=TWO), ["drain_node", 9, 2]),
    (RemoveNode(node=TWO), ["remove_node", 9, 2]),
    (PlaceShard(shard=ShardId(1), nodes=(TWO, ONE)), ["place_shard", 9, 1, [2, 1]]),
    (TakeProducerIds(count=7), ["take_producer_ids", 9, 7]),
    (UseCatalogVersion(version=2), ["use_catalog_version", 9, 2]),
    (
        ConfigureGroup(group="g", changes={"share.auto.offset.reset": None}),
        ["configure_group", 9, "g", {"share.auto.offset.reset": None}],
    ),
    (KeepSecret(name="n", secret=b"s"), ["keep_secret", 9, "n", b"s"]),
    (
        ConfigureWorkGroup(topic="t", group="g", changes={"queue.lease.ms": "5"}),
        ["configure_work_group", 9, "t", "g", {"queue.lease.ms": "5"}],
    ),
]


def test_every_command_is_tried() -> None:
    assert [type(command) for command, _ in ON_DISK] == list(get_args(CatalogCommand))


@pytest.mark.parametrize(("command", "fields"), ON_DISK)
def test_the_encoding_never_changes(command: CatalogCommand, fields: list[object]) -> None:
    payload = encode_catalog_command(command, stamp_ms=9)
    assert payload == msgspec.msgpack.encode(fields)
    assert decode_catalog_command(payload) == msgspec.structs.replace(command, stamp_ms=9)


def test_a_secret_is_not_shown() -> None:
    assert repr(KeepSecret(name="n", secret=b"hidden")) == "KeepSecret(name='n')"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        ["paint_topic", 9, "t"],
        ["add_node", 9, 2],
        ["add_node", 9, 2, "b:1", "and a field of the future"],
        ["add_node", 9, "two", "b:1"],
        {"type": "add_node"},
    ],
)
def test_a_command_of_a_later_build_stops_the_node(fields: object) -> None:
    with pytest.raises(UnsupportedVersion, match="later version of Penstock wrote it"):
        decode_catalog_command(msgspec.msgpack.encode(fields))


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encode_catalog_command(DeleteTopic(name="\ud800"), stamp_ms=9)
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encode_catalog_command(AddPartitions(name="t", total=1 << 70), stamp_ms=9)
    with pytest.raises(InvalidRequest, match="ask for less at once"):
        encode_catalog_command(DeleteTopic(name="t" * CATALOG_COMMAND_BYTES_MAX), stamp_ms=9)


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(st.binary(max_size=60))
def test_noise_is_refused(noise: bytes) -> None:
    try:
        command = decode_catalog_command(noise)
    except UnsupportedVersion:
        return
    assert encode_catalog_command(command, stamp_ms=command.stamp_ms)
