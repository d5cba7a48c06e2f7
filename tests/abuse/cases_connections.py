"""Storms and sieges: many connections that are silent, half begun, slow, or gone at once."""

import asyncio
import socket
import struct

from penstock.wire.frames import greet
from tests.abuse.kafka_wire import frame
from tests.abuse.registry import Broken, case
from tests.abuse.streams import http, http_request, silent
from tests.abuse.target import MIB, Target

_API_VERSIONS = frame(18, 0, {})


async def _health(target: Target, why: str) -> None:
    for path in ("/livez", "/readyz"):
        status, _, body = await http(target.http, "GET", path, seconds=5.0)
        if status != 200:
            raise Broken(f"{path} is {status} {body[:100]!r} {why}")


@case("connections", "F9")
async def c02_257_idle_http_connections(target: Target) -> None:
    """257 connections that have asked once, and are kept: /livez must be answered."""
    async with silent(target.http, http_request("GET", "/v1/cluster"), 257):
        await asyncio.sleep(0.5)
        await _health(target, "beside 257 idle connections")


@case("connections", "F9")
async def c03_600_idle_http_connections(target: Target) -> None:
    """600 connections that have asked for /livez and are kept."""
    async with silent(target.http, http_request("GET", "/livez"), 600):
        await asyncio.sleep(0.5)
        await _health(target, "beside 600 idle connections")


@case("connections", "F9")
async def c04_300_half_heads(target: Target) -> None:
    """300 connections that have sent half of a request's head."""
    async with silent(target.http, b"GET /v1/queues HTTP/1.1\r\nHost: loc", 300):
        await asyncio.sleep(0.5)
        await _health(target, "beside 300 half heads")


@case("connections", "F9")
async def c05_300_bodies_that_do_not_come(target: Target) -> None:
    """300 connections that announce a body of a megabyte and send none of it."""
    data = (
        b"POST /v1/queues HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000\r\n\r\n"
    )
    async with silent(target.http, data, 300):
        await asyncio.sleep(1.0)
        await _health(target, "beside 300 bodies that do not come")


@case("connections", "F9")
async def c06_5100_connections_of_sqs(target: Target) -> None:
    """5,100 connections that have asked SQS once, and are kept."""
    body = b"{}"
    headers = {
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "AmazonSQS.ListQueues",
    }
    async with silent(target.http, http_request("POST", "/", body, headers), 5_100):
        await asyncio.sleep(1.0)
        await _health(target, "beside 5,100 connections of SQS")


@case("connections", "")
async def c07_2000_idle_kafka_connections(target: Target) -> None:
    """2,000 connections of Kafka clients that say nothing after their first request."""
    async with silent(target.kafka, _API_VERSIONS, 2_000):
        await asyncio.sleep(2.0)


@case("connections", "F7")
async def c08_500_native_connections(target: Target) -> None:
    """500 native connections that say nothing after their greeting."""
    async with silent(target.kafka, greet(), 500):
        await asyncio.sleep(0.5)


@case("connections", "")
async def c09_connections_that_come_and_go(target: Target) -> None:
    """5,000 connections, each closed as soon as it is made, at every port."""
    for _ in range(17):
        for address in (target.kafka, target.http, target.peer):
            async with silent(address, b"", 100):
                pass


@case("connections", "")
async def c10_connections_that_reset(target: Target) -> None:
    """2,000 connections that are reset in the middle of a request."""
    for address, data in (
        (target.kafka, _API_VERSIONS + b"\0\0\0\x20"),
        (target.http, b"GET /livez HTTP/1.1\r\nHo"),
    ):
        for _ in range(10):
            async with silent(address, data, 100) as sockets:
                for one in sockets:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@case("connections", "F6", seconds=20)
async def c11_one_byte_at_a_time(target: Target) -> None:
    """200 connections send a request one byte at a time."""
    loop = asyncio.get_running_loop()
    data = frame(3, 1, {"topics": None})
    async with silent(target.kafka, b"", 200) as sockets:
        for byte in data:
            for one in sockets:
                try:
                    await loop.sock_sendall(one, bytes([byte]))
                except OSError:
                    continue
            await asyncio.sleep(0.01)


@case("connections", "F1", alone=True)
async def c12_200_slow_readers_of_messages(target: Target) -> None:
    """200 connections fetch a megabyte ten times and never read."""
    from tests.abuse.kafka_wire import fetch_frame

    topic = await target.fat_topic()
    data = fetch_frame(topic, [(0, 0)], bytes_max=MIB, times=10)
    async with silent(target.kafka, data, 200, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("connections", "F6", alone=True)
async def c14_10100_kafka_connections(target: Target) -> None:
    """10,100 idle connections, more than may be: those that are there go on."""
    async with silent(target.kafka, _API_VERSIONS, 10_100) as sockets:
        if len(sockets) < 9_000:
            raise OSError(f"only {len(sockets)} connections could be made here")
        await asyncio.sleep(1.0)
        await _health(target, "beside 10,100 Kafka connections")


@case("connections", "")
async def c15_streams_of_events(target: Target) -> None:
    """100 connections that ask for a stream of events and never read it."""
    data = http_request("GET", "/queues", headers={"accept": "text/event-stream"})
    async with silent(target.http, data, 100, receive_buffer=4096):
        await asyncio.sleep(1.0)
        await _health(target, "beside 100 streams")
