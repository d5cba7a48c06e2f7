"""What a broker tells of its own work: from pages that are written here, and from a real one."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.cli.bench.probe import (
    BrokerWork,
    NodeReading,
    Probe,
    busiest,
    read_page,
    work_between,
)
from penstock.cli.bench.watch import read_processors
from tests.web_broker import WebBroker

PAGE = """\
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
process_cpu_seconds_total 12.5
penstock_node_info{node="1",cluster="abc"} 1
penstock_uptime_seconds 100.5
penstock_metrics_duration_seconds_total 0.25
penstock_storage_fsync_duration_seconds_bucket{group="0",le="0.01"} 5
penstock_storage_fsync_duration_seconds_sum{group="0"} 0.5
penstock_storage_fsync_duration_seconds_count{group="0"} 10
penstock_storage_fsync_duration_seconds_sum{group="1"} 2.0
penstock_storage_fsync_duration_seconds_count{group="1"} 30
penstock_raft_commit_duration_seconds_sum{group="1"} 3.0
penstock_raft_commit_duration_seconds_count{group="1"} 20
"""


def test_a_page_is_read() -> None:
    found = read_page(PAGE, 7.0)
    assert (found.at, found.cluster, found.cpu_seconds) == (7.0, "abc", 12.5)
    assert (found.up_seconds, found.page_seconds) == (100.5, 0.25)
    assert dict(found.sync_seconds) == {'group="0"': 0.5, 'group="1"': 2.0}
    assert (found.syncs, found.commit_seconds, found.commits) == (40, 3.0, 20)


def test_work_is_told_by_core_and_by_the_busiest_shard() -> None:
    before = NodeReading(at=10.0, cpu_seconds=5.0, sync_seconds={"0": 1.0, "1": 1.0}, syncs=10)
    after = NodeReading(at=20.0, cpu_seconds=14.0, sync_seconds={"0": 2.0, "1": 8.0}, syncs=90)
    found = work_between(before, after)
    assert [found.cpu_share, found.sync_share] == pytest.approx([0.9, 0.7])
    assert [found.syncs, found.sync_seconds] == pytest.approx([80, 0.1])


def test_of_two_clocks_the_longer_counts_and_idle_time_does_not() -> None:
    before = NodeReading(at=10.0, up_seconds=100.0, cpu_seconds=0.0)
    old_page = NodeReading(at=11.0, up_seconds=102.0, cpu_seconds=1.0)
    assert work_between(before, old_page).cpu_share == pytest.approx(0.5)
    same_look = NodeReading(at=12.0, up_seconds=100.0, cpu_seconds=1.0)
    assert work_between(before, same_look).cpu_share == pytest.approx(0.5)
    assert work_between(before, same_look, idle_seconds=1.0).cpu_share == pytest.approx(1.0)


def test_of_several_nodes_the_busiest_counts() -> None:
    idle = BrokerWork(cpu_share=0.2, sync_share=0.3)
    syncing = BrokerWork(cpu_share=0.2, sync_share=0.9)
    assert busiest([idle, syncing, idle]) == replace(syncing, nodes=3)


def test_a_real_broker_is_asked_twice(native_broker: WebBroker) -> None:
    async def ask() -> tuple[Probe, BrokerWork | None]:
        async with penstock.connect(f"penstock://{native_broker.address}") as client:
            probe = Probe(client.url, native_broker.http)
            await probe.begin((await client.cluster()).cluster_id)
            await client.create_queue("probed")
            await client.send("probed", b"1")
            return probe, await probe.end()

    probe, work = asyncio.run(ask())
    assert probe.problem == ""
    assert work is not None
    assert work.cpu_share >= 0
    assert work.syncs >= 1
    assert work.sync_share > 0


def test_numbers_of_another_cluster_are_not_taken(native_broker: WebBroker) -> None:
    async def ask(http: str) -> Probe:
        probe = Probe("penstock://127.0.0.1:9092", http)
        await probe.begin("another")
        assert await probe.end() is None
        return probe

    assert "is not of this cluster" in asyncio.run(ask(native_broker.http)).problem
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{unused.getsockname()[1]}"
        assert f"nothing answers at http://{free}" in asyncio.run(ask(free)).problem


def test_the_processors_of_this_machine(tmp_path: Path) -> None:
    page = tmp_path / "stat"
    page.write_text("cpu  10 1 5 80 4 1 2 1 0 0\ncpu0 1 1 1 1\n")
    assert read_processors(str(page)) == (20, 104)
    assert read_processors(str(page) + "-missing") is None
