"""Workers are part of the trace that a message was sent in."""

from collections.abc import Iterator

import opentelemetry.trace
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from penstock.workers.retry import Retry, fixed
from tests.unit.workers.rig import Rig, play


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """An SDK that is set up, for one test only."""
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


@pytest.mark.parametrize("is_async", [True, False])
def test_work_is_a_child_of_the_send(exporter: InMemorySpanExporter, is_async: bool) -> None:
    inside: list[int] = []

    def note() -> None:
        inside.append(opentelemetry.trace.get_current_span().get_span_context().span_id)

    async def story() -> None:
        rig = Rig()
        if is_async:

            @rig.app.worker("jobs")
            async def job(_number: int) -> None:
                note()

        else:

            @rig.app.worker("jobs")
            def thread_job(_number: int) -> None:
                note()

        async with rig.working():
            await rig.client.queue("jobs", codec=int).send(1)
            await rig.until_stats("jobs", acked=1)

    play(story)
    [send], [work] = named(exporter, "send jobs"), named(exporter, "process jobs")
    assert send.context is not None
    assert work.context is not None
    assert work.parent is not None
    assert work.parent.span_id == send.context.span_id
    assert inside == [work.context.span_id], "also in a thread of its own"
    assert len(named(exporter, "ack jobs")) == 1


def test_every_attempt_is_a_span(exporter: InMemorySpanExporter) -> None:
    async def story() -> None:
        rig = Rig()

        @rig.app.worker("jobs", retry=Retry(default=fixed(0), deliveries_max=2))
        async def job(_number: int) -> None:
            raise ValueError("never")

        async with rig.working():
            await rig.client.queue("jobs", codec=int).send(1)
            await rig.until_stats("jobs", moved=1)

    play(story)
    spans = named(exporter, "process jobs")
    assert [(span.attributes or {})["penstock.message.deliveries"] for span in spans] == [1, 2]
    assert all(span.status.status_code is StatusCode.ERROR for span in spans)
    assert len({span.context.trace_id for span in spans if span.context is not None}) == 1
    assert len(named(exporter, "release jobs")) == len(named(exporter, "reject jobs")) == 1
