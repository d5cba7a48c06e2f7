"""Ports that are reserved before the processes that listen on them are started."""

import contextlib
import gc
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import LocalError
from penstock.server.reserved_ports import FIRST, ReservedPorts, usable_ports
from tests.cluster.addresses import free_block

HOST = free_block().host(1)
"""An address of this process alone: what a test releases here, no other program reserves."""
CHILD = """
import sys
from penstock.server.reserved_ports import ReservedPorts, usable_ports
with ReservedPorts(200, among=usable_ports()) as ports:
    print(*ports, flush=True)
    sys.stdin.read()
"""


def test_reserved_ports_can_be_bound_and_bound_again() -> None:
    with ReservedPorts(20) as ports:
        assert len(set(ports)) == 20
        for port in ports:
            assert port in usable_ports()
            for _ in range(2):
                with socket.create_server(("127.0.0.1", port)):
                    pass


def test_a_port_is_reserved_once_at_a_time() -> None:
    with ReservedPorts(1, host=HOST) as ports:
        for host in (HOST, ""):
            with pytest.raises(LocalError, match="no 1 free ports"):
                ReservedPorts(1, host=host, among=ports.numbers)
    with ReservedPorts(1, host=HOST, among=ports.numbers) as again:
        assert again.numbers == ports.numbers


def test_a_reservation_that_is_forgotten_is_over() -> None:
    ports = ReservedPorts(3, host=HOST)
    numbers = ports.numbers
    del ports
    gc.collect()
    with ReservedPorts(3, host=HOST, among=numbers) as again:
        assert again.numbers == numbers


def test_a_port_that_is_in_use_is_left_out() -> None:
    with ReservedPorts(2, host=HOST) as ports:
        numbers = ports.numbers
    taken = socket.create_server((HOST, numbers[0]))
    with taken, ReservedPorts(1, host=HOST, among=numbers) as again:
        assert again.numbers == numbers[1:]


def test_a_reservation_that_fails_keeps_nothing() -> None:
    with ReservedPorts(2, host=HOST) as ports:
        numbers = ports.numbers
    with pytest.raises(LocalError, match="no 3 free ports"):
        ReservedPorts(3, host=HOST, among=numbers)
    with ReservedPorts(2, host=HOST, among=numbers) as again:
        assert again.numbers == numbers


@contextlib.contextmanager
def reserving_process() -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=pipe, stdout=pipe, text=True) as one:
        yield one


def test_two_processes_never_get_the_same_port() -> None:
    """Both search the same ports in the same order, at the same time."""
    with reserving_process() as one, reserving_process() as two:
        assert one.stdout is not None
        assert two.stdout is not None
        first, second = one.stdout.readline().split(), two.stdout.readline().split()
    assert len(set(first) | set(second)) == 400


@pytest.mark.parametrize(
    ("connections", "expected"),
    [
        ("32768\t60999\n", range(FIRST, 32_768)),
        ("49152 65535", range(FIRST, 49_152)),
        ("15000 61000", range(61_001, 65_536)),
        ("1024 65535", range(FIRST, 32_768)),
    ],
)
def test_connections_get_no_reserved_port(
    tmp_path: Path, connections: str, expected: range
) -> None:
    page = tmp_path / "ip_local_port_range"
    page.write_text(connections)
    assert usable_ports(str(page)) == expected
    assert usable_ports(str(tmp_path / "missing")) == range(FIRST, 32_768)
