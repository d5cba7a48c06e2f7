"""The times that are printed are right."""

from tests.cluster.history import Event
from tests.cluster.payloads import name_in, payload_of
from tests.cluster.recovery import describe, recoveries

SECOND = 1_000_000_000


def send(op: int, key: str, invoked: float, acked: float) -> list[Event]:
    sends = ((key, op, f"v-{op}"),)
    at, then = int(invoked * SECOND), int(acked * SECOND)
    return [
        Event(at=at, process="p", op=op, type="invoke", f="send", sends=sends),
        Event(at=then, process="p", op=op, type="ok", f="send", sends=sends),
    ]


def strike(at: float, *keys: str) -> Event:
    led = dict.fromkeys(keys)
    when = int(at * SECOND)
    return Event(at=when, process="f", op=0, type="ok", f="fault", note="kill", positions=led)


def by_time(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.at)


def test_the_clock_stops_at_the_first_message_sent_after_the_strike() -> None:
    history = by_time([
        *send(1, "t/0", 0.5, 1.5),
        strike(1.0, "t/0"),
        *send(2, "t/1", 1.1, 1.2),
        *send(3, "t/0", 1.1, 3.0),
        *send(4, "t/0", 3.1, 3.2),
    ])  # fmt: skip
    (only,) = recoveries(history)
    assert only.seconds == 2.0


def test_every_partition_that_was_led_must_come_back() -> None:
    history = by_time([
        strike(1.0, "t/0", "t/1"),
        *send(1, "t/0", 1.1, 2.0),
        *send(2, "t/1", 1.1, 4.0),
        strike(5.0, "t/1"),
        *send(3, "t/1", 5.0, 5.1),
    ])  # fmt: skip
    first, second = recoveries(history)
    assert first.seconds == 3.0
    assert second.seconds == float("inf")
    assert "3.00 s (median), 3.00 s (worst): kill 3.00" in describe([first])
    assert describe([]) == "no leader was harmed"


def test_an_altered_message_has_no_name_that_was_sent() -> None:
    for number in range(200):
        payload = payload_of(f"producer1-{number}")
        assert name_in(payload) == f"producer1-{number}"
        for position in range(len(payload)):
            altered = bytearray(payload)
            altered[position] ^= 1
            assert name_in(bytes(altered)) != f"producer1-{number}"
    assert name_in(None) == "nothing"
    assert name_in(b"") == "altered b''"
