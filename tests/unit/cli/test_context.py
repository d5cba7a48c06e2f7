"""`penstock context …`, and where commands look for a broker."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from cyclopts import App

from penstock.cli.address_flags import (
    DEFAULT_URL,
    HERE,
    BrokerAddress,
    Url,
    fill_in_addresses,
)
from penstock.cli.http_discovery import find_http
from penstock.cli.main import run
from penstock.client.context_file import Context, Contexts, context_path, format_contexts
from penstock.core.errors import LocalError, Unavailable
from penstock.wire.requests import NodeInfo
from tests.web_broker import WebBroker

Captured = pytest.CaptureFixture[str]


class OldNodeInfo(msgspec.Struct, frozen=True, array_like=True):
    """A node as clients of 0.1 read it."""

    node: int
    address: str
    alive: bool


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PENSTOCK_URL", "PENSTOCK_HTTP", "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def done(capsys: Captured, *arguments: str) -> str:
    """What is printed by a command that does what it is told."""
    capsys.readouterr()
    assert run(["context", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: Captured, code: int, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["context", *arguments]) == code
    output = capsys.readouterr()
    assert (output.out, output.err.count("\n")) == ("", 1)
    return output.err


def listed(capsys: Captured) -> Any:
    return msgspec.json.decode(done(capsys, "list", "--json"))


def reached(*arguments: str) -> str:
    """The native address that a command is given for these flags."""
    app = App(config=fill_in_addresses)

    @app.default
    def where(*, url: Url = DEFAULT_URL) -> str:
        return url

    found: str = app(list(arguments), exit_on_error=False, result_action="return_value")
    return found


def asked(*arguments: str) -> str:
    """The HTTP address that a command asks for these flags."""
    app = App(config=fill_in_addresses)

    @app.default
    def where(*, broker: BrokerAddress = HERE) -> str:
        return str(broker.address())

    found: str = app(list(arguments), exit_on_error=False, result_action="return_value")
    return found


def test_from_the_first_to_the_last(capsys: Captured, home: Path) -> None:
    assert run(["context", "list"]) == 0
    assert capsys.readouterr() == (
        "",
        "there are no contexts; add one: penstock context add NAME --url URL\n",
    )
    done(capsys, "add", "local", "--url", "penstock://127.0.0.1:9092", "--http", "127.0.0.1:8080")
    done(capsys, "add", "shop", "-u", "penstock://a:1,b:2")
    assert done(capsys, "list").splitlines() == [
        "   CONTEXT  URL                        HTTP",
        "*  local    penstock://127.0.0.1:9092  127.0.0.1:8080",
        "   shop     penstock://a:1,b:2         -",
    ]
    done(capsys, "use", "shop")
    assert [one["name"] for one in listed(capsys) if one["current"]] == ["shop"]
    done(capsys, "add", "shop", "--http", "a:8080")
    assert listed(capsys)[1] == {
        "name": "shop", "url": "penstock://a:1,b:2", "http": "a:8080", "current": True,
    }  # fmt: skip
    assert (home / "penstock" / "contexts.toml").read_text() == (
        'current = "shop"\n\n'
        '[contexts.local]\nurl = "penstock://127.0.0.1:9092"\nhttp = "127.0.0.1:8080"\n\n'
        '[contexts.shop]\nurl = "penstock://a:1,b:2"\nhttp = "a:8080"\n'
    )
    done(capsys, "remove", "shop")
    assert [one["current"] for one in listed(capsys)] == [False]
    assert "there is no context shop; there are: local" in refused(capsys, 1, "use", "shop")
    assert "there is no context shop" in refused(capsys, 1, "remove", "shop")
    done(capsys, "add", "notes", "--url", "file:./notes", "--use")
    assert [one["name"] for one in listed(capsys) if one["current"]] == ["notes"]


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (2, ("add", "x"), "Give an address"),
        (1, ("add", "x y", "--url", "file:x"), "cannot name a context"),
        (2, ("add", "x", "--url", "kafka://a:1"), "must be penstock://"),
        (2, ("add", "x", "--url", "penstock:"), "must be penstock://"),
        (1, ("add", "x", "--http", "a"), "must be HOST:PORT"),
    ],
)
def test_what_is_no_context(
    capsys: Captured, code: int, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, code, *arguments)
    assert listed(capsys) == []


def test_a_flag_a_variable_a_context_a_default(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reached() == DEFAULT_URL
    done(capsys, "add", "shop", "--url", "penstock://shop:1", "--http", "shop:8080")
    assert (reached(), asked()) == ("penstock://shop:1", "shop:8080")
    monkeypatch.setenv("PENSTOCK_URL", "penstock://variable:1")
    assert reached() == "penstock://variable:1"
    assert reached("-u", "penstock://flag:1") == "penstock://flag:1"
    assert asked("--http", "f:1") == "f:1", "the flag of 0.1"


def test_the_broker_names_its_http_port(
    capsys: Captured, native_broker: WebBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"penstock://{native_broker.address}"
    assert asked("--url", url) == native_broker.http
    assert asked("-u", f"penstock://127.0.0.1:1,{native_broker.address}") == native_broker.http
    done(capsys, "add", "here", "--url", url)
    assert asked() == native_broker.http, "a context needs no second address"
    done(capsys, "remove", "here")
    monkeypatch.setenv("PENSTOCK_HTTP", "127.0.0.1:1")
    monkeypatch.setenv("PENSTOCK_URL", url)
    assert asked() == native_broker.http, "that variable says where a broker listens"


def test_a_broker_of_the_last_release_does_not_name_its_http_port(
    native_broker: WebBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends three fields for a node where there are four now."""
    old = msgspec.msgpack.encode((1, "127.0.0.1:9092", True))
    assert msgspec.msgpack.decode(old, type=NodeInfo).http == ""
    new = msgspec.msgpack.encode(NodeInfo(1, "a:1", True, "a:2"))
    assert msgspec.msgpack.decode(new, type=OldNodeInfo) == OldNodeInfo(1, "a:1", True)
    monkeypatch.setattr(
        "penstock.native.topics.NodeInfo",
        lambda node, address, alive, *_: NodeInfo(node, address, alive),
    )
    with pytest.raises(Unavailable, match="does not say where its HTTP port is; .* --http HOST"):
        find_http(f"penstock://{native_broker.address}")


def test_the_variable_of_the_last_release_draws_a_remark(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_HTTP", "127.0.0.2:7")
    assert asked() == "127.0.0.2:7"
    assert "set PENSTOCK_URL to say which broker to ask" in capsys.readouterr().err


def test_a_directory_has_no_http_port(capsys: Captured) -> None:
    assert run(["queue", "list", "--url", "file:./d"]) == 1
    told = capsys.readouterr().err
    assert "file:./d has no HTTP port" in told
    assert "penstock serve --data" in told


def test_variables_of_clients_are_no_settings(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "penstock://a:1")
    monkeypatch.setenv("PENSTOCK_CONTEXT", "shop")
    assert run(["config", "check"]) == 0
    monkeypatch.setenv("PENSTOCK_URI", "penstock://a:1")
    assert run(["config", "check"]) == 1
    assert "did you mean PENSTOCK_URL?" in capsys.readouterr().err


def test_a_context_for_one_shell(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    done(capsys, "add", "one", "--url", "penstock://one:1", "--http", "one:1")
    done(capsys, "add", "two", "--url", "penstock://two:1", "--http", "two:1")
    assert reached() == "penstock://one:1"
    monkeypatch.setenv("PENSTOCK_CONTEXT", "two")
    assert reached() == "penstock://two:1"
    monkeypatch.setenv("PENSTOCK_CONTEXT", "three")
    with pytest.raises(LocalError, match="there is no context three; there are: one, two"):
        reached()
    done(capsys, "list")
    assert reached("--url", "a:1") == "a:1", "the context was not needed"


def test_what_a_context_lacks_is_not_looked_for_elsewhere(capsys: Captured) -> None:
    done(capsys, "add", "half", "--http", "127.0.0.1:1")
    with pytest.raises(LocalError, match="penstock context add half --url URL"):
        reached()
    assert run(["topic", "list"]) == 1
    assert "context half has no address for this" in capsys.readouterr().err
    assert asked() == "127.0.0.1:1"
    assert run(["config", "show", "--http", "127.0.0.1:0"]) == 0, "that --http is another one"
    assert run(["config", "show"]) == 0


def test_a_file_that_cannot_be_understood(capsys: Captured, home: Path) -> None:
    path = home / "penstock" / "contexts.toml"
    path.parent.mkdir()
    for bad in (b"current = 7", b"contexts = [", b"surprise = true", b"\xff"):
        path.write_bytes(bad)
        assert "contexts.toml cannot be understood" in refused(capsys, 1, "list")
        assert "contexts.toml cannot be understood" in refused(
            capsys, 1, "add", "x", "--url", "file:x"
        )
        assert path.read_bytes() == bad
    path.unlink()
    path.mkdir()
    assert "cannot be read" in refused(capsys, 1, "list")


def test_where_the_file_is() -> None:
    assert context_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/penstock/contexts.toml")
    usual = Path.home() / ".config" / "penstock" / "contexts.toml"
    assert context_path({}) == context_path({"XDG_CONFIG_HOME": "relative"}) == usual


def test_what_is_written_can_be_read() -> None:
    odd = Contexts("a", {"a": Context('file:"\\\x7f\t grün', "h:1"), "b-_9": Context()})
    assert msgspec.toml.decode(format_contexts(odd), type=Contexts) == odd
