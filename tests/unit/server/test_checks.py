"""What settings must not be together."""

import pytest

from penstock.core.errors import LocalError
from penstock.server.checks import advertised, check_config
from penstock.server.notation import Address
from penstock.server.sources import load_config


def check(**flags: str) -> None:
    """Check a configuration given as flags; a double underscore is a dot."""
    named = {name.replace("__", "."): value for name, value in flags.items()}
    check_config(load_config(flags=named, environment={}, file=None).config)


def test_the_defaults_are_sound() -> None:
    check()


@pytest.mark.parametrize("port", ["kafka", "http", "peer"])
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "broker.example"])
def test_a_port_others_can_reach_needs_a_word(port: str, host: str) -> None:
    advertise = {"advertise_kafka": "broker.example:1"}
    with pytest.raises(
        LocalError, match=f"^{port} = .*(no authentication|not encrypted) yet.*--insecure"
    ):
        check(**{port: f"{host}:1"}, **advertise)
    check(**{port: f"{host}:1"}, **advertise, insecure="true")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.0.0.2"])
def test_this_machine_needs_none(host: str) -> None:
    check(kafka=f"{host}:1", http=f"{host}:2", peer=f"{host}:3")


def test_listening_everywhere_needs_a_name() -> None:
    with pytest.raises(LocalError, match="add --advertise-kafka HOST:9092"):
        check(kafka="0.0.0.0:9092", insecure="true")
    with pytest.raises(LocalError, match="advertise_kafka = 0.0.0.0:1 is no address"):
        check(advertise_kafka="0.0.0.0:1")


def test_a_cluster_lists_its_node() -> None:
    with pytest.raises(LocalError, match="this is node 1, but cluster lists nodes 2 3"):
        check(cluster="2@127.0.0.1:2,3@127.0.0.1:3")
    with pytest.raises(LocalError, match="peer has port 0"):
        check(cluster="1@127.0.0.1:2,3@127.0.0.1:3", peer="127.0.0.1:0")
    check(cluster="1@127.0.0.1:2,3@127.0.0.1:3")


def test_bounds_that_exclude_everything() -> None:
    with pytest.raises(LocalError, match="groups.session_min is above"):
        check(groups__session_min="20s", groups__session_max="10s")
    with pytest.raises(LocalError, match="limits.request_size_max is above"):
        check(limits__request_size_max="200MiB", limits__memory_max="100MiB")


@pytest.mark.parametrize(
    ("bound", "given", "told"),
    [
        ("127.0.0.1:5", None, "127.0.0.1:5"),
        ("127.0.0.1:5", "name:6", "name:6"),
        ("127.0.0.1:5", "name:0", "name:5"),
        ("0.0.0.0:5", None, "fallback:5"),
    ],
)
def test_what_others_are_told(bound: str, given: str | None, told: str) -> None:
    def address(text: str) -> Address:
        host, _, port = text.rpartition(":")
        return Address(host, int(port))

    wanted = None if given is None else address(given)
    assert str(advertised(address(bound), wanted, fallback=Address("fallback", 9))) == told
