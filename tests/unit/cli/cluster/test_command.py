"""`penstock cluster …` against a broker's HTTP port."""

import asyncio
import io
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penstock.cli.main import run
from penstock.client.context_file import Context, Contexts, context_path, write_contexts
from penstock.web.app import make_app
from penstock.web.listener import HttpListener
from tests.unit.web.asgi import FakeBroker, FakeCluster


class Served:
    """A fake broker behind a real port, on a loop of its own."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.http = ""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def cluster(self) -> FakeCluster:
        assert self.broker.node is not None
        return self.broker.node.cluster

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        listener = HttpListener(make_app(self.broker), connections_max=8)
        self.http = "{}:{}".format(*await listener.start("127.0.0.1", 0))
        self._started.set()
        await self._stop.wait()
        await listener.close()

    def __enter__(self) -> "Served":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with Served() as served:
        yield served


@pytest.fixture
def served(server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    contexts = Contexts("here", {"here": Context(http=server.http)})
    write_contexts(context_path(os.environ), contexts)
    assert server.broker.node is not None
    server.broker.node.cluster = FakeCluster()
    return server


def test_status(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "status"]) == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[0] == "cluster c1: 3 of 3 nodes, all leaders settled"
    assert "   2  up     127.0.0.1:9092" in output.out
    assert run(["cluster", "status", "--json", "--http", f"http://{served.http}/"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["partitions"] == 4


def test_members(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "members"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert run(["cluster", "members", "--json"]) == 0
    assert [row["node"] for row in msgspec.json.decode(capsys.readouterr().out)] == [1, 2, 3]


def test_add(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "add", "4@127.0.0.1:9492"]) == 0
    assert served.cluster.orders == [("add", 4, "127.0.0.1:9492")]
    listed = "1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3,4@127.0.0.1:9492"
    assert f"penstock serve --node-id 4 --cluster {listed}" in capsys.readouterr().out
    for wrong in ("4", "4@", "4@a:1,5@b:2", "0@a:1"):
        assert run(["cluster", "add", wrong]) == 1
        assert "must be ID@HOST:PORT" in capsys.readouterr().err


def test_remove_asks_for_the_id(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(["cluster", "remove", "3"]) == 1
    assert "add --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("2\n"))
    assert run(["cluster", "remove", "3"]) == 1
    assert "node 3 stays" in capsys.readouterr().err
    assert served.cluster.orders == []
    monkeypatch.setattr("sys.stdin", Terminal("3\n"))
    assert run(["cluster", "remove", "3"]) == 0
    served.cluster.gone = False
    assert run(["cluster", "remove", "2", "--yes"]) == 0
    assert "still moving" in capsys.readouterr().out
    assert served.cluster.orders == [("remove", 3), ("remove", 2)]


def test_transfer(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cluster", "transfer", "2", "3"]) == 0
    assert served.cluster.orders == [("transfer", 2, 3)]
    assert run(["cluster", "transfer", "2", "3", "--json"]) == 0
    assert run(["cluster", "transfer", "two", "3"]) == 2
    assert capsys.readouterr().err.startswith("penstock: ")


def test_a_refusal_is_the_brokers_sentence(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cluster", "remove", "9", "--yes"]) == 1
    assert capsys.readouterr() == ("", "penstock: there is no node 9\n")


@pytest.mark.usefixtures("served")
def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        assert run(["cluster", "status", "--http", address]) == 1
    message = capsys.readouterr().err
    assert message.startswith(
        f"penstock: no broker answers at http://{address}: Connection refused"
    )
    assert "--http HOST:PORT" in message


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("address", ["8080", "127.0.0.1:0", "https://a.example:1"])
def test_an_address_that_is_none(capsys: pytest.CaptureFixture[str], address: str) -> None:
    assert run(["cluster", "status", "--http", address]) == 1
    assert capsys.readouterr().err.startswith("penstock: --http = ")


@pytest.mark.usefixtures("served")
def test_another_program_answers(capsys: pytest.CaptureFixture[str]) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert run(["cluster", "status", "--http", address]) == 1
        thread.join()
    assert "is perhaps no Penstock broker" in capsys.readouterr().err
