"""The spans and metrics of a client, if the program has set up a provider; otherwise they are free.

Spans are OpenTelemetry's, by its conventions for messaging (see `spans`). Penstock depends on the
API alone; the SDK, and where spans go, is the program's business. A program that has not loaded
OpenTelemetry has set up nothing, so nothing is loaded for it: one look into a table per call, and
none per message. One that has loaded it and set no provider up costs a look more.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from penstock.client.message import Message
    from penstock.client.record import Record
    from penstock.client.spans import Spans

_TRACES = "opentelemetry.trace"
_METERS = "opentelemetry.metrics"
_NOTHING: AbstractContextManager[None] = nullcontext()


class Tracing:
    """The tracing state of one client."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.server: tuple[str, int] | None = None
        """The broker's host and port, as the program gave them."""
        self._provider: object = None
        self._counter: object = None
        self._spans: Spans | None = None

    def on(self) -> "Spans | None":
        """The tracer and the meters; None if the program has no provider of either."""
        api = sys.modules.get(_TRACES)
        if api is None:
            return None
        provider = api.get_tracer_provider()
        meters = sys.modules.get(_METERS)
        counter = None if meters is None else meters.get_meter_provider()
        if provider is not self._provider or counter is not self._counter:
            self._provider, self._counter = provider, counter
            self._spans = self._start(provider) if _is_set(provider, counter) else None
        return self._spans

    def _start(self, provider: "TracerProvider") -> "Spans":
        from penstock.client.spans import Spans  # noqa: PLC0415 - see the top.

        return Spans(provider, self.client_id, self.server)

    def processing(self, message: "Message[Any] | Record[Any]") -> AbstractContextManager[None]:
        """While the program works on a message."""
        spans = self.on()
        return _NOTHING if spans is None else spans.processing(message)


def _is_set(*providers: object) -> bool:
    """True if a provider of an SDK is installed; the API's own providers record nothing."""
    made_in = (type(one).__module__ for one in providers if one is not None)
    return not all(module.startswith((_TRACES, _METERS)) for module in made_in)


ANYBODYS = Tracing("")
"""For records of a log, which do not know who read them."""
