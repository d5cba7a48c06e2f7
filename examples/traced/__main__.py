"""python -m examples.traced [url]: one order through three services, as one trace.

    shop ── orders ──► packing ── parcels ──► shipping

The shop sends an order; packing fails once, does it the second time, and sends a parcel; shipping
sends it off. Nobody hands a trace on: messages carry it. In the end the spans are drawn as the tree
they are, and the broker is asked what it knows of the order itself.

It needs the SDK of OpenTelemetry, whose exporter keeps the spans in memory here; with another one
they go to Jaeger, Tempo or wherever yours go.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import penstock
from penstock.workers import fixed

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
except ImportError:
    sys.exit("this example makes spans: pip install opentelemetry-sdk")

ORDERS, PARCELS = "traced-orders", "traced-parcels"
SECONDS_MAX = 30.0
SPANS = 6
"""The request, two sends, two attempts at packing, and shipping."""


class OutOfBoxes(Exception):
    """It will be better the next time."""


def make_app(url: str, shipped: asyncio.Event) -> penstock.App:
    """Packing and shipping; in one process here, and it makes no difference."""
    app = penstock.App(url)

    @app.worker(ORDERS, retry=penstock.Retry(on={OutOfBoxes: fixed(0)}))
    async def pack(order: dict[str, int], message: penstock.Message[object]) -> None:
        if message.deliveries == 1:
            raise OutOfBoxes("out of boxes")
        client = await app.client()
        await client.send(PARCELS, {"order": order["id"]})

    @app.worker(PARCELS)
    async def ship(parcel: dict[str, int]) -> None:
        assert parcel["order"] == 7, "there is only one"
        shipped.set()

    return app


async def play(url: str, tracer: trace.Tracer) -> penstock.TraceInfo:
    """Let it happen; what the broker knows of the order."""
    shipped = asyncio.Event()
    async with make_app(url, shipped) as app:
        client = await app.client()
        with tracer.start_as_current_span("POST /orders"):
            sent = await client.send(ORDERS, {"id": 7})
        async with asyncio.timeout(SECONDS_MAX):
            await shipped.wait()
            return await client.trace(sent.id, within=[ORDERS])


def draw(spans: Sequence[ReadableSpan], parent: int | None, depth: int = 0) -> int:
    """Print the spans below one, and theirs; how many they are."""
    count = 0
    for span in spans:
        above = None if span.parent is None else span.parent.span_id
        if above == parent and span.context is not None:
            failed = " ✗ " + (span.status.description or "") if not span.status.is_ok else ""
            print(f"{'  ' * depth}{span.name}{failed}")
            count += 1 + draw(spans, span.context.span_id, depth + 1)
    return count


def main() -> int:
    """Set an SDK up, play, and show what came of it; 1 if the trace has holes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", nargs="?", default="memory:traced")
    url = parser.parse_args().url
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    found = asyncio.run(play(url, provider.get_tracer("shop")))
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    [root] = [span for span in spans if span.name == "POST /orders"]
    assert root.context is not None
    own = [one for one in spans if one.context and one.context.trace_id == root.context.trace_id]
    count = draw(own, None)
    print()
    for happening in found.sightings[0].happenings:
        print(f"{happening.what:<10} {happening.receiver}")
    print()
    print(f"one trace of {count} spans, from the shop's request to the parcel")
    return 0 if count == SPANS else 1


if __name__ == "__main__":
    sys.exit(main())
