"""Internal topics: clients must not forge, alter or delete what the broker writes there."""

import asyncio
import json

from penstock.wire.requests import (
    AddPartitions,
    Append,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    Purge,
    TopicInfo,
)
from tests.abuse.hostile_batches import honest
from tests.abuse.kafka_wire import KafkaConnection, create_topic, leader_of
from tests.abuse.registry import Broken, case
from tests.abuse.streams import http
from tests.abuse.target import Target, native_call

_JSON = {"content-type": "application/json"}
_AUDIT, _STAGING = "__audit", "__staging"
_FORGED = "payroll-forged"


async def _make_audit(target: Target) -> None:
    """An order that is audited, so that the topic is there."""
    await http(target.http, "POST", "/v1/queues", b'{"name": "ordered"}', _JSON)
    for _ in range(100):
        if await leader_of(target.kafka, _AUDIT) is not None:
            return
        await asyncio.sleep(0.1)


@case("internal", "F12")
async def x09_a_forged_audit_record(target: Target) -> None:
    """A Kafka producer appends "delete queue payroll" to __audit: /v1/audit must not show it."""
    await _make_audit(target)
    line = {
        "at_ms": 1,
        "node": 1,
        "who": "admin",
        "action": "delete queue",
        "target": _FORGED,
        "detail": "",
        "outcome": "done",
    }
    try:
        code = await target.produce(_AUDIT, 0, honest([json.dumps(line).encode()]))
    except OSError:
        return
    if code == 0:
        raise Broken("a record was appended to __audit")
    _, _, body = await http(target.http, "GET", "/v1/audit")
    if _FORGED.encode() in body:
        raise Broken("/v1/audit shows a forged record")


@case("internal", "F12")
async def x09b_the_audit_is_deleted(target: Target) -> None:
    """DeleteTopics of __audit, by name."""
    await _make_audit(target)
    async with await KafkaConnection.open(target.kafka) as connection:
        answer = await connection.call(20, 1, {"topic_names": [_AUDIT], "timeout": 5_000})
    if answer.responses[0].error_code == 0:
        raise Broken("__audit was deleted")


@case("internal", "F12")
async def x09c_the_audit_is_trimmed(target: Target) -> None:
    """DeleteRecords of everything in __audit."""
    await _make_audit(target)
    async with await KafkaConnection.open(target.kafka) as connection:
        rows = [{"partition_index": 0, "offset": -1}]
        answer = await connection.call(
            21, 0, {"topics": [{"name": _AUDIT, "partitions": rows}], "timeout": 5_000}
        )
    if answer.topics[0].partitions[0].error_code == 0:
        raise Broken("the records of __audit were deleted")


@case("internal", "F12")
async def x09d_the_audit_is_configured(target: Target) -> None:
    """AlterConfigs: __audit shall keep its records for a millisecond."""
    await _make_audit(target)
    config = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
    rows = [{"resource_type": 2, "resource_name": _AUDIT, "configs": config}]
    async with await KafkaConnection.open(target.kafka) as connection:
        answer = await connection.call(44, 0, {"resources": rows, "validate_only": False})
    if answer.responses[0].error_code == 0:
        raise Broken("the configs of __audit were altered")


@case("internal", "F12")
async def x09e_internal_topics_are_made(target: Target) -> None:
    """CreateTopics of __staging, before the broker has needed it."""
    if await leader_of(target.kafka, _STAGING) is None:
        if await create_topic(target.kafka, _STAGING, 1) == 0:
            raise Broken("__staging was made by a client")


@case("internal", "F12")
async def x09f_internal_topics_get_partitions(target: Target) -> None:
    """CreatePartitions of __audit."""
    await _make_audit(target)
    async with await KafkaConnection.open(target.kafka) as connection:
        answer = await connection.call(
            37, 0, {"topics": [{"name": _AUDIT, "count": 50}], "timeout": 5_000}
        )
    if answer.results[0].error_code == 0:
        raise Broken("__audit got partitions")


@case("internal", "F12")
async def x09g_native_clients_change_internal_topics(target: Target) -> None:
    """Append, configure, delete and make by the native protocol."""
    await _make_audit(target)
    info = await target.info(_AUDIT)
    granted = []
    for request, payload in (
        (Append(info.topic_id, 0), honest([b"{}"])),
        (ConfigureTopic(_AUDIT, {"retention.ms": "1"}), b""),
        (AddPartitions(_AUDIT, 50), b""),
        (Purge(_AUDIT, "default"), b""),
        (CreateTopic(_STAGING, 1, {}), b""),
        (DeleteTopic(_AUDIT), b""),
    ):
        answer, _ = await native_call(target.kafka, request, payload)
        if answer is not None and not (isinstance(answer, TopicInfo) and answer.name == _STAGING):
            granted.append(type(request).__name__)
    if granted:
        raise Broken(f"native clients may {', '.join(granted)} on __audit")


@case("internal", "F12")
async def x09h_http_changes_internal_topics(target: Target) -> None:
    """Send, purge, configure and delete by /v1."""
    await _make_audit(target)
    granted = []
    for method, path, body in (
        ("POST", f"/v1/queues/{_AUDIT}/messages", b'{"body": "forged"}'),
        ("POST", f"/v1/queues/{_AUDIT}/purge", b"{}"),
        ("PATCH", f"/v1/queues/{_AUDIT}", b'{"settings": {"retention.ms": 1}}'),
        ("DELETE", f"/v1/queues/{_AUDIT}", b"{}"),
    ):
        status, _, _ = await http(target.http, method, path, body, _JSON)
        if status in (200, 201, 202):
            granted.append(f"{method} {path}")
    if granted:
        raise Broken(f"granted: {', '.join(granted)}")


@case("internal", "F12")
async def x09i_sqs_uses_internal_topics(target: Target) -> None:
    """Queues named like internal topics, by name and by URL."""
    await _make_audit(target)
    url = (await target.queue_url("outer")).replace("outer", _AUDIT)
    granted = []
    for action, document in (
        ("SendMessage", {"QueueUrl": url, "MessageBody": "forged"}),
        ("ReceiveMessage", {"QueueUrl": url}),
        ("DeleteQueue", {"QueueUrl": url}),
        ("CreateQueue", {"QueueName": _STAGING}),
    ):
        try:
            await target.sqs(action, document)
        except (ValueError, OSError, EOFError):
            continue
        granted.append(action)
    if granted:
        raise Broken(f"SQS may {', '.join(granted)} with internal topics")
