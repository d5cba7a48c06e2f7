"""What the flags of `penstock produce` say about every message."""

from datetime import UTC, datetime

import pytest
from cyclopts import App, CycloptsError

from penstock.cli.message.message_flags import PLAIN, Handling
from penstock.client.producer.outgoing_message import Outgoing


def parse(*arguments: str) -> Handling:
    app = App()

    @app.default
    def send(*, handling: Handling = PLAIN) -> Handling:
        return handling

    parsed: Handling = app(
        list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
    )
    return parsed


def test_nothing_said() -> None:
    assert parse() == PLAIN
    assert PLAIN.outgoing().is_plain
    assert PLAIN.of_queues_only() == []


def test_everything_said() -> None:
    said = parse(
        "-k", "key", "-H", "a=b=c", "--header", "d=", "-p", "2", "--priority", "9",
        "--delay", "5m", "--at", "2030-01-31T09:30:00Z", "--ttl", "1h", "--message-group", "g",
        "--dedup-id", "d",
    )  # fmt: skip
    assert said.outgoing() == Outgoing(
        None,
        key="key",
        headers={"a": "b=c", "d": ""},
        partition=2,
        priority=9,
        delay=300.0,
        deliver_at=datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
        ttl=3_600.0,
        message_group="g",
        dedup_id="d",
    )
    assert said.of_queues_only() == [
        "--priority", "--delay", "--at", "--ttl", "--message-group", "--dedup-id",
    ]  # fmt: skip
    assert parse("-k", "x", "-H", "a=1", "-p", "0").of_queues_only() == []


@pytest.mark.parametrize(
    "arguments", [("-H", "novalue"), ("--delay", "5"), ("--ttl", "soon"), ("--at", "soon")]
)
def test_typed_wrongly(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CycloptsError):
        parse(*arguments).outgoing()
