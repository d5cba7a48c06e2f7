"""By which names a node is known, and which pages are of the same site."""

import pytest

from penstock.core.http_hosts import is_known_host, is_same_site, unknown_host


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1", True),
        ("192.0.2.7:8080", True),
        ("[::1]:8080", True),
        ("LocalHost:8080", True),
        ("broker.example", True),
        ("BROKER.example:8080", True),
        ("127.0.0.1.evil.example", False),
        ("evil.example", False),
        ("", False),
    ],
)
def test_addresses_localhost_and_the_names_of_the_node_are_known(host: str, known: bool) -> None:
    assert is_known_host(host, lambda: {"Broker.example"}) is known


def test_any_name_is_known_if_the_settings_say_so() -> None:
    assert is_known_host("evil.example", lambda: ["*"])
    assert not is_known_host("", lambda: ["*"])


def test_a_refusal_says_where_to_add_the_name() -> None:
    assert "not known as evil.example;" in unknown_host("evil.example")
    assert "web.hosts" in unknown_host("")


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://127.0.0.1:8080", True),
        ("http://127.0.0.1:8080/queues", True),
        ("http://127.0.0.1:9090", False),
        ("http://evil.example/127.0.0.1:8080", False),
        ("null", False),
    ],
)
def test_a_page_is_of_the_same_site_if_host_and_port_are_the_same(url: str, same: bool) -> None:
    assert is_same_site(url, "127.0.0.1:8080") is same
