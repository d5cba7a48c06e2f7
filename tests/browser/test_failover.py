"""The dashboard is open while nodes are killed: it says what happened, and goes on by itself."""

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from penstock.testing import LocalCluster
from tests.browser.browsing import visit, without_reload

pytestmark = [pytest.mark.browser, pytest.mark.cluster, pytest.mark.slow]

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as cluster:
        yield cluster


def leaders(address: str) -> dict[int, int]:
    """Who leads which shard."""
    with urllib.request.urlopen(f"{address}/v1/cluster", timeout=30) as answer:
        told: dict[str, Any] = json.load(answer)
    return {one["shard"]: one["leader"] for one in told["shards"]}


def test_the_page_says_who_leads_when_a_leader_is_killed(page: Page, cluster: LocalCluster) -> None:
    visit(page, f"{cluster.http_url}/cluster")
    banner, head = page.locator("#banner"), page.get_by_role("heading", level=1)
    expect(head).to_contain_text("3 of 3 nodes", timeout=PATIENCE_MS)
    expect(banner).to_be_hidden(timeout=PATIENCE_MS)
    led = leaders(cluster.http_url)
    victim = next(node for node in led.values() if node != 1)
    lost = [shard for shard, node in led.items() if node == victim]
    with without_reload(page):
        cluster.kill(victim)
        expect(banner).to_contain_text(f"Node {victim} cannot be reached", timeout=PATIENCE_MS)
        for shard in lost:
            leader = page.locator(f"#shard-{shard} td").nth(2)
            expect(leader).to_have_text(re.compile(rf"node [^{victim}]"), timeout=PATIENCE_MS)
        expect(page.locator(f"#node-{victim}")).to_contain_text("not reached")
        expect(head).to_contain_text("2 of 3 nodes")
        heir = next(node for shard, node in leaders(cluster.http_url).items() if shard in lost)
        told = page.locator(".events li", has_text=f"node {heir}").filter(has_text="lead")
        expect(told.first).to_be_visible()
        cluster.restart(victim)
        expect(banner).to_be_hidden(timeout=PATIENCE_MS)
        expect(head).to_contain_text("3 of 3 nodes", timeout=PATIENCE_MS)


def test_the_page_comes_back_when_its_own_node_does(page: Page, cluster: LocalCluster) -> None:
    visit(page, f"{cluster.http_url}/settings?q=web")
    banner = page.locator("#banner")
    with without_reload(page):
        cluster.kill(1)
        expect(banner).to_contain_text("Node 1 does not answer", timeout=PATIENCE_MS)
        elsewhere = page.get_by_role("link", name="node 2")
        assert (elsewhere.get_attribute("href") or "").endswith("/settings?q=web")
        cluster.restart(1)
        expect(banner).to_be_hidden(timeout=PATIENCE_MS)
        expect(page.locator("[data-live]")).to_have_attribute("data-live", "live")
        expect(page.locator("#toasts")).to_contain_text("It is back")
