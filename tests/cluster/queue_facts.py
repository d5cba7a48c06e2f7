"""What is written down about operations on queues, besides what every operation has.

A message is known by its value, which is sent once in a history, and a lease by its receipt. Which
fields are filled depends on the function:

    queue       promises: what was asked for when the queue was made
    send        group, dedup, delay_ms, priority; identity: what the answer calls the message
    receive     lease_ms, and when it ends, delivered: the messages in the order of the answer
    settle      receipt, verdict; delay_ms of a release or an extension
    counts      counts: by the names of the HTTP interface

A settlement is `ok` if it certainly took effect, which a polite answer does not always say: SQS
answers the deletion of a message that somebody else has by now like any other. Then it is `info`.
"""

from typing import Literal

import msgspec

Verdict = Literal["ack", "release", "reject", "extend"]


class Promises(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a queue was made to keep."""

    fifo: bool = False
    strict_priority: bool = False
    deliveries_max: int = 0
    """After so many that came to nothing a message is a dead letter; 0: never."""
    dead_letters: str = ""
    """The queue they go to."""
    dedup_window_ms: int = 0
    """How long an id is remembered; 0: not at all."""


class Delivered(msgspec.Struct, frozen=True, array_like=True):
    """One message of the answer to a receive."""

    value: str
    receipt: str
    count: int
    """How often it has been delivered, this time included, as the answer has it."""
    identity: str = ""


class QueueFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """See the top of this module."""

    name: str
    promises: Promises | None = None
    group: str = ""
    dedup: str = ""
    delay_ms: int = 0
    priority: int = 0
    identity: str = ""
    lease_ms: int = 0
    delivered: tuple[Delivered, ...] = ()
    receipt: str = ""
    verdict: Verdict = "ack"
    counts: dict[str, int] = {}
