"""A large cluster stays usable: a thousand queues, a hundred nodes."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import msgspec
import pytest
from playwright.sync_api import Page, expect

from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.status import NodeStatus
from penstock.testing import PenstockServer
from penstock.web.app import make_app
from penstock.web.listener import HttpListener
from tests.browser.browsing import visit
from tests.browser.queues import make, send
from tests.unit.web.asgi import FakeBroker, cluster_status, shard

pytestmark = [pytest.mark.browser, pytest.mark.slow]

QUEUES = 1_000
NODES = 100
SHARDS = 128
READY_MS_MAX = 3_000
"""How long a page may take until it can be used, on a machine that has other work to do."""
ELEMENTS_MAX = 5_000


def took_ms(page: Page) -> float:
    """From the click to the page that is complete."""
    return float(
        page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    """With a thousand queues, of which one has something to do."""
    with PenstockServer() as broker, ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: make(broker, f"queue-{number:04d}"), range(QUEUES)))
        send(broker, "queue-0777", "one", "two", "three")
        yield broker


def test_the_overview_of_a_thousand_queues(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url)
    rows = page.locator("#queues tbody tr")
    expect(rows.first).to_contain_text("queue-0777")
    expect(page.get_by_text("975 more queues")).to_be_visible()
    assert rows.count() == 25
    page.reload()
    assert took_ms(page) < READY_MS_MAX
    page.keyboard.press("/")
    page.keyboard.type("0555")
    page.locator("#search-results [data-href]").first.click()
    page.wait_for_url("**/queues/queue-0555")
    expect(page.locator("h1")).to_contain_text("queue-0555")


def test_the_list_of_a_thousand_queues(page: Page, broker: PenstockServer) -> None:
    visit(page, f"{broker.http_url}/queues")
    expect(page.locator("h1")).to_contain_text("1,000")
    assert took_ms(page) < READY_MS_MAX
    rows = page.locator("#queues tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_contain_text("queue-0777")
    page.get_by_label("Filter by name").fill("queue-05")
    expect(rows.first).to_contain_text("queue-05")
    expect(page.locator(".pager")).to_have_count(0)
    page.get_by_label("Filter by name").fill("")
    expect(page.locator(".pager")).to_contain_text("1 of 10")
    page.get_by_role("link", name="Queue", exact=True).click()
    expect(rows.first).to_contain_text("queue-0000")
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page.locator(".pager")).to_contain_text("2 of 10")
    expect(rows.first).to_contain_text("queue-0100")
    page.reload()
    expect(page.locator(".pager")).to_contain_text("2 of 10")
    assert page.evaluate("document.querySelectorAll('*').length") < ELEMENTS_MAX


@contextmanager
def serve(broker: FakeBroker) -> Iterator[str]:
    """The application for a broker that is made up, at a port."""
    address: Future[str] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        listener = HttpListener(make_app(broker), connections_max=16)
        host, port = await listener.start("127.0.0.1", 0)
        address.set_result(f"http://{host}:{port}")
        await stop.wait()
        await listener.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield address.result(30)
    finally:
        stopping.result(30)()
        thread.join()


def test_a_hundred_nodes(page: Page) -> None:
    broker = FakeBroker()
    assert broker.node is not None
    nodes = tuple(
        NodeStatus(
            node=NodeId(number), alive=number != 42, leaving=False, peer="", kafka="a:1",
            http="a:2", leads=1, holds=4,
        )
        for number in range(1, NODES + 1)
    )  # fmt: skip
    shards = tuple(shard(number) for number in range(SHARDS))
    lost = msgspec.structs.replace(shards[77], leader=NodeId(0), shard=ShardId(77))
    found = cluster_status(*shards[:77], lost, *shards[78:])
    broker.node.cluster.found = msgspec.structs.replace(found, nodes=nodes)
    with serve(broker) as address:
        page.goto(f"{address}/cluster")
        expect(page.locator("#nodes tbody tr")).to_have_count(NODES)
        expect(page.locator("#shards tbody tr")).to_have_count(SHARDS)
        assert took_ms(page) < READY_MS_MAX
        expect(page.locator("#node-42")).to_contain_text("not reached")
        expect(page.locator("#shard-77")).to_contain_text("no leader")
        assert page.evaluate("document.querySelectorAll('*').length") < ELEMENTS_MAX
        with page.expect_response(lambda one: one.url.endswith("/cluster")):
            pass  # It goes on by itself.
        page.goto("about:blank")
