"""Spans of a client and of workers, as an SDK of OpenTelemetry sees them."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import opentelemetry.metrics
import opentelemetry.trace
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import ProxyTracerProvider, SpanKind, StatusCode

import penstock
import penstock.client.meters
from penstock.client.client import Client
from penstock.client.message import Message
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.spans import Spans, creation_context
from penstock.client.tracer import Tracing
from penstock.core.errors import InvalidRequest

GIVEN = "00-11111111111111111111111111111111-2222222222222222-01"


class Recorder:
    """All spans that have ended."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def take(self) -> dict[str, ReadableSpan]:
        """Those since the last call, by name."""
        found = {span.name: span for span in self._exporter.get_finished_spans()}
        self._exporter.clear()
        return found


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """An SDK that is set up, for one test only."""
    recorder = Recorder()
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: recorder.provider)
    yield recorder
    recorder.provider.shutdown()


def context(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return {name.removeprefix("messaging."): one for name, one in (span.attributes or {}).items()}


async def receive(client: Client, count: int = 1) -> list[Message[object]]:
    return await client.receive("orders", count, wait=60)


def test_one_message_is_one_trace(recorder: Recorder) -> None:
    async def story() -> None:
        settings = penstock.ClientSettings(client_id="shop")
        async with penstock.connect("memory:", settings=settings) as client:
            sent = await client.send("orders", b"1", headers={"colour": "red"})
            [message] = await receive(client)
            with message.processing():
                inside = opentelemetry.trace.get_current_span().get_span_context()
            await message.ack()
            spans = recorder.take()
            assert list(spans) == ["send orders", "receive orders", "process orders", "ack orders"]
            send, got, work, ack = spans.values()
            assert [span.kind for span in spans.values()] == [
                SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT,
            ]  # fmt: skip
            header = message.headers["traceparent"] or b""
            assert header.decode()[:-2] == f"00-{context(send)[0]:032x}-{context(send)[1]:016x}-"
            assert message.headers["colour"] == b"red"
            assert work.parent is not None
            assert (work.parent.trace_id, work.parent.span_id) == context(send)
            assert (inside.trace_id, inside.span_id) == context(work)
            assert links(got) == links(ack) == [context(send)]
            common = {"system": "penstock", "client.id": "shop", "destination.name": "orders"}
            place = {"message.id": sent.id, "destination.partition.id": str(sent.partition)}
            group = {"consumer.group.name": "queue"}
            assert attributes(send) == {
                **common, **place, "operation.name": "send", "operation.type": "send",
            }  # fmt: skip
            assert attributes(got) == {
                **common, **place, **group, "batch.message_count": 1,
                "operation.name": "receive", "operation.type": "receive",
            }  # fmt: skip
            assert attributes(work) == {
                **common, **place, **group, "penstock.message.deliveries": 1,
                "operation.name": "process", "operation.type": "process",
            }  # fmt: skip
            assert attributes(ack) == {
                **common, **place, **group, "penstock.message.deliveries": 1,
                "operation.name": "ack", "operation.type": "settle",
            }  # fmt: skip

    asyncio.run(story())


def test_many_messages(recorder: Recorder) -> None:
    async def story() -> None:
        async with penstock.connect("memory:") as client:
            own = Outgoing(b"own", headers={"traceparent": GIVEN})
            await client.send_many("orders", [b"1", Outgoing(b"2", key="k"), own])
            [send] = recorder.take().values()
            assert attributes(send)["batch.message_count"] == 3
            messages = await receive(client, 3)
            carried = [message.headers.get("traceparent") for message in messages]
            assert carried[2] == GIVEN.encode(), "what a program says itself stays"
            assert carried[0] == carried[1] != carried[2]
            await client.queue("orders").reject(messages, "no")
            spans = recorder.take()
            theirs = [context(send), (0x11111111111111111111111111111111, 0x2222222222222222)]
            assert links(spans["receive orders"]) == links(spans["reject orders"]) == theirs
            assert attributes(spans["reject orders"])["batch.message_count"] == 3
            assert await receive_nothing(client) == []
            assert recorder.take() == {}, "who gets nothing has nothing to tell"

    asyncio.run(story())


async def receive_nothing(client: Client) -> list[Message[object]]:
    return await client.receive("orders", 1)


def test_readers_of_a_log(recorder: Recorder) -> None:
    async def story() -> None:
        async with penstock.connect("memory:") as client:
            await client.topic("news").send(b"1")
            [send] = recorder.take().values()
            async with client.subscribe("news", group="desk", start="earliest") as subscription:
                [record] = await subscription.fetch(wait=60)
                with record.processing():
                    pass
            spans = recorder.take()
            got, work = spans["receive news"], spans["process news"]
            assert links(got) == [context(send)]
            assert attributes(got)["consumer.group.name"] == "desk"
            assert work.parent is not None
            assert (work.parent.trace_id, work.parent.span_id) == context(send)
            assert attributes(work)["message.id"] == record.id

    asyncio.run(story())


def test_numbers_beside_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    for module in (opentelemetry.metrics, penstock.client.meters):
        monkeypatch.setattr(module, "get_meter_provider", lambda: provider)

    async def story() -> None:
        async with penstock.connect("memory:") as client:
            await client.send_many("orders", [b"1", b"2"])
            messages = await receive(client, 2)
            for message in messages:
                with message.processing():
                    pass
            await client.queue("orders").ack(messages)
            with pytest.raises(InvalidRequest):
                await client.send("orders", b"1", headers={"penstock-x": "1"})

    asyncio.run(story())
    found = reader.get_metrics_data()
    assert found is not None
    [resource] = found.resource_metrics
    [scope] = resource.scope_metrics
    told = {
        (metric.name, str((point.attributes or {})["messaging.operation.name"]),
         str((point.attributes or {}).get("error.type", ""))): getattr(point, "value", None)
        or getattr(point, "count", None)
        for metric in scope.metrics
        for point in metric.data.data_points
    }  # fmt: skip
    assert told == {
        ("messaging.client.operation.duration", "send", ""): 1,
        ("messaging.client.operation.duration", "send", "InvalidRequest"): 1,
        ("messaging.client.operation.duration", "receive", ""): 1,
        ("messaging.client.operation.duration", "ack", ""): 1,
        ("messaging.client.sent.messages", "send", ""): 2,
        ("messaging.client.consumed.messages", "receive", ""): 2,
        ("messaging.process.duration", "process", ""): 2,
    }
    provider.shutdown()


def test_where_the_broker_is() -> None:
    recorder = Recorder()
    with Spans(recorder.provider, "", ("broker", 9092)).sending("orders", None):
        pass
    assert attributes(recorder.take()["send orders"]) == {
        "system": "penstock", "destination.name": "orders", "operation.name": "send",
        "operation.type": "send", "server.address": "broker", "server.port": 9092,
    }  # fmt: skip
    recorder.provider.shutdown()


def test_what_goes_wrong_is_told(recorder: Recorder) -> None:
    async def story() -> None:
        async with penstock.connect("memory:") as client:
            await client.send("orders", b"1")
            [message] = await receive(client)
            with pytest.raises(KeyError), message.processing():
                raise KeyError("price")
            span = recorder.take()["process orders"]
            assert span.status.status_code is StatusCode.ERROR
            assert attributes(span)["error.type"] == "KeyError"
            assert [event.name for event in span.events] == ["exception"]
            with pytest.raises(InvalidRequest):
                await client.send("orders", b"1", headers={"penstock-x": "1"})
            span = recorder.take()["send orders"]
            assert attributes(span)["error.type"] == "InvalidRequest"

    asyncio.run(story())


def test_a_blocking_client_is_part_of_its_callers_trace(recorder: Recorder) -> None:
    tracer = recorder.provider.get_tracer("test")
    with penstock.blocking.connect("memory:") as client:
        with tracer.start_as_current_span("request") as outer:
            client.send("orders", b"1")
        send = recorder.take()["send orders"]
        assert send.parent is not None
        assert send.parent.span_id == outer.get_span_context().span_id
        [message] = client.receive("orders", wait=60)
        with message.processing():
            client.send("bills", b"1")
        spans = recorder.take()
        assert spans["send bills"].parent is not None
        assert spans["send bills"].parent.span_id == context(spans["process orders"])[1]
        assert context(spans["send bills"])[0] == context(send)[0], "one trace, end to end"


def test_headers_that_say_where_a_message_was_made() -> None:
    found = creation_context((("traceparent", GIVEN.encode()), ("tracestate", b"a=1,b=2")))
    assert found is not None
    assert (found.trace_id, found.span_id) == (0x11111111111111111111111111111111,
                                               0x2222222222222222)  # fmt: skip
    assert found.trace_state["a"] == "1"
    amazon = b"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    found = creation_context((("AWSTraceHeader", amazon),))
    assert found is not None
    assert f"{found.trace_id:032x}" == "5759e988bd862e3fe1be46a994272793"
    assert found.trace_flags.sampled
    for odd in (b"", b"\xff\xfe", b"00-zz-zz-00", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-00"):
        assert creation_context((("traceparent", odd),)) is None
        assert creation_context((("AWSTraceHeader", odd),)) is None
    assert creation_context((("traceparent", None),)) is None


def test_without_a_provider_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = ProxyTracerProvider()
    monkeypatch.setattr(opentelemetry.trace, "get_tracer_provider", lambda: proxy)
    assert Tracing("me").on() is None
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert Tracing("me").on() is None

    async def story() -> None:
        async with penstock.connect("memory:") as client:
            await client.send("orders", b"1")
            [message] = await receive(client)
            with message.processing():
                assert message.headers == {}

    asyncio.run(story())


def test_a_program_that_does_not_trace_does_not_load_it() -> None:
    code = "import sys, penstock; sys.exit(any('opentelemetry' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
