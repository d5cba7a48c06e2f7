"""`connect()` and `App()` without an address: the variable, the context, this machine."""

from pathlib import Path

import pytest

import penstock
from penstock import blocking
from penstock.client.context_file import Context, Contexts, context_path, write_contexts
from penstock.client.default_url import DEFAULT_URL, default_url
from penstock.core.errors import LocalError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that the contexts of this machine's user do not count."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    monkeypatch.delenv("PENSTOCK_CONTEXT", raising=False)
    return tmp_path


def choose(home: Path, context: Context) -> None:
    path = context_path({"XDG_CONFIG_HOME": str(home)})
    write_contexts(path, Contexts("shop", {"shop": context}))


def test_a_broker_on_this_machine_is_the_last_resort(home: Path) -> None:
    assert penstock.connect().url == DEFAULT_URL == penstock.App().url
    assert home.exists()


def test_the_chosen_context_counts(home: Path) -> None:
    choose(home, Context(url="penstock://shop.example:9092"))
    assert penstock.connect().url == "penstock://shop.example:9092" == penstock.App().url


def test_the_variable_counts_more_than_the_context(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(home, Context(url="penstock://shop.example:9092"))
    monkeypatch.setenv("PENSTOCK_URL", "penstock://other.example")
    assert penstock.connect().url == "penstock://other.example" == penstock.App().url


def test_an_address_that_is_given_counts_most(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "penstock://other.example")
    assert penstock.connect("memory:").url == "memory:" == penstock.App("memory:").url
    assert home.exists()


def test_a_context_without_a_native_address_is_an_error(home: Path) -> None:
    choose(home, Context(http="shop.example:8080"))
    with pytest.raises(LocalError, match="context shop has no native address; add it with"):
        penstock.connect()


def test_a_context_that_is_not_there_is_an_error(home: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(home), "PENSTOCK_CONTEXT": "shpo"}
    with pytest.raises(LocalError, match="there is no context shpo"):
        default_url(environment)


def test_an_application_may_be_given_its_address_later(home: Path) -> None:
    app = penstock.App()
    app.url = "memory:later"
    assert app.url == "memory:later"
    assert home.exists()


def test_the_blocking_client_obeys_the_variable(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "memory:")
    with blocking.connect() as client:
        client.send("orders", b"one")
        assert client.url == "memory:"
    assert home.exists()
