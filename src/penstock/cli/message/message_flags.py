"""The flags of `penstock produce` that hold for every message: key, headers, delay and so on."""

import datetime as dt
from dataclasses import dataclass
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from penstock.cli.queue.messages import parse_flag_time_ms
from penstock.client.producer.outgoing_message import Outgoing
from penstock.server.notation import parse_duration_ms

NUMBER_MARK = "%n"
"""In an id, the message's number."""
OF_QUEUES_ONLY = ("priority", "delay", "at", "ttl", "message_group", "dedup_id")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """The flags, as they were typed."""

    key: Annotated[str | None, Parameter(name=["--key", "-k"], help="The key of each message.")] = (
        None
    )
    header: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--header", "-H"],
            metavar="NAME=VALUE",
            negative="",
            show_default=False,
            help="May be repeated.",
        ),
    ] = ()
    partition: Annotated[
        int | None,
        Parameter(name=["--partition", "-p"], help="The partition; by default the key decides."),
    ] = None
    priority: Annotated[
        int | None, Parameter(help="The priority, 0 to 9; higher is delivered sooner.")
    ] = None
    delay: Annotated[
        str | None, Parameter(metavar="DURATION", help="Deliver after this delay.")
    ] = None
    at: Annotated[
        str | None,
        Parameter(metavar="TIME", help="Deliver after this time: 2030-01-31T09:30:00Z, or +5m."),
    ] = None
    ttl: Annotated[str | None, Parameter(metavar="DURATION", help="Expire after this time.")] = None
    message_group: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Message group: messages of one group keep their order."),
    ] = None
    dedup_id: Annotated[
        str | None,
        Parameter(
            metavar="ID",
            help="A second message with this id is dropped; %n in it is the message's number, so"
            " that a file may be sent again after a failure.",
        ),
    ] = None

    def of_queues_only(self) -> list[str]:
        """The flags in use that mean nothing to a plain topic."""
        used = [name for name in OF_QUEUES_ONLY if getattr(self, name) is not None]
        return [f"--{name.replace('_', '-')}" for name in used]

    def outgoing(self) -> Outgoing[bytes | None]:
        """Return a message without a body and with everything the flags say. Raise CycloptsError
        for a wrong value."""
        at_ms = parse_flag_time_ms("--at", self.at)
        return Outgoing(
            None,
            key=self.key,
            headers=dict(map(_header, self.header)) or None,
            partition=self.partition,
            priority=self.priority,
            delay=seconds("--delay", self.delay),
            deliver_at=None if at_ms is None else dt.datetime.fromtimestamp(at_ms / 1_000, dt.UTC),
            ttl=seconds("--ttl", self.ttl),
            message_group=self.message_group,
            dedup_id=self.dedup_id,
        )


PLAIN = Handling()
"""No flags."""


def seconds(flag: str, written: str | None) -> float | None:
    """The value of a flag that is a duration."""
    if written is None:
        return None
    try:
        return parse_duration_ms(written) / 1_000
    except ValueError as error:
        raise CycloptsError(
            msg=f'{flag} = "{written}" must be a duration with its unit, such as "30s".'
        ) from error


def _header(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not name:
        raise CycloptsError(msg=f'--header = "{written}" must be NAME=VALUE.')
    return name, value
