"""A broker as a process: it comes up, says so, and ends as it should."""

import asyncio
import contextlib
import http.client
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.errors import DiskFailed
from penstock.server.reserved_ports import ReservedPorts
from penstock.server.server import Places, Server, node_settings
from penstock.server.sources import load_config
from penstock.storage.memory_disk import MemoryDisk
from tests.cluster_key import key_file
from tests.unit.server.brokers import STOP_SECONDS, broker, get

pytestmark = pytest.mark.slow


def test_it_comes_up_serves_and_stops(tmp_path: Path) -> None:
    with broker(tmp_path) as started:
        places = started.wait_ready()
        assert places["pid"] == started.process.pid
        assert places["data"] == str(started.data)
        for path in ("/livez", "/startupz", "/readyz", "/v1/health/replicated"):
            assert get(places["http"], path)[0] == 200
        status, cluster = get(places["http"], "/v1/cluster")
        assert status == 200
        assert cluster["nodes"][0]["kafka"] == places["kafka"]
        _, config = get(places["http"], "/v1/config")
        rows = {row["name"]: row for row in config["settings"]}
        assert rows["storage.segment_size"]["source"] == "flag --storage.segment-size"
        started.send(signal.SIGTERM)
        assert started.wait_end() == 0
        assert not started.ready_file.exists()
        assert started.lines[-1].endswith("stopped\n")


def test_the_secret_of_a_webhook_is_not_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "webhook").write_text("http://127.0.0.1:1/hush\n", "utf-8")
    with broker(tmp_path, **{"alerts.webhook": "@webhook"}) as started:
        places = started.wait_ready()
        assert b"hush" not in Path(f"/proc/{started.process.pid}/cmdline").read_bytes()
        _, alerts = get(places["http"], "/v1/alerts")
        assert alerts["webhook"] == "http://127.0.0.1/…"
        started.send(signal.SIGTERM)
        assert started.wait_end() == 0
        assert not any("hush" in line for line in started.lines)


def ask_sqs(address: str, action: str, document: object) -> http.client.HTTPConnection:
    """Send a request of SQS, and do not wait for its answer."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=STOP_SECONDS)
    connection.request(
        "POST",
        "/",
        msgspec.json.encode(document),
        {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"},
    )
    return connection


def sqs_answer(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    with contextlib.closing(connection):
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())


def test_it_serves_sqs_and_a_stop_waits_for_nobody_who_waits(tmp_path: Path) -> None:
    with broker(tmp_path) as started:
        address = started.wait_ready()["sqs"].removeprefix("http://")
        status, made = sqs_answer(ask_sqs(address, "CreateQueue", {"QueueName": "jobs"}))
        assert (status, made["QueueUrl"]) == (200, f"http://{address}/000000000000/jobs")
        message = {"QueueUrl": made["QueueUrl"], "MessageBody": "hello"}
        assert sqs_answer(ask_sqs(address, "SendMessage", message))[0] == 200
        wait = {"QueueUrl": made["QueueUrl"], "WaitTimeSeconds": 20}
        status, received = sqs_answer(ask_sqs(address, "ReceiveMessage", wait))
        assert [one["Body"] for one in received["Messages"]] == ["hello"]
        assert any("without checking their signatures" in line for line in started.lines)
        waiting = ask_sqs(address, "ReceiveMessage", wait)
        # Answered after the other has begun to wait: what is sent first arrives first.
        assert sqs_answer(ask_sqs(address, "ListQueues", {}))[0] == 200
        started.send(signal.SIGTERM)
        assert sqs_answer(waiting) == (200, {})
        assert started.wait_end() == 0


def test_sqs_can_be_left_out(tmp_path: Path) -> None:
    with broker(tmp_path, **{"sqs.enabled": "false"}) as started:
        places = started.wait_ready()
        assert places["sqs"] == ""
        status, _ = sqs_answer(ask_sqs(places["http"], "ListQueues", {}))
        assert status == 415


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with broker(tmp_path) as started:
        host, _, port = started.wait_ready()["http"].rpartition(":")
        with socket.create_connection((host, int(port))) as unfinished:
            # A request whose body does not come holds up the stop for a moment.
            unfinished.sendall(
                b"POST /v1/cluster/transfer HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n"
            )
            assert get(f"{host}:{port}", "/livez")[0] == 200
            started.send(signal.SIGTERM)
            assert started.process.stderr is not None
            for line in started.process.stderr:
                if "SIGTERM: stopping" in line:
                    break
            started.send(signal.SIGINT)
            assert started.wait_end() == -signal.SIGINT


def test_a_node_that_cannot_go_on_ends_it_with_the_reason(tmp_path: Path) -> None:
    free = dict.fromkeys(("kafka", "http", "peer"), "127.0.0.1:0")
    small = {"storage.segment_size": "1MiB", "storage.ballast_size": "1MiB"}
    flags = {"data": str(tmp_path / "data"), **free, **small}

    async def run() -> None:
        def break_disk(_places: Places) -> None:
            assert server.node is not None
            server.node.failed.set_result(DiskFailed("the disk of shard 1 has failed"))

        server = Server(load_config(flags=flags, environment={}), on_ready=break_disk)
        await server.run()

    with pytest.raises(DiskFailed, match="the disk of shard 1 has failed"):
        asyncio.run(run())


def guest(on_ready: Callable[[Server], None]) -> Server:
    """A broker in this program, on a disk in memory."""
    free = dict.fromkeys(("kafka", "http", "peer"), "127.0.0.1:0")
    flags = {"data": "/data", **free, "storage.segment_size": "1MiB"}
    server = Server(
        load_config(flags=flags, environment={}),
        on_ready=lambda _places: on_ready(server),
        guest=True,
        disk=MemoryDisk(),
    )
    return server


def test_it_may_be_stopped_before_anything_answers_http() -> None:
    async def run() -> None:
        server = guest(lambda server: server.stop())
        await server.run()
        assert server.watch is None

    asyncio.run(run())


def test_what_answers_http_is_there_although_nobody_asked() -> None:
    async def run() -> None:
        ready = asyncio.Event()
        server = guest(lambda _server: ready.set())
        running = asyncio.create_task(server.run())
        await ready.wait()
        assert not {one.protocol for one in server.front_ends()} & {"sqs", "http"}
        async with asyncio.timeout(STOP_SECONDS):
            while server.watch is None:  # noqa: ASYNC110 - nothing tells when it is there
                await asyncio.sleep(0)
        assert {one.protocol for one in server.front_ends()} >= {"kafka", "sqs", "http"}
        server.stop()
        await running

    asyncio.run(run())


def test_it_comes_back_after_a_crash(tmp_path: Path) -> None:
    with broker(tmp_path) as first:
        one = first.wait_ready()
        cluster_id = get(one["http"], "/v1/cluster")[1]["cluster_id"]
        first.send(signal.SIGKILL)
        assert first.wait_end() == -signal.SIGKILL
    with broker(tmp_path) as second:
        two = second.wait_ready()
        assert two["pid"] != one["pid"]
        assert get(two["http"], "/v1/cluster")[1]["cluster_id"] == cluster_id
        second.send(signal.SIGINT)
        assert second.wait_end() == 0


def test_a_directory_has_one_broker(tmp_path: Path) -> None:
    with broker(tmp_path) as first:
        first.wait_ready()
        with broker(tmp_path) as second:
            assert second.wait_end() == 1
            assert second.lines[-1].startswith("penstock: ")
            assert str(first.data) in second.lines[-1]
        assert first.ready_file.exists(), "it is not the second one's to remove"
        first.send(signal.SIGTERM)
        assert first.wait_end() == 0


def test_a_damaged_directory_is_one_sentence(tmp_path: Path) -> None:
    with broker(tmp_path) as first:
        first.wait_ready()
        first.send(signal.SIGTERM)
        assert first.wait_end() == 0
    node = tmp_path / "data" / "node"
    content = bytearray(node.read_bytes())
    content[-1] ^= 1
    node.write_bytes(content)
    with broker(tmp_path) as second:
        assert second.wait_end() == 1
        assert second.lines[-1].startswith(f"penstock: {node} is damaged at byte 0: ")


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with broker(tmp_path) as first:
        kafka = first.wait_ready()["kafka"]
        with broker(tmp_path / "other", http=kafka) as second:
            assert second.wait_end() == 1
            sentence = f"penstock: cannot listen at http = {kafka}: another program listens there"
            assert second.lines[-1].startswith(sentence)
            assert not second.data.exists()


def test_a_broker_that_waits_for_others_is_alive_and_can_be_stopped(tmp_path: Path) -> None:
    ports = ReservedPorts(3)
    own, other, http = (f"127.0.0.1:{port}" for port in ports)
    key = key_file(tmp_path / "keys")
    with (
        ports,
        broker(
            tmp_path, cluster=f"1@{own},2@{other}", cluster_key_file=key, peer=own, http=http
        ) as alone,
    ):
        assert alone.process.stderr is not None
        for line in alone.process.stderr:
            if "waits for node 2 to found the cluster together" in line:
                break
        assert get(http, "/livez")[0] == 200
        status, answer = get(http, "/startupz")
        assert (status, answer["started"]) == (503, False)
        assert get(http, "/readyz")[0] == 503
        alone.send(signal.SIGTERM)
        assert alone.wait_end() == 0


def test_what_a_node_is_told() -> None:
    flags = {
        "data": "d",
        "node_id": "2",
        "cluster": "1@a:1,2@127.0.0.1:2",
        "rack": "r",
        "groups.members_max": "7",
        "topics.partitions_default": "3",
        "storage.segment_size": "1MiB",
    }
    settings = node_settings(load_config(flags=flags, environment={}).config)
    assert settings.cluster == {1: "a:1", 2: "127.0.0.1:2"}
    assert (settings.peer_host, settings.peer_port, settings.rack) == ("127.0.0.1", 2, "r")
    assert settings.groups.members_max == 7
    assert settings.engine.default_partitions == 3
    assert settings.log.segment_bytes == 1 << 20
    alone = {"data": "d", "advertise_peer": "name:5", "peer": "localhost:9"}
    settings = node_settings(load_config(flags=alone, environment={}).config)
    assert settings.cluster == {1: "name:5"}
    assert settings.peer_host == "127.0.0.1"
