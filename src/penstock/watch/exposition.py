"""`GET /metrics`: everything this node can say in numbers, as Prometheus reads it.

The page is made on request. Nothing is counted only for it: all counters exist anyway, as plain
ints; making it takes a few milliseconds, and with a thousand queues some hundred, in slices.
However many ask, and however often, a page serves all of them for a second, and for longer if it
took long to make: no more than a fiftieth of the time goes into it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from penstock.core.clock import precise_seconds
from penstock.core.front_end import FrontEndStatistics
from penstock.engine.cluster.node import Node
from penstock.watch.families import Families
from penstock.watch.node_metrics import (
    add_front_ends,
    add_links,
    add_memory,
    add_node,
    add_shards,
    add_watch,
)
from penstock.watch.partition_metrics import PartitionMetrics
from penstock.watch.queue_metrics import QueueMetrics
from penstock.watch.watch import Watch

FRESH_SECONDS = 1.0
FRESH_SECONDS_MAX = 15.0
"""Older than what most people scrape by, no page is, whatever it took to make."""
SHARE_MAX = 0.02
SLICE_SECONDS = 0.002
"""How long the loop may be kept at a time."""

FrontEnds = Callable[[], Iterable[FrontEndStatistics]]


class Page(Collector):
    """A page that has been made, and where it comes from."""

    def __init__(self, families: Families, process: ProcessCollector) -> None:
        self._families = families
        self._process = process

    def collect(self) -> Iterator[Family]:
        """For Prometheus' library."""
        yield from self._families.collect()
        yield from self._process.collect()


class Exposition:
    """One per node."""

    def __init__(
        self, node: Node, front_ends: FrontEnds, watch: Callable[[], Watch | None] = lambda: None
    ) -> None:
        """`watch` is that of the node; None while there is none."""
        self._node = node
        self._front_ends = front_ends
        self._watch = watch
        self._queues = QueueMetrics(node, self._pause)
        self._partitions = PartitionMetrics(node, self._pause)
        self._process = ProcessCollector(registry=CollectorRegistry())
        self._making = asyncio.Lock()
        self._made: dict[tuple[bool, str], tuple[float, bytes]] = {}
        self._spent = 0.0
        self._slice_began = 0.0

    async def page(self, *, detail: bool = False, accept: str = "") -> tuple[bytes, str]:
        """The text and its content type, negotiated by the Accept header."""
        encode, content_type = choose_encoder(accept)
        key = detail, content_type
        async with self._making:
            fresh_until, text = self._made.get(key, (0.0, b""))
            if precise_seconds() >= fresh_until:
                before = self._spent
                text = await self._write(await self._collect(detail), encode)
                now = precise_seconds()
                fresh = max(FRESH_SECONDS, (self._spent - before) / SHARE_MAX)
                fresh = min(fresh, FRESH_SECONDS_MAX)
                self._made = {other: made for other, made in self._made.items() if made[0] > now}
                self._made[key] = now + fresh, text
            return text, content_type

    def forget(self) -> None:
        """Make the next page anew, however fresh the last one is."""
        self._made.clear()

    async def _write(self, families: Families, encode: Callable[[Collector], bytes]) -> bytes:
        self._slice_began = precise_seconds()
        if encode is generate_latest:
            pieces = []
            for piece in families.write():
                pieces.append(piece)
                await self._pause()
            text = "".join(pieces).encode() + encode(self._process)
        else:  # The library writes it in one go: not on the loop.
            text = await asyncio.to_thread(encode, Page(families, self._process))
        self._spent += precise_seconds() - self._slice_began
        return text

    async def _collect(self, detail: bool) -> Families:
        node, page = self._node, Families()
        sample = await node.sampler.here()
        self._slice_began = precise_seconds()
        add_node(page, node, sample.machine)
        add_links(page, node)
        add_shards(page, node)
        add_front_ends(page, self._front_ends())
        add_memory(page, self._node.memory.statistics())
        if (watch := self._watch()) is not None:
            add_watch(page, node, watch)
        await self._pause()
        await self._queues.add(page, sample, precise_seconds())
        await self._partitions.add(page, detail=detail)
        await self._partitions.add_groups(page, detail=detail)
        self._spent += precise_seconds() - self._slice_began
        page.add("penstock_metrics_duration_seconds_total", self._spent)
        return page

    async def _pause(self) -> None:
        took = precise_seconds() - self._slice_began
        if took >= SLICE_SECONDS:
            self._spent += took
            await asyncio.sleep(0)
            self._slice_began = precise_seconds()
