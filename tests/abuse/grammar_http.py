"""HTTP requests: every action of SQS in JSON and in forms, and every route of the HTTP API, with
hostile values."""

import json
import random
import urllib.parse
from functools import cache

import msgspec

from penstock.sqs.service import ACTIONS
from tests.abuse.grammar_structs import Values
from tests.abuse.streams import http_request

_QUEUES = ("fuzz-a", "fuzz-b", "fuzz-c.fifo")
_ATTRIBUTES = (
    "VisibilityTimeout", "DelaySeconds", "FifoQueue", "ContentBasedDeduplication", "RedrivePolicy",
    "MaximumMessageSize", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "Policy",
    "All",
)  # fmt: skip
_EDGES = (
    "0",
    "1",
    "-1",
    "43200",
    "43201",
    "99999999999999999999",
    "",
    "x",
    "true",
    "{}",
    "9" * 400,
)
_PATHS = (
    "/", "/queues", "/queues/{q}", "/topics", "/topics/{q}", "/groups", "/groups/{q}", "/cluster",
    "/alerts", "/audit", "/trace", "/trace/{p}", "/livez", "/readyz", "/startupz", "/metrics",
    "/v1/health/quorum-critical", "/v1/health/replicated", "/v1/cluster", "/v1/groups",
    "/v1/groups/{q}", "/v1/pipelines", "/v1/config", "/v1/audit?limit={n}", "/v1/queues",
    "/v1/queues/{q}", "/v1/queues/{q}/moves",
    "/v1/queues/{q}/messages?state={s}&from={n}&limit={n}",
    "/v1/queues/{q}/messages?partition={n}&group={s}&key={s}&header={s}&reason={s}", "/v1/readings",
    "/v1/history?name={s}&since={n}", "/v1/alerts", "/v1/events?limit={n}", "/v1/topics",
    "/v1/topics/{q}", "/v1/topics/{q}/messages?partition={n}&from={n}&limit={n}", "/v1/trace/{p}",
    "/assets/{s}", "/{s}",
)  # fmt: skip
_CHANGES = (
    ("POST", "/v1/queues", ("name", "partitions", "settings")),
    ("PATCH", "/v1/queues/{q}", ("settings", "group")),
    ("POST", "/v1/queues/{q}/purge", ("group",)),
    ("POST", "/v1/queues/{q}/pause", ("group",)),
    ("POST", "/v1/queues/{q}/resume", ("group",)),
    ("POST", "/v1/queues/{q}/reset", ("start", "time_ms", "group", "partition", "dry_run")),
    ("POST", "/v1/queues/{q}/redrive", ("to", "filter", "rate", "dry_run")),
    ("DELETE", "/v1/queues/{q}/moves/{s}", ()),
    ("POST", "/v1/queues/{q}/dead/revive", ("group", "filter", "dry_run")),
    ("POST", "/v1/queues/{q}/dead/discard", ("group", "filter")),
    ("POST", "/v1/queues/{q}/dead/archive", ("group", "filter")),
    ("POST", "/v1/queues/{q}/messages", ("body", "key", "headers", "delay_ms", "messages", "id")),
    ("DELETE", "/v1/queues/{q}/messages/{n}/{n}", ()),
    ("POST", "/v1/queues/{q}/receive", ("max", "lease_ms", "group")),
    ("POST", "/v1/queues/{q}/settle", ("verdicts",)),
    ("POST", "/v1/groups/{q}/reset", ("to", "topic", "partitions", "dry_run")),
    ("DELETE", "/v1/groups/{q}", ()),
    ("POST", "/v1/cluster/transfer", ("shard", "target")),
    ("POST", "/v1/alerts/test", ()),
)
_ROWS = {"filter", "settings", "verdicts", "messages", "headers", "partitions"}


def http_input(rng: random.Random) -> bytes:
    """One request."""
    match rng.randrange(4):
        case 0:
            return _action_json(rng)
        case 1:
            return _action_form(rng)
        case 2:
            path = _path(rng, rng.choice(_PATHS))
            return http_request(rng.choice(("GET", "GET", "HEAD", "OPTIONS", "POST")), path)
        case _:
            method, template, names = rng.choice(_CHANGES)
            body = {name: _field(rng, name) for name in names if rng.random() < 0.7}
            headers = {"content-type": "application/json"}
            return http_request(method, _path(rng, template), _dump(rng, body), headers)


def _path(rng: random.Random, template: str) -> str:
    values = Values(rng)
    fills = {
        "{q}": urllib.parse.quote(rng.choice((*_QUEUES, values.text()))),
        "{n}": rng.choice((*_EDGES, str(values.number()))),
        "{s}": urllib.parse.quote(values.text()),
        "{p}": rng.choice(("fuzz-a:0:0", "x", "fuzz-a:-1:9", urllib.parse.quote(values.text()))),
    }
    for mark, value in fills.items():
        template = template.replace(mark, value)
    return template or "/"


def _field(rng: random.Random, name: str) -> object:
    values = Values(rng)
    if name == "partitions" and rng.random() < 0.9:
        return rng.choice((1, 2, [0], 0, -1))
    if name == "name" and rng.random() < 0.8:
        return rng.choice(_QUEUES)
    if name in _ROWS and rng.random() < 0.7:
        row = {key: values.anything() for key in ("receipt", "verdict", "body", "ids", "reason")}
        return row if name in ("filter", "settings", "headers") else [row]
    return _plain(values.anything())


def _plain(value: object) -> object:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _dump(rng: random.Random, body: object) -> bytes:
    try:
        data = msgspec.json.encode(body)
    except (OverflowError, UnicodeEncodeError):
        data = b"{}"
    chance = rng.random()
    if chance < 0.02:
        return b"[" * rng.choice((10, 5_000))
    if chance < 0.04:
        return data[: rng.randrange(len(data) + 1)]
    if chance < 0.06:
        return data.replace(b'"', b"\xff", 1)
    return data


@cache
def _actions() -> tuple[str, ...]:
    return tuple(sorted(ACTIONS))


def _document(rng: random.Random) -> tuple[str, dict[str, object]]:
    action = rng.choice(_actions())
    row = Values(rng).struct(ACTIONS[action].request)
    assert isinstance(row, dict)
    if "QueueUrl" in row and rng.random() < 0.9:
        row["QueueUrl"] = f"http://localhost/000000000000/{rng.choice(_QUEUES)}"
    if "QueueName" in row and rng.random() < 0.9:
        row["QueueName"] = rng.choice(_QUEUES)
    if "Attributes" in row and rng.random() < 0.8:
        row["Attributes"] = {rng.choice(_ATTRIBUTES): rng.choice(_EDGES) for _ in range(2)}
    if "WaitTimeSeconds" in row:
        row["WaitTimeSeconds"] = rng.choice((0, 0, -1, 21))
    return action, row


def _action_json(rng: random.Random) -> bytes:
    action, row = _document(rng)
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": f"AmazonSQS.{action if rng.random() > 0.01 else 'NoSuch'}",
    }
    return http_request("POST", "/", _dump(rng, row), headers)


def _action_form(rng: random.Random) -> bytes:
    action, row = _document(rng)
    fields = [("Action", action), *_flat("", row)]
    body = urllib.parse.urlencode(fields, errors="replace").encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return http_request("POST", "/", body, headers)


def _flat(prefix: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        dotted = f"{prefix}." if prefix else ""
        return [pair for name, one in value.items() for pair in _flat(f"{dotted}{name}", one)]
    if isinstance(value, list):
        rows = enumerate(value, 1)
        return [pair for number, one in rows for pair in _flat(f"{prefix}.{number}", one)]
    plain = _plain(value)
    return [(prefix, plain if isinstance(plain, str) else json.dumps(plain))]
