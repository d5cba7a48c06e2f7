"""Every page for people who use a screen reader, a phone, or the keyboard alone."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from penstock.testing import PenstockServer
from tests.browser.browsing import open_page, visit
from tests.browser.queues import make, send, work

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATHS = (
    "/", "/queues", "/queues/orders", "/queues/orders?tab=messages&message=0:3",
    "/queues/orders?tab=dead", "/queues/orders?tab=dead&message=0:0", "/queues/orders?tab=workers",
    "/queues/orders?tab=send", "/queues/orders?tab=settings", "/queues/orders-dlq", "/topics",
    "/topics/orders", "/topics/orders?tab=tail", "/topics/orders?tab=partitions",
    "/topics/orders?tab=configs", "/groups", "/trace?message=orders:0:0", "/cluster", "/alerts",
    "/runbooks", "/runbooks/no-consumers", "/pipelines", "/settings", "/audit", "/search?q=orders",
)  # fmt: skip
PHONE = 390


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    """With a queue that has messages, dead letters and an alert."""
    with PenstockServer() as broker:
        make(broker, "orders", dead_letter_topic="orders-dlq", deliveries_max=5,
             alert_no_consumers_ms="off,off,0")  # fmt: skip
        send(broker, "orders", "bad", "worse", "worst", key="k")
        work(broker, "orders", "reject", reason="ValueError: no such address")
        send(broker, "orders", '{"order": 1}', '{"order": 2}', key="k")
        yield broker


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser: Browser, broker: PenstockServer, dark: bool) -> None:
    axe = Axe()
    with open_page(browser, dark=dark) as page:
        visit(page, f"{broker.http_url}/alerts")
        expect(page.get_by_role("button", name="Acknowledge").first).to_be_visible()
        found = []
        for path in PATHS:
            visit(page, broker.http_url + path)
            for one in axe.run(page).response["violations"]:
                places = [node["html"][:120] for node in one["nodes"][:3]]
                found.append(f"{path}: {one['impact']} {one['id']}: {places}")
        assert found == [], "\n".join(found)


def test_pages_fit_on_a_phone(browser: Browser, broker: PenstockServer) -> None:
    with open_page(browser, width=PHONE) as page:
        for path in PATHS:
            visit(page, broker.http_url + path)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= PHONE, f"{path} is {width} pixels wide"
        visit(page, f"{broker.http_url}/queues/orders?tab=settings")
        change = page.locator("#setting-lease_ms").get_by_text("Change")
        box = change.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= PHONE, "it can be tapped without scrolling sideways"


def reach(page: Page, name: str) -> None:
    """Press Tab until an element with this text, or this label, has the focus."""
    script = """() => {
        const one = document.activeElement;
        return [one.innerText, one.getAttribute("aria-label"), one.labels?.[0]?.innerText]
            .filter(Boolean).join(" ");
    }"""
    for _ in range(80):
        page.keyboard.press("Tab")
        if re.search(name, page.evaluate(script)):
            return
    raise AssertionError(f"{name} cannot be reached by the keyboard")


def test_a_queue_is_made_and_an_alert_acknowledged_by_keyboard(
    page: Page, broker: PenstockServer
) -> None:
    visit(page, f"{broker.http_url}/queues")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    reach(page, "Create a queue")
    page.keyboard.press("Enter")
    reach(page, "^Name")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues/by-keyboard?tab=send")
    visit(page, f"{broker.http_url}/alerts")
    expect(page.get_by_role("button", name="Acknowledge").first).to_be_visible()
    reach(page, "^Acknowledge$")
    page.keyboard.press("Enter")
    expect(page.locator("#silences li")).to_contain_text("acknowledged")
    reach(page, "^End$")
    page.keyboard.press("Enter")
    expect(page.locator("#silences")).to_have_count(0)
