"""Links are cut as they should be: tried with sockets of our own, without any broker."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.cluster.addresses import free_block
from tests.cluster.network import Network

pytestmark = pytest.mark.slow

A, B, C = 1, 2, 3
QUIET_SECONDS = 0.2
PATIENCE_SECONDS = 10.0


class Echo:
    """A listening socket whose connections are taken one by one."""

    def __init__(self) -> None:
        self._socket = socket.create_server((free_block().host(1), 0))
        self._socket.settimeout(PATIENCE_SECONDS)
        host, port = self._socket.getsockname()
        self.address = (host, port)

    def accept(self) -> socket.socket:
        connection, _ = self._socket.accept()
        connection.settimeout(PATIENCE_SECONDS)
        return connection

    def close(self) -> None:
        self._socket.close()


class Pair:
    """Node A dials node B through the network."""

    def __init__(self, network: Network) -> None:
        self.echo = Echo()
        block = free_block()
        self.listen = (block.host(1), block.port(1))
        network.add_link(dialler=A, dialled=B, listen=self.listen, target=self.echo.address)

    def dial(self) -> socket.socket:
        return socket.create_connection(self.listen, timeout=PATIENCE_SECONDS)

    @contextlib.contextmanager
    def connected(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        with self.dial() as near, self.echo.accept() as far:
            near.sendall(b"hello")
            assert far.recv(100) == b"hello"
            far.sendall(b"welcome")
            assert near.recv(100) == b"welcome"
            yield near, far


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture
def pair(network: Network) -> Iterator[Pair]:
    pair = Pair(network)
    yield pair
    pair.echo.close()


def silent(end: socket.socket) -> bool:
    """True if nothing comes, not even the end of the connection."""
    end.settimeout(QUIET_SECONDS)
    try:
        end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE_SECONDS)
    return False


def test_a_stalled_flow_holds_one_direction_and_is_late(network: Network, pair: Pair) -> None:
    with pair.connected() as (near, far):
        network.stall(A, B)
        near.sendall(b"one")
        assert silent(far)
        far.sendall(b"back")
        assert near.recv(100) == b"back", "the other direction passes"
        near.sendall(b"two")
        network.heal()
        received = far.recv(100)
        while len(received) < 6:
            received += far.recv(100)
        assert received == b"onetwo"


def test_the_end_of_a_connection_is_held_back_too(network: Network, pair: Pair) -> None:
    with pair.connected() as (near, far):
        network.isolate(A)
        near.close()
        assert silent(far)
        network.heal()
        assert far.recv(100) == b""


def test_who_dials_into_a_stall_reaches_nobody(network: Network, pair: Pair) -> None:
    network.stall(B, A)
    with pair.dial() as near:
        near.sendall(b"anybody?")
        assert silent(near)
        network.heal()
        with pair.echo.accept() as far:
            assert far.recv(100) == b"anybody?"


def test_a_refused_pair_is_reset_until_it_is_healed(network: Network, pair: Pair) -> None:
    with pair.connected() as (near, far):
        network.refuse(A, B)
        assert ended(near)
        assert ended(far)
    with pair.dial() as near:
        assert ended(near)
    network.heal()
    with pair.connected():
        pass


def ended(end: socket.socket) -> bool:
    try:
        return end.recv(100) == b""
    except ConnectionResetError:
        return True


def test_nobody_there_ends_the_connection(network: Network, pair: Pair) -> None:
    pair.echo.close()
    with pair.dial() as near:
        assert ended(near)


def test_a_delay_keeps_the_order(network: Network, pair: Pair) -> None:
    with pair.connected() as (near, far):
        network.delay(A, B, 200)
        began = time.monotonic()
        near.sendall(b"late")
        assert far.recv(100) == b"late"
        assert time.monotonic() - began >= 0.2
        near.sendall(b"1")
        network.heal()
        near.sendall(b"2")
        received = far.recv(100)
        while len(received) < 2:
            received += far.recv(100)
        assert received == b"12"


def test_much_passes_and_is_counted(network: Network, pair: Pair) -> None:
    amount = 8 << 20
    with pair.connected() as (near, far):
        thread = threading.Thread(target=near.sendall, args=(b"x" * amount,))
        thread.start()
        received = 0
        while received < amount:
            received += len(far.recv(1 << 20))
        thread.join()
    assert network.bytes_passed(A, B) >= amount


def test_a_stalled_sender_feels_it(network: Network, pair: Pair) -> None:
    with pair.connected() as (near, _):
        network.stall(A, B)
        near.settimeout(QUIET_SECONDS)
        with pytest.raises(TimeoutError):
            near.sendall(b"x" * (64 << 20))


def test_groups_and_single_nodes_are_cut(network: Network) -> None:
    links = {}
    for dialler, dialled in ((A, B), (B, C), (C, A)):
        echo, block = Echo(), free_block()
        listen = (block.host(1), block.port(1))
        network.add_link(dialler=dialler, dialled=dialled, listen=listen, target=echo.address)
        near = socket.create_connection(listen, timeout=PATIENCE_SECONDS)
        links[dialler, dialled] = (near, echo.accept(), echo)

    def heard() -> set[tuple[int, int]]:
        """Which flows pass."""
        flows = set()
        for (dialler, dialled), (near, far, _) in links.items():
            for source, target, flow in (
                (near, far, (dialler, dialled)),
                (far, near, (dialled, dialler)),
            ):
                source.sendall(b"?")
                if not silent(target):
                    flows.add(flow)
        return flows

    every = {(A, B), (B, A), (B, C), (C, B), (C, A), (A, C)}
    assert heard() == every
    network.split([A, B])
    assert heard() == {(A, B), (B, A)}
    network.heal()
    for near, far, _ in links.values():
        for end in (near, far):
            while not silent(end):
                pass
    network.deafen(A)
    assert heard() == every - {(B, A), (C, A)}
    network.heal()
    for near, far, echo in links.values():
        near.close()
        far.close()
        echo.close()
