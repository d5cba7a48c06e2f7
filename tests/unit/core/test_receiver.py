"""Names of receivers: one line each, whatever a program calls itself."""

from penstock.core.limits import RECEIVER_CHARACTERS_MAX
from penstock.core.receiver import receiver_name, worker_name


def test_names() -> None:
    assert receiver_name("kafka", "127.0.0.1:1", "checkout") == "checkout (kafka, 127.0.0.1:1)"
    assert receiver_name("sqs", "127.0.0.1:1") == "127.0.0.1:1 (sqs)"
    assert receiver_name("native", "", "worker") == "worker (native)"
    assert receiver_name("native", "") == "? (native)"


def test_what_is_no_name_does_no_harm() -> None:
    odd = receiver_name("kafka", "[::1]:9092", "a\nb\x1b[31m" + "x" * 1_000)
    assert odd.startswith("a?b?[31mxxx")
    assert odd.endswith("x (kafka, [::1]:9092)")
    assert len(odd) == RECEIVER_CHARACTERS_MAX
    assert len(receiver_name("http", "y" * 1_000, "\ud800")) == RECEIVER_CHARACTERS_MAX
    receiver_name("http", "", "\ud800").encode()


def test_whoever_asks_over_http_is_known_without_his_port() -> None:
    for protocol in ("sqs", "http"):
        named = receiver_name(protocol, "192.0.2.7:51234", "Boto3/1.40")
        assert worker_name(named) == f"Boto3/1.40 ({protocol}, 192.0.2.7)"
        assert worker_name(receiver_name(protocol, "192.0.2.7:51234")) == f"192.0.2.7 ({protocol})"
        assert worker_name(receiver_name(protocol, "[::1]:51234", "a")) == f"a ({protocol}, [::1])"
    for protocol in ("kafka", "native"):
        named = receiver_name(protocol, "192.0.2.7:51234", "w")
        assert worker_name(named) == named
