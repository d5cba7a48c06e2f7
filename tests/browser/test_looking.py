"""Looking around: queues, topics and their messages, groups; and what can be done from there."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, expect

from penstock.testing import PenstockServer
from tests.browser.browsing import visit
from tests.browser.queues import make
from tests.web_broker import ask

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BAD = "<b onclick=alert(1)>group</b>/one & two"


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    with PenstockServer(settings={"topics.partitions_default": 2}) as broker:
        for name in ("jobs", "other"):
            make(broker, name)
        produce(broker, "events", 120)
        commit(broker, BAD, "events", 10)
        yield broker


def produce(broker: PenstockServer, topic: str, count: int, text: str = "event") -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(count):
        body = f'{{"{text}":{number}}}'
        producer.produce(topic, body, key=f"key-{number}", partition=0, headers={"kind": "k"})
    assert producer.flush(30) == 0


def commit(broker: PenstockServer, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_messages_are_looked_for_and_read(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/topics")
    page.get_by_role("link", name="events", exact=True).click()
    rows = page.locator(".messages li")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text('{"event":119}')
    page.get_by_role("link", name="Older").click()
    expect(rows.first).to_contain_text('{"event":69}')
    page.get_by_label("Text").fill('"event":7}')
    expect(rows).to_have_count(1)
    rows.first.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"message=0%3A7"))
    chosen = page.locator("#chosen")
    expect(chosen.locator(".payload")).to_have_text('{\n  "event": 7\n}')
    expect(chosen).to_contain_text("key-7")
    chosen.get_by_role("link", name="Hex").click()
    expect(chosen.locator(".payload")).to_contain_text("00000000  7b 22 65 76")
    page.reload()
    expect(chosen.locator(".payload")).to_contain_text("00000000  7b 22 65 76")
    page.go_back()
    page.get_by_label("From").fill("nowhere")
    expect(page.locator(".notice")).to_contain_text("is not a place in a log")


def test_a_tail_shows_what_comes(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/topics/events?tab=tail")
    expect(page.locator("[data-tail-word]")).to_be_visible()
    page.get_by_label("Text").fill("img")
    expect(page).to_have_url(re.compile("text=img"))
    rows = page.locator("[data-tail-rows] li")
    for _ in range(30):  # The tail begins when it asks, not when it is clicked.
        produce(broker, "events", 1, text="plain")
        produce(broker, "events", 1, text="<img src=x onerror=alert(2)>")
        if rows.count():
            break
    expect(rows.first).to_contain_text("<img src=x onerror=alert(2)>")
    expect(page.locator("[data-tail-rows]")).not_to_contain_text("plain")
    assert page.locator("img[onerror]").count() == 0


def test_a_group_goes_on_elsewhere(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/groups")
    page.get_by_role("link", name=BAD).click()
    expect(page.locator("h1")).to_contain_text(BAD)
    page.get_by_label("To", exact=True).fill("earliest")
    expect(page.locator("#changes")).to_contain_text("−10")
    expect(page.locator("main")).to_contain_text("10 messages would be read again")
    page.get_by_role("button", name="Reset").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill(BAD)
    dialog.get_by_role("button", name="Reset").click()
    page.wait_for_url(re.compile(r"/groups/[^?]*$"))
    expect(page.locator("#partitions tbody tr").first.locator("td").nth(2)).to_have_text("0")
    assert ask(broker.places.http, "GET", f"/v1/groups/{quote(BAD, safe='')}")[0] == 200


def test_a_queue_is_sent_to_paused_set_and_purged(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/queues/jobs?tab=send")
    page.get_by_label("Body").fill('{"by": "hand"}')
    page.get_by_label("Headers").fill('{"note": "x"}')
    page.get_by_role("button", name="Send to jobs").click()
    ready = page.locator(".stat", has_text="Ready").locator(".stat-value")
    expect(ready).to_have_text("1")
    page.get_by_role("link", name="Messages", exact=True).click()
    expect(page.locator(".messages li")).to_contain_text('{"by": "hand"}')

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .badge", has_text="paused")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .badge", has_text="paused")).to_have_count(0)

    page.get_by_role("link", name="Settings", exact=True).last.click()
    row = page.locator("#setting-lease_ms")
    row.get_by_text("Change").click()
    row.get_by_label("lease_ms").fill("45s")
    row.get_by_role("button", name="Set").click()
    expect(row.locator("td").nth(1)).to_contain_text("45 s")
    row.get_by_text("Change").click()
    row.get_by_role("button", name="Default").click()
    expect(row.locator("td").nth(1)).not_to_contain_text("45 s")

    page.get_by_role("button", name="Purge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Purge")).to_be_disabled()
    dialog.get_by_role("textbox").fill("jobs")
    dialog.get_by_role("button", name="Purge").click()
    expect(ready).to_have_text("0")


def test_a_queue_is_made_and_deleted(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url + "/queues")
    page.get_by_text("Create a queue").click()
    page.get_by_label("Name", exact=True).fill("made")
    expect(page.get_by_label("Dead letters go to")).to_have_value("made-dlq")
    page.get_by_role("button", name="Create", exact=True).click()
    page.wait_for_url("**/queues/made?tab=send")
    settings = ask(broker.places.http, "GET", "/v1/queues/made")[1]["settings"]
    assert settings["dead_letter_topic"] == "made-dlq"
    assert (settings["deliveries_max"], settings["retry_policy"]) == (5, "jittered")
    assert (settings["retry_delay_ms"], settings["lease_ms"]) == (2_000, 30_000)

    page.get_by_label("Body").fill("later")
    page.get_by_label("Group", exact=True).fill("g")
    page.get_by_label("Deliver after").fill("5")
    page.get_by_role("button", name="Send to made").click()
    expect(page.locator("#toasts")).to_contain_text("Deliver after: write a number with its unit")
    page.get_by_label("Deliver after").fill("5m")
    page.get_by_role("button", name="Send to made").click()
    expect(page.locator(".stat", has_text="Delayed").locator(".stat-value")).to_have_text("1")
    page.get_by_role("link", name="Settings", exact=True).last.click()
    page.get_by_role("button", name="Delete this queue").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("made")
    page.get_by_role("dialog").get_by_role("button", name="Delete this queue").click()
    page.wait_for_url("**/queues")
    assert ask(broker.places.http, "GET", "/v1/queues/made")[0] == 404
