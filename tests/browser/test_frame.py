"""What every page has: it is alive, it goes by keys, it asks before it acts."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock.testing import PenstockServer
from tests.browser.browsing import visit, without_reload
from tests.browser.queues import make, send

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    """With a few queues."""
    with PenstockServer() as broker:
        for name in ("orders", "emails", "emails-dead"):
            make(broker, name)
        yield broker


def test_numbers_move_without_a_hand(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/")
    ready = page.locator("#queue-orders-queue td").nth(2)
    expect(ready).to_have_text("0")
    with without_reload(page):
        send(broker, "orders", *"sixsix")
        expect(ready).to_have_text("6")
        send(broker, "orders", *"four")
        expect(ready).to_have_text("10")
        total = page.locator(".stat", has_text="Ready").locator(".stat-value")
        expect(total).to_have_text("10")
        expect(page.locator("#throughput canvas")).to_be_visible()
        page.get_by_label("Range of the charts").get_by_text("1h").click()
        expect(page).to_have_url(re.compile(r"\?range=1h$"))
        expect(page.locator("#throughput-1h canvas")).to_be_visible()


def test_what_is_open_and_typed_stays_while_the_page_goes_on(
    page: Page, broker: PenstockServer
) -> None:
    visit(page, broker.http_url + "/cluster")
    page.get_by_text("Add a node").click()
    page.get_by_label("Where its peers").fill("somewhere:9192")
    with page.expect_response(lambda one: one.url.endswith("/cluster")):
        pass
    page.evaluate("penstock.refresh()")
    with page.expect_response(lambda one: one.url.endswith("/cluster")):
        pass
    expect(page.get_by_label("Where its peers")).to_have_value("somewhere:9192")
    expect(page.get_by_label("Where its peers")).to_be_focused()


def test_search_by_keys(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/settings")
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("email")
    found = page.locator("#search-results [data-href]")
    expect(found).to_have_text(["emailsqueue", "emails-deadqueue"])
    page.keyboard.press("ArrowDown")
    expect(found.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues/emails-dead")
    page.keyboard.press("g")
    page.keyboard.press("c")
    page.wait_for_url("**/cluster")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_light_and_dark(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.keyboard.press("d")
    dark = page.evaluate(paper)
    assert light != dark
    page.reload()
    assert page.evaluate(paper) == dark, "it is remembered"


def test_a_page_can_be_held_still(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/")
    expect(page.locator("#queue-emails-queue")).to_be_visible()
    page.keyboard.press("p")
    expect(page.locator("[data-live-word]")).to_have_text("Held")
    held = page.locator("#queue-emails-queue td").nth(2).text_content()
    send(broker, "emails", "one", "two", "three")
    with page.expect_response(lambda one: "/v1/readings" in one.url):
        page.evaluate("fetch('/v1/readings')")
    expect(page.locator("#queue-emails-queue td").nth(2)).to_have_text(held or "")
    page.keyboard.press("p")
    expect(page.locator("#queue-emails-queue td").nth(2)).not_to_have_text(held or "")


def test_what_was_chosen_is_in_the_address(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/settings")
    page.get_by_label("Filter settings").fill("web.")
    expect(page).to_have_url(re.compile(r"\?q=web\.$"))
    expect(page.locator("main tbody tr")).to_have_count(2)
    page.reload()
    expect(page.get_by_label("Filter settings")).to_have_value("web.")
    expect(page.locator("main tbody tr")).to_have_count(2)


def test_an_action_asks_first_and_leaves_a_line(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/audit")
    page.evaluate(
        """() => {
            const button = document.createElement("button");
            Object.assign(button.dataset, {action: "/v1/queues/orders/purge", method: "POST",
                ask: "", title: "Purge orders?", text: "", name: "orders", body: "{}",
                say: "Purged {purged} messages."});
            button.textContent = "Purge";
            document.getElementById("banner").after(button);
        }"""
    )
    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog", name="Purge orders?")
    yes = dialog.get_by_role("button", name="Purge")
    expect(yes).to_be_disabled()
    dialog.get_by_role("textbox").fill("order")
    expect(yes).to_be_disabled()
    dialog.get_by_role("textbox").fill("orders")
    yes.click()
    expect(page.locator("#toasts")).to_contain_text(re.compile(r"Purged \d+ messages"))
    expect(dialog).to_be_hidden()
    expect(page.locator("#orders tbody tr").first).to_contain_text("purge queue")
    expect(page.locator("#orders tbody tr").first).to_contain_text("(dashboard)")
