"""Ports that are not to be had, and the sentence about each."""

import errno
import socket
from collections.abc import Iterator

import pytest

from penstock.core.errors import LocalError
from penstock.server.notation import Address
from penstock.server.ports import check_free, is_about_place, is_free, refusal


@pytest.fixture
def taken() -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Address("127.0.0.1", listener.getsockname()[1])


def test_a_port_that_is_taken(taken: Address) -> None:
    assert not is_free(taken)
    with pytest.raises(LocalError, match=f"kafka = {taken}: another program listens there"):
        check_free("kafka", taken)


def test_a_port_that_is_free() -> None:
    assert is_free(Address("127.0.0.1", 0))
    check_free("kafka", Address("127.0.0.1", 0))


def test_an_address_of_another_machine() -> None:
    with pytest.raises(LocalError, match="this machine does not have that address"):
        check_free("kafka", Address("192.0.2.1", 0))


@pytest.mark.parametrize(
    ("error", "sentence", "about_place"),
    [
        (socket.gaierror(-2, "x"), "there is no host nowhere.example", True),
        (OSError(errno.EACCES, "x"), "ports below 1024 need privileges", True),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files", False),
    ],
)
def test_other_refusals(error: OSError, sentence: str, about_place: bool) -> None:
    assert sentence in str(refusal("http", Address("nowhere.example", 80), error))
    assert is_about_place(error) is about_place
