"""Ports for processes that come back to them."""

import socket

import pytest

from penstock.core.errors import LocalError
from penstock.testing.free_ports import FIRST, LAST, free_ports


def test_they_are_free_and_each_is_another() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        assert FIRST <= port <= LAST
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))


def test_one_that_is_taken_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        (port,) = free_ports(1)
        taken.bind(("127.0.0.1", port))
        monkeypatch.setattr("penstock.testing.free_ports.FIRST", port)
        monkeypatch.setattr("penstock.testing.free_ports.LAST", port)
        with pytest.raises(LocalError, match="no 1 free ports"):
            free_ports(1)
