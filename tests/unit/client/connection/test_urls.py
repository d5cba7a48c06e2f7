"""Addresses: what they point to, and what is said about those that point nowhere."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.connection.urls import HOSTS_MAX, File, Memory, Remote, parse_url
from penstock.core.errors import InvalidUrl


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("penstock://one", Remote((("one", 9092),))),
        ("penstock://one:1", Remote((("one", 1),))),
        ("penstock://one:1/", Remote((("one", 1),))),
        ("PENSTOCK://One", Remote((("One", 9092),))),
        (" penstock://127.0.0.1:9092 ", Remote((("127.0.0.1", 9092),))),
        (
            "penstock://one:1,two, three:3",
            Remote((("one", 1), ("two", 9092), ("three", 3))),
        ),
        ("penstock://one,one:9092", Remote((("one", 9092),))),
        ("penstock://[::1]", Remote((("::1", 9092),))),
        ("penstock://[fe80::1%eth0]:7,two", Remote((("fe80::1%eth0", 7), ("two", 9092)))),
        ("file:./data", File("./data")),
        ("file:data", File("data")),
        ("file:/var/lib/penstock", File("/var/lib/penstock")),
        ("file:///var/lib/penstock", File("/var/lib/penstock")),
        ("file://localhost/var", File("/var")),
        ("file:./my%20data", File("./my data")),
        ("memory:", Memory("")),
        ("memory://", Memory("")),
        ("memory:orders", Memory("orders")),
    ],
)
def test_an_address_points_to_a_place(text: str, place: Remote | File | Memory) -> None:
    assert parse_url(text) == place


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "write penstock://host:9092, file:./data or memory:"),
        ("kafka://one:9092", "this client says penstock://"),
        ("http://one:8080", "this client says penstock://host:9092"),
        ("https://one", "this client says penstock://"),
        ("sqs://queue", "this client says penstock://"),
        ("amqp://one", "Coming from RabbitMQ"),
        ("redis://one", "file: or memory:"),
        ("sqlite:///x.db", "file:./data"),
        ("tcp://one:1", "penstock://"),
        ("penstok://one", "perhaps penstock:// was meant"),
        ("memori:", "perhaps memory: was meant"),
        ("memory", "a colon is missing: memory:"),
        ("file", "a colon is missing: file:"),
        ("localhost:9092", "penstock://localhost:9092"),
        ("localhost", "penstock://localhost"),
        ("./data", "file:./data"),
        ("/var/data", "file:/var/data"),
        ("gopher://one", "the schemes are penstock://, file: and memory:"),
        ("penstock:one:9092", "write penstock://one:9092"),
        ("penstock:/one", "write penstock://one"),
        ("penstock://", "lacks a host"),
        ("penstock://one,,two", "lacks a host"),
        ("penstock://:9092", "lacks a host"),
        ("penstock://one:", "no port from 1 to 65535"),
        ("penstock://one:0", "no port from 1 to 65535"),
        ("penstock://one:65536", "no port from 1 to 65535"),
        ("penstock://one:٣", "no port from 1 to 65535"),
        ("penstock://one:port", "no port from 1 to 65535"),
        ("penstock://one two:1", "no name of a host"),
        ("penstock://::1", "stands in brackets: [::1]:9092"),
        ("penstock://[::1", "[address]:port"),
        ("penstock://[::1]9", "[address]:port"),
        ("penstock://[one]:9", "no IPv6 address"),
        ("penstock://one/orders", "a path after the hosts"),
        ("penstock://one?tls=1", "settings after the hosts"),
        ("penstock://one#x", "a fragment after the hosts"),
        ("file:", "names no directory"),
        ("file://data", "write file:./data or file:/data"),
        ("file://data/x", "write file:./data/x or file:/data/x"),
    ],
)
def test_what_is_no_address_says_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse_url(text)
    assert advice in str(refused.value)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse_url("penstock://me:secret@one:9092")
    assert "secret" not in str(refused.value)


def test_hosts_are_bounded() -> None:
    hosts = ",".join(f"host-{n}" for n in range(HOSTS_MAX))
    assert len(parse_url(f"penstock://{hosts}").hosts) == HOSTS_MAX  # type: ignore[union-attr]
    with pytest.raises(InvalidUrl, match="64 at most"):
        parse_url(f"penstock://{hosts},one-more")


@given(st.one_of(st.text(max_size=40), st.text(max_size=40).map(lambda one: f"penstock://{one}")))
def test_any_text_is_an_address_or_is_refused_as_one(text: str) -> None:
    with suppress(InvalidUrl):
        assert isinstance(parse_url(text), Remote | File | Memory)
