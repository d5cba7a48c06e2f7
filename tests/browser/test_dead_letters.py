"""The story that the dashboard is for: a queue fails, and a person finds out why and mends it."""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from penstock import blocking
from penstock.testing import PenstockServer
from tests.browser.browsing import visit, without_reload
from tests.browser.queues import make, send, work

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BAD = "<img src=x onerror=alert(1)>"
ORDER = {"order": 17, "note": BAD, "ship_to": {"city": "Łódź"}}


@pytest.fixture
def broker() -> Iterator[PenstockServer]:
    """For each test one of its own: which queue is the first depends on the others."""
    with PenstockServer() as broker:
        yield broker


def test_a_person_finds_the_failing_queue_reads_a_dead_message_and_redrives_it(
    page: Page, broker: PenstockServer
) -> None:
    for name in ("fine", "quiet"):
        make(broker, name)
    make(broker, "failing", dead_letter_topic="failing-dead", delete_acked=False)
    with blocking.connect(broker.url) as client:
        orders = client.queue("failing")
        orders.send(ORDER, key=f"key {BAD}", headers={"source": BAD})
        for message in orders.receive(1, wait=30):  # The worker has a bug.
            assert message.reject(f"KeyError: {BAD}")

        find_failing(page, broker)
        read_letter(page)
        with without_reload(page):
            redrive_letter(page)
            (message,) = orders.receive(1, wait=30)  # The worker has been mended.
            assert message.body == ORDER
            assert message.ack()
            done, dead = (page.locator(".stat", has_text=one) for one in ("Done", "Dead letters"))
            expect(done.locator(".stat-value")).to_have_text("1")
            expect(dead.locator(".stat-value")).to_have_text("0")
            expect(page.locator("h1 .badge.critical")).to_have_count(0)

    # And its story can be told.
    page.get_by_role("link", name="See what became of it").click()
    expect(page.locator(".timeline").first).to_contain_text("Moved")


def find_failing(page: Page, broker: PenstockServer) -> None:
    """The overview says which queue fails, and leads there."""
    visit(page, broker.http_url)
    row = page.locator("#queue-failing-queue")
    expect(row).to_contain_text("1 dead")
    expect(page.locator("#queues tbody tr").first).to_contain_text("failing")
    row.get_by_role("link", name="failing").click()
    page.wait_for_url("**/queues/failing")
    expect(page.locator(".stat.critical")).to_contain_text("Dead letters")


def read_letter(page: Page) -> None:
    """Why it died, what it is, which headers it has."""
    page.locator(".tabs").get_by_role("link", name="Dead letters").click()
    page.locator(".messages a").first.click()
    letter = page.locator("#chosen")
    expect(letter.locator(".death")).to_have_text(f"KeyError: {BAD}")
    expect(letter.locator(".payload")).to_have_text(
        json.dumps(ORDER, indent=2, ensure_ascii=False), use_inner_text=True
    )
    expect(letter.locator(".headers").first).to_contain_text(BAD)
    expect(letter).to_contain_text("Deliveries")
    letter.get_by_role("link", name="Hex").click()
    expect(letter.locator(".payload")).to_contain_text("00000000  7b 22 6f 72")


def redrive_letter(page: Page) -> None:
    """It goes back, after a question."""
    page.get_by_role("button", name="Redrive this one").click()
    dialog = page.get_by_role("dialog", name="Redrive this message?")
    expect(dialog).to_contain_text("It goes back to failing")
    dialog.get_by_role("button", name="Redrive").click()
    expect(page.locator(".notice").first).to_contain_text("not here any more")
    expect(page.locator("main")).to_contain_text("1 message moved back")


def test_a_redrive_is_narrowed_down_counted_and_watched(page: Page, broker: PenstockServer) -> None:
    make(broker, "many", dead_letter_topic="many-dead")
    send(broker, "many", *(f"slow {number}" for number in range(40)))
    work(broker, "many", "reject", reason="TimeoutError: too slow")
    send(broker, "many", *(f"wrong {number}" for number in range(7)))
    work(broker, "many", "reject", reason="ValueError: wrong")
    visit(page, f"{broker.http_url}/queues/many?tab=dead")
    reasons = page.locator(".reasons li")
    expect(reasons).to_have_count(2)
    expect(reasons.first).to_contain_text("TimeoutError: too slow 40")

    page.get_by_label("Reason").fill("ValueError")
    expect(page).to_have_url(re.compile("reason=ValueError"))
    expect(page.locator(".messages li")).to_have_count(7)
    page.get_by_role("button", name="Redrive those that match").click()
    dialog = page.get_by_role("dialog", name="Redrive 7 messages?")
    dialog.get_by_role("button", name="Cancel").click()
    assert work(broker, "many", "ack") == []

    page.get_by_role("button", name="Redrive those that match").click()
    dialog.get_by_role("button", name="Redrive 7").click()
    expect(page.locator(".messages li")).to_have_count(0)
    assert sorted(map(str, work(broker, "many", "ack"))) == [f"wrong {n}" for n in range(7)]

    # All the others, slowly, and stopped on the way.
    page.get_by_label("Reason").fill("")
    expect(page.locator(".tabs .count")).to_have_text("40")
    page.get_by_label("A second", exact=True).fill("2")
    page.get_by_role("button", name="Redrive all").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 40").click()
    expect(page.locator("[data-moving] progress")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("main")).to_contain_text("then it was cancelled")


def test_dead_messages_that_stayed_are_revived(page: Page, broker: PenstockServer) -> None:
    make(broker, "kept", dead_letter_policy="archive")
    send(broker, "kept", "one", "two")
    work(broker, "kept", "reject", reason="it could not be done")
    visit(page, f"{broker.http_url}/queues/kept?tab=dead")
    expect(page.locator(".messages li")).to_have_count(2)
    page.locator(".messages a").first.click()
    expect(page.locator("#chosen .death")).to_have_text("it could not be done")
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.locator(".messages li")).to_have_count(1)
    page.get_by_role("button", name="Redrive all").click()
    page.get_by_role("dialog").get_by_role("button", name="Redrive 1").click()
    expect(page.locator("main")).to_contain_text("No dead letters")
    assert work(broker, "kept", "ack") == ["two"]
