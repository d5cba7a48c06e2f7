"""What the table of APIs consists of: one row per API key.

An API is served in one of two forms. `handle` is a coroutine from a request to an answer; requests
of one connection go through it one after the other, as in Kafka. `start` is called as soon as the
request has arrived, before anything that came later is looked at; it must not wait, and sees to it
that `Context.answer` or `Context.finish` is called once, now or later. It is for what comes by the
thousand and for what parks for long: no task is made for it.
"""

from collections.abc import Awaitable, Callable

import msgspec

from penstock.core.errors import PenstockError
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import code_of
from penstock.kafka.schema import Span, flexible_versions

Handle = Callable[[Message, Context], Awaitable[Answer | bytes]]
Start = Callable[[bytearray, int, Context], None]


class Api(msgspec.Struct, frozen=True):
    """One API key: its name, the versions that are served, and the code that serves it."""

    key: int
    name: str
    served: Span
    handle: Handle | None = None
    start: Start | None = None
    advertised_from: int | None = None
    """The first version that is advertised, if it is not the first that is served."""
    code: Callable[[PenstockError], int] = code_of
    """Which error code a refusal of a whole request gets."""

    @property
    def advertised(self) -> Span:
        """The advertised versions."""
        return (
            self.served if self.advertised_from is None else (self.advertised_from, self.served[1])
        )

    @property
    def flexible_from(self) -> int:
        """The first version whose request header has tagged fields."""
        flexible = flexible_versions(self.key, "request")
        return flexible[0] if flexible else 1 << 15
