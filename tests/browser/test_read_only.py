"""A broker that may only be looked at: no page offers a change, and none is let through."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock import blocking
from penstock.testing import PenstockServer
from tests.browser.browsing import visit

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PATHS = (
    "/", "/queues", "/queues/jobs", "/queues/jobs?tab=dead", "/queues/jobs?tab=send",
    "/queues/jobs?tab=settings", "/topics", "/topics/jobs", "/topics/jobs?tab=configs", "/groups",
    "/cluster", "/alerts", "/pipelines", "/settings", "/audit",
)  # fmt: skip
OFFERS = ", ".join(
    f"main [data-{word}]" for word in ("action", "preview", "new-queue", "setting", "reset")
)


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    with PenstockServer(settings={"web.read_only": True}) as broker:
        with blocking.connect(broker.url) as client:
            client.queue("jobs").send({"job": 1})
            client.queue("jobs").peek()
        yield broker


def test_no_page_offers_a_change(page: Page, broker: PenstockServer) -> None:
    for path in PATHS:
        visit(page, broker.http_url + path)
        expect(page.locator(".side-end .badge")).to_have_text("read only")
        assert page.locator(OFFERS).count() == 0, path


def test_a_change_is_refused_even_with_the_token(page: Page, broker: PenstockServer) -> None:
    visit(page, f"{broker.http_url}/queues/jobs")
    token = page.locator('meta[name="penstock-token"]').get_attribute("content") or ""
    answer = page.request.post(
        f"{broker.http_url}/v1/queues/jobs/purge",
        data={},
        headers={"x-penstock-token": token, "origin": broker.http_url},
    )
    assert answer.status == 403
    assert answer.json()["error"] == "ReadOnly"
    expect(page.locator(".stat", has_text="Ready").locator(".stat-value")).to_have_text("1")
