"""The process itself: how it stops, what it shows, and what it leaves on disk."""

import asyncio
import stat
import time
from pathlib import Path

from penstock.wire.frames import greet
from tests.abuse.kafka_wire import frame
from tests.abuse.registry import Broken, case
from tests.abuse.streams import http, http_request, silent
from tests.abuse.target import Target

STOP_SECONDS_MAX = 3.0
_CANARY = "canary-4711-secret"


async def _stop(target: Target, what: str) -> None:
    """SIGTERM, with the time it takes."""
    target.end_good_client()
    began = time.monotonic()
    code = await asyncio.to_thread(target.cluster.terminate, 1)
    seconds = time.monotonic() - began
    if code != 0:
        raise Broken(f"it ended with {code} beside {what}")
    if seconds > STOP_SECONDS_MAX:
        raise Broken(f"it took {seconds:.1f} s to stop beside {what}")


@case("process", "F16", alone=True, kill_after=False)
async def sigterm_beside_an_idle_kafka_client(target: Target) -> None:
    """SIGTERM while a Kafka client is connected, has no request and does not close."""
    async with silent(target.kafka, frame(18, 0, {}), 3):
        await asyncio.sleep(0.3)
        await _stop(target, "an idle Kafka client")


@case("process", "F16", alone=True, kill_after=False)
async def sigterm_beside_an_idle_native_client(target: Target) -> None:
    """SIGTERM while a native client is connected and idle."""
    async with silent(target.kafka, greet(), 3):
        await asyncio.sleep(0.3)
        await _stop(target, "an idle native client")


@case("process", "F16", alone=True, kill_after=False)
async def sigterm_beside_an_idle_http_client(target: Target) -> None:
    """SIGTERM while HTTP connections are kept, half begun, and streaming."""
    begun = b"GET /v1/queues HTTP/1.1\r\n"
    kept = http_request("GET", "/livez")
    async with silent(target.http, kept, 3), silent(target.http, begun, 3):
        await asyncio.sleep(0.3)
        await _stop(target, "idle HTTP clients")


@case("process", "F16", alone=True, kill_after=False)
async def sigterm_beside_fetches_that_wait(target: Target) -> None:
    """SIGTERM while fetches wait for 30 seconds."""
    row = [{"partition": 0, "fetch_offset": 250, "partition_max_bytes": 1_000}]
    waits = frame(
        1,
        4,
        {
            "max_wait": 30_000,
            "min_bytes": 1 << 20,
            "topics": [{"topic": "known", "partitions": row}],
        },
    )
    async with silent(target.kafka, waits, 5):
        await asyncio.sleep(0.3)
        await _stop(target, "fetches that wait")


@case("process", "F16", alone=True, kill_after=False)
async def sigterm_beside_slow_readers(target: Target) -> None:
    """SIGTERM while 20 clients have megabytes to read and do not: they get the grace, no more."""
    from tests.abuse.kafka_wire import fetch_frame
    from tests.abuse.target import MIB

    topic = await target.fat_topic()
    data = fetch_frame(topic, [(0, 0)], bytes_max=8 * MIB, times=2)
    async with silent(target.kafka, data, 20, receive_buffer=4096):
        await asyncio.sleep(0.5)
        target.end_good_client()
        code = await asyncio.to_thread(target.cluster.terminate, 1)
        if code != 0:
            raise Broken(f"it ended with {code} beside slow readers")


@case("process", "F19")
async def x14_files_of_the_data_directory(target: Target) -> None:
    """Others on the machine may not look into the data directory."""
    path = target.cluster.nodes[1].data
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o007:
        raise Broken(f"the data directory has the mode {mode:04o}")
    for file in path.rglob("*"):
        if stat.S_IMODE(file.lstat().st_mode) & 0o006:
            raise Broken(f"{file.relative_to(path)} may be read by everybody")


@case(
    "process",
    "F19",
    flags=("--alerts.webhook", f"http://127.0.0.1:1/{_CANARY}"),
)
async def x13b_the_secret_of_a_webhook(target: Target) -> None:
    """The address of a webhook is a secret: no page, metric or log shows it."""
    headers = {"content-type": "application/json"}
    await http(target.http, "POST", "/v1/alerts/test", b"{}", headers)
    await asyncio.sleep(1.0)
    shown = []
    for path in ("/v1/config", "/metrics", "/alerts", "/v1/alerts", "/v1/cluster", "/cluster", "/"):
        _, _, body = await http(target.http, "GET", path)
        if _CANARY.encode() in body:
            shown.append(path)
    log = await asyncio.to_thread(
        Path(target.cluster.nodes[1].log_file).read_text, "utf-8", "replace"
    )
    if _CANARY in log:
        shown.append("the log")
    if shown:
        raise Broken(f"the secret is shown by {', '.join(shown)}")
