"""The clients of a process: one for each address, and a forked child has its own."""

import asyncio
import os
import threading
from collections.abc import Iterator

import pytest

from penstock.core.errors import DeadlinePassed, Unavailable
from penstock.server.reserved_ports import ReservedPorts
from penstock.spark.connections import client_of, close_clients, run
from penstock.testing import PenstockServer


@pytest.fixture
def url() -> Iterator[str]:
    with PenstockServer() as broker:
        yield broker.url
        close_clients()


def test_one_client_for_each_address_whoever_asks(url: str) -> None:
    found = [client_of(url)]
    threads = [threading.Thread(target=lambda: found.append(client_of(url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(map(id, found))) == 1
    run(found[0].create_topic("orders"))
    assert [topic.name for topic in run(found[0].topics())] == ["orders"]


def test_a_forked_child_begins_anew(url: str) -> None:
    run(client_of(url).create_topic("orders"))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            said = ",".join(topic.name for topic in run(client_of(url).topics(), 20)).encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        assert told.read() == b"orders"
    assert os.waitpid(child, 0)[1] == 0
    assert run(client_of(url).topics())  # And the parent goes on with what it has.


def test_after_closing_one_connects_anew(url: str) -> None:
    first = client_of(url)
    close_clients()
    assert client_of(url) is not first
    assert run(client_of(url).topics()) == []


def test_where_nobody_is(url: str) -> None:
    del url
    answer = r"no broker answers at .*kafka\.bootstrap\.servers"
    with ReservedPorts(1) as (port,), pytest.raises(Unavailable, match=answer):
        client_of(f"penstock://127.0.0.1:{port}")


def test_a_deadline_is_kept() -> None:
    with pytest.raises(DeadlinePassed, match=r"within 0\.01 s"):
        run(asyncio.Event().wait(), 0.01)
    close_clients()
