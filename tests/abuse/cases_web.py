"""Hostile requests of the HTTP port beside SQS: smuggling, heads, the HTTP API, and the pages."""

import asyncio
import json
from collections.abc import Mapping

from tests.abuse.registry import Attack, Broken, Case, add_case, case
from tests.abuse.streams import http, http_request, pour, silent
from tests.abuse.target import Target

_JSON = {"content-type": "application/json"}
_DEEP = b'{"settings":' * 5_000 + b"1" + b"}" * 5_000
_DIGITS = "9" * 5_000

# Name, finding, method, path, body: refused with 4xx, never with 5xx and never granted.
_REQUESTS: tuple[tuple[str, str, str, str, bytes], ...] = (
    ("h70-limit-with-zeros", "F15", "GET", "/v1/audit?limit=0000000000000000000199999", b""),
    ("h70b-limit-of-5000-digits", "F14", "GET", f"/v1/audit?limit={_DIGITS}", b""),
    (
        "h70c-partition-of-5000-digits",
        "F14",
        "GET",
        f"/v1/queues/steady-sqs/messages?partition={_DIGITS}",
        b"",
    ),
    (
        "h71-place-of-5000-digits",
        "F14",
        "DELETE",
        f"/v1/queues/steady-sqs/messages/{_DIGITS}/0",
        b"",
    ),
    ("h71b-node-of-5000-digits", "F14", "DELETE", f"/v1/cluster/members/{_DIGITS}", b""),
    ("h72-json-deep", "F14", "POST", "/v1/queues", _DEEP),
    ("h72b-json-arrays-deep", "F14", "POST", "/v1/queues/steady-sqs/messages", b"[" * 200_000),
    ("h73-json-not-utf8", "F14", "POST", "/v1/queues", b'{"name": "\xff\xfe"}'),
    ("h73b-json-half-a-pair", "F14", "POST", "/v1/queues", rb'{"name": "\ud800"}'),
    (
        "h73c-json-not-utf8-in-receive",
        "F14",
        "POST",
        "/v1/queues/steady-sqs/receive",
        b'{"group": "\xff"}',
    ),
    (
        "h74-number-of-5000-digits",
        "F14",
        "POST",
        "/v1/queues/steady-sqs/receive",
        b'{"max": ' + b"9" * 5_000 + b"}",
    ),
    ("h75-receive-of-none", "", "POST", "/v1/queues/steady-sqs/receive", b'{"max": -1}'),
    (
        "h75b-lease-of-ages",
        "",
        "POST",
        "/v1/queues/steady-sqs/receive",
        b'{"max": 1, "lease_ms": 9223372036854775807}',
    ),
    (
        "h76-settle-forged",
        "",
        "POST",
        "/v1/queues/steady-sqs/settle",
        b'{"verdicts": [{"receipt": "AAAA", "verdict": "ack"}]}',
    ),
    (
        "h77-partitions-many",
        "F5d",
        "POST",
        "/v1/queues",
        b'{"name": "wide-web", "partitions": 100000000}',
    ),
    (
        "h77b-partitions-negative",
        "",
        "POST",
        "/v1/queues",
        b'{"name": "wide-web", "partitions": -1}',
    ),
    ("h78-name-path", "", "POST", "/v1/queues", b'{"name": "../../etc/passwd"}'),
    ("h78b-name-internal", "F12", "POST", "/v1/queues", b'{"name": "__audit"}'),
    (
        "h79-settings-unknown",
        "",
        "POST",
        "/v1/queues",
        b'{"name": "set", "settings": {"no.such": "1"}}',
    ),
    ("h80-body-is-a-list", "", "POST", "/v1/queues", b"[1, 2]"),
    ("h80b-body-is-text", "", "POST", "/v1/cluster/members", b'"node"'),
    (
        "h81-node-negative",
        "",
        "POST",
        "/v1/cluster/members",
        b'{"node": -1, "peer": "127.0.0.1:1"}',
    ),
    (
        "h81b-node-without-place",
        "",
        "POST",
        "/v1/cluster/members",
        b'{"node": 9, "peer": "nowhere"}',
    ),
    (
        "h81c-node-place-long",
        "",
        "POST",
        "/v1/cluster/members",
        json.dumps({"node": 9, "peer": "a" * 100_000 + ":1"}).encode(),
    ),
    (
        "h82-transfer-nowhere",
        "",
        "POST",
        "/v1/cluster/transfer",
        b'{"shard": 999999, "target": 77}',
    ),
    (
        "h83-reset-of-nobody",
        "",
        "POST",
        "/v1/groups/nobody/reset",
        b'{"to": 99999999999999999999999}',
    ),
    (
        "h84-filter-huge",
        "",
        "POST",
        "/v1/queues/steady-sqs/redrive",
        json.dumps({"filter": {"ids": ["x"] * 90_000}}).encode(),
    ),
    ("h85-body-of-a-mebibyte-and-one", "", "POST", "/v1/queues", b" " * ((1 << 20) + 1)),
    ("h86-assets-path", "", "GET", "/assets/../../../../etc/passwd", b""),
    ("h86b-assets-path-escaped", "", "GET", "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd", b""),
    ("h86c-assets-path-nul", "", "GET", "/assets/a%00.js", b""),
    ("h87-trace-of-garbage", "", "GET", "/v1/trace/%ff%fe:0:99999999999999999999", b""),
    ("h87b-trace-of-5000-digits", "F14", "GET", f"/v1/trace/known:0:{_DIGITS}", b""),
    ("h88-history-since-ever", "F14", "GET", f"/v1/history?since={_DIGITS}&name=x", b""),
    ("h89-group-of-8-kilobytes", "F13", "GET", "/v1/groups/" + "g" * 8_000, b""),
    ("h89b-path-of-8-kilobytes", "F13", "GET", "/v1/" + "p" * 8_000, b""),
    (
        "h90-messages-from-garbage",
        "",
        "GET",
        "/v1/topics/known/messages?from=%ff&limit=-1&partition=x",
        b"",
    ),
    ("h91-method-unknown", "", "BREW", "/v1/queues", b"{}"),
    ("h92-connect", "", "CONNECT", "evil.example:443", b""),
    ("h93-absolute-target", "", "GET", "http://evil.example/v1/config", b""),
)
_GRANTED_IS_FINE = {
    "h75-receive-of-none",
    "h76-settle-forged",
    "h83-reset-of-nobody",
    "h84-filter-huge",
    "h87-trace-of-garbage",
    "h87b-trace-of-5000-digits",
    "h88-history-since-ever",
    "h89-group-of-8-kilobytes",
    "h93-absolute-target",
}
"""What may be answered 200: it says that there is nothing."""


def _asker(name: str, method: str, path: str, body: bytes) -> Attack:
    async def attack(target: Target) -> None:
        headers = _JSON if method != "GET" else None
        status, _, answer = await http(target.http, method, path, body, headers)
        if status >= 500 and status != 503:
            raise Broken(f"answered {status}: {answer[:300]!r}")
        if status in (200, 201, 202) and name not in _GRANTED_IS_FINE:
            raise Broken(f"answered {status}: {answer[:300]!r}")

    return attack


for _name, _finding, _method, _path, _body in _REQUESTS:
    add_case(
        Case(
            _name,
            "web",
            _finding,
            f"{_method} {_path[:60]} with {len(_body)} bytes: {_name}",
            _asker(_name, _method, _path, _body),
        )
    )

# Raw bytes at the HTTP port: each is refused, or parsed as one request, and not as two.
_SMUGGLED = b"GET /v1/cluster HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = b"POST /v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_RAW: tuple[tuple[str, bytes], ...] = (
    ("two-lengths", _POST + b"Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}" + _SMUGGLED),
    (
        "length-and-chunks",
        _POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    ),
    (
        "chunks-and-identity",
        _POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + _SMUGGLED,
    ),
    ("chunk-size-huge", _POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
    ("chunk-size-negative", _POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"),
    ("chunk-extensions-long", _POST + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 300_000),
    (
        "chunk-trailers-long",
        _POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"A: b\r\n" * 50_000,
    ),
    (
        "chunks-of-one-byte",
        _POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n",
    ),
    ("length-negative", _POST + b"Content-Length: -5\r\n\r\n"),
    ("length-plus", _POST + b"Content-Length: +5\r\n\r\n{}   "),
    ("length-huge", _POST + b"Content-Length: 99999999999999999999999\r\n\r\n"),
    ("length-of-5000-digits", _POST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n"),
    ("header-folded", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n"),
    ("header-bare-lf", b"GET /livez HTTP/1.1\nHost: localhost\n\n"),
    ("header-bare-cr", b"GET /livez HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n"),
    ("header-nul", b"GET /livez HTTP/1.1\r\nHost: local\0host\r\n\r\n"),
    ("header-name-space", b"GET /livez HTTP/1.1\r\nHost : localhost\r\n\r\n"),
    ("header-colonless", b"GET /livez HTTP/1.1\r\nHost\r\n\r\n"),
    ("headers-10000", b"GET /livez HTTP/1.1\r\n" + b"A: b\r\n" * 10_000 + b"\r\n"),
    ("header-of-a-megabyte", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * (1 << 20)),
    ("uri-of-a-megabyte", b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("hosts-two", b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"),
    ("host-missing", b"GET /v1/config HTTP/1.1\r\n\r\n"),
    ("version-0-9", b"GET /\r\n"),
    ("version-9", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n"),
    ("http2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100)),
    (
        "upgrade-h2c",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
        + _SMUGGLED,
    ),
    (
        "upgrade-websocket",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n" + bytes(500),
    ),
    ("expect-continue", _POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"),
    ("kafka-frames", b"\0\0\0\x0e\0\x12\0\0\0\0\0\1\0\4test" * 100),
    ("garbage", bytes(range(256)) * 1_000),
    ("empty-lines", b"\r\n" * 100_000),
    ("pipelined-5000", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5_000),
    ("pipelined-pages", b"GET /queues HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100),
)


def _pourer(data: bytes) -> Attack:
    async def attack(target: Target) -> None:
        answer = await pour(target.http, data, seconds=6.0, quiet_seconds=0.4)
        if b" 500 " in answer[:200]:
            raise Broken(f"answered {answer[:300]!r}")

    return attack


for _name, _data in _RAW:
    add_case(
        Case(
            f"h-raw-{_name}",
            "web",
            "",
            f"{len(_data)} bytes at the HTTP port: {_name}",
            _pourer(_data),
        )
    )


@case("web", "")
async def h50_a_page_of_another_site_changes_something(target: Target) -> None:
    """POST, PATCH and DELETE at /v1 with the signs of a foreign page, and as a form would be."""
    body = b'{"name": "foreign-web"}'
    tries: tuple[Mapping[str, str], ...] = (
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {**_JSON, "origin": "http://evil.example"},
        {**_JSON, "origin": "null"},
        {**_JSON, "referer": "http://evil.example/"},
        {**_JSON, "sec-fetch-site": "cross-site"},
        {**_JSON, "host": "evil.example"},
    )
    for headers in tries:
        for method, path in (("POST", "/v1/queues"), ("DELETE", "/v1/queues/known-sqs")):
            status, _, _ = await http(target.http, method, path, body, headers)
            if status in (200, 201, 202):
                raise Broken(f"{method} {path} with {headers} was answered {status}")


@case("web", "F13", seconds=20)
async def h51_urls_that_fail_are_not_long_in_the_log(target: Target) -> None:
    """1,000 requests with addresses of 8 kB, which fail in different ways."""
    for number in range(10):
        path = f"/v1/queues/{'q' * 7_000}{number}/messages?partition=x"
        data = http_request("GET", path) + http_request("POST", path, b"{", _JSON)
        await asyncio.gather(
            *(pour(target.http, data * 5, seconds=5.0, quiet_seconds=0.3) for _ in range(10))
        )


@case("web", "")
async def h52_streams_of_the_dashboard(target: Target) -> None:
    """300 connections ask for pages and never read."""
    data = (
        http_request("GET", "/") + http_request("GET", "/metrics") + http_request("GET", "/queues")
    )
    async with silent(target.http, data * 5, 300, receive_buffer=4096):
        await asyncio.sleep(2.0)


@case("web", "", seconds=30)
async def h53_metrics_with_many_groups(target: Target) -> None:
    """/metrics and every page of the dashboard, 20 times at once."""
    paths = (
        "/metrics",
        "/",
        "/queues",
        "/topics",
        "/groups",
        "/cluster",
        "/alerts",
        "/v1/readings",
    )
    await asyncio.gather(*(http(target.http, "GET", path) for path in paths * 20))


@case("web", "F17")
async def p27_adding_a_node_scans_no_ports(target: Target) -> None:
    """An address given to /v1/cluster/members: does the answer tell an open port from a closed
    one?"""
    server = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    opened = server.sockets[0].getsockname()[1]
    answers = []
    for node, port in ((7, opened), (8, 1)):
        body = json.dumps({"node": node, "peer": f"127.0.0.1:{port}"}).encode()
        status, _, text = await http(target.http, "POST", "/v1/cluster/members", body, _JSON)
        said = text.decode(errors="replace").replace(f"127.0.0.1:{port}", "there")
        answers.append((status, said.replace(f'"node":{node}', "").replace(f"node {node}", "")))
        if status in (200, 201, 202):
            await http(target.http, "DELETE", f"/v1/cluster/members/{node}", b"{}", _JSON)
    server.close()
    if answers[0] != answers[1]:
        raise Broken(f"an open port and a closed one are told apart: {answers}")
