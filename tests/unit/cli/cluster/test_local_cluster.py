"""`penstock cluster dev`: real children, which never outlive it."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.cluster.local_cluster import (
    plan_nodes,
    ports_from,
    run_local_cluster,
    usual_ports,
)
from penstock.core.errors import LocalError
from penstock.server.reserved_ports import ReservedPorts

WAIT_SECONDS = 60


def test_where_nodes_go() -> None:
    first, second = plan_nodes("d", ports_from(19_000, 2))
    assert (first.kafka, first.http, first.peer) == (
        "127.0.0.1:19000",
        "127.0.0.1:19001",
        "127.0.0.1:19002",
    )
    assert second.kafka == "127.0.0.1:19010"
    assert second.directory == os.path.join("d", "node-2")
    with ReservedPorts(9) as free:
        plans = plan_nodes("d", free.numbers)
    assert [plan.number for plan in plans] == [1, 2, 3]
    assert len({place for plan in plans for place in (plan.kafka, plan.http, plan.peer)}) == 9


@pytest.mark.parametrize(
    ("nodes", "base_port", "sentence"),
    [(0, None, "--nodes = 0"), (10, None, "--nodes = 10"), (3, 65_530, "leaves no room")],
)
def test_what_cannot_be(tmp_path: Path, nodes: int, base_port: int | None, sentence: str) -> None:
    with pytest.raises(LocalError, match=sentence):
        run_local_cluster(nodes, data=str(tmp_path), base_port=base_port)


@contextlib.contextmanager
def local_cluster(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "cluster", "dev", *arguments],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def read_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """What it prints, up to a line with `wanted` in it."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"it ended without {wanted!r}:\n" + "".join(lines))


def children_in(lines: list[str]) -> dict[int, int]:
    """Node and process id, from the lines at the start."""
    found = re.findall(r"^node (\d): .* pid (\d+) ", "".join(lines), re.MULTILINE)
    return {int(node): int(pid) for node, pid in found}


def wait_gone(descriptor: int) -> None:
    """Wait for the end of a process that is not our child."""
    assert select.select([descriptor], [], [], WAIT_SECONDS)[0], "it goes on"
    os.close(descriptor)


@pytest.mark.slow
def test_a_node_that_dies_is_reported_and_no_child_is_left_behind(tmp_path: Path) -> None:
    with local_cluster(tmp_path, "--nodes", "3") as process:
        children = children_in(read_until(process, "Ctrl-C stops it."))
        assert sorted(children) == [1, 2, 3]
        watched = [os.pidfd_open(pid) for pid in children.values()]
        os.kill(children[3], signal.SIGKILL)
        assert "node 3 │ has ended (SIGKILL)" in read_until(process, "has ended")[-1]
        again = read_until(process, "penstock serve")[-1]
        assert "--node-id=3" in again
        assert f"--data={os.path.join('penstock-cluster', 'node-3')}" in again
        process.kill()
        for descriptor in watched:
            wait_gone(descriptor)


def test_node_1_gets_the_usual_ports_if_both_are_free() -> None:
    with ReservedPorts(2) as free:
        wanted = free.numbers
    with contextlib.ExitStack() as held:
        assert usual_ports(held, wanted) == wanted
        assert usual_ports(held, wanted) is None, "they are reserved until the end"
    with socket.create_server(("127.0.0.1", wanted[1])), contextlib.ExitStack() as held:
        assert usual_ports(held, wanted) is None, "half of them is none"


@pytest.mark.slow
def test_it_stops_its_nodes(tmp_path: Path) -> None:
    with local_cluster(tmp_path, "--nodes", "1", "--temporary") as process:
        children = children_in(read_until(process, "Ctrl-C stops it."))
        watched = os.pidfd_open(children[1])
        process.send_signal(signal.SIGINT)
        read_until(process, "node 1 │")
        assert process.stdout is not None
        assert "stopped" in process.stdout.read()
        assert process.wait(WAIT_SECONDS) == 0
        wait_gone(watched)
    assert list(tmp_path.iterdir()) == []
