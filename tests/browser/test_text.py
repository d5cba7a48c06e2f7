"""What others have written stays text: no page runs it, none asks anybody else for it."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, Page, expect

from penstock import blocking
from penstock.client.settings import ClientSettings
from penstock.testing import PenstockServer
from tests.browser.browsing import open_page, visit
from tests.web_broker import ask

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BAD = (
    """<script>alert(1)</script><img src="http://elsewhere.example/x" onerror="alert(2)">"""
    """'"><svg onload=alert(3)><a href="javascript:alert(4)">{{ 7 * 7 }}</a><!-- & """
)
WORDS = "<b onclick=alert(5)>group</b>/one & two"
QUEUE = "-_.script.alert-1-" + "x" * 200
"""As bad as a name can be: no other characters are allowed, and not many more of them."""
PATHS = (
    "/", "/queues", f"/queues/{QUEUE}", f"/queues/{QUEUE}?tab=dead", f"/queues/{QUEUE}?tab=workers",
    f"/queues/{QUEUE}?tab=dead&message=0:0", f"/queues/{QUEUE}?tab=send",
    f"/queues/{QUEUE}?tab=settings", "/queues/left?tab=messages&message=0:0",
    "/queues/left?tab=messages&message=0:0&view=text", "/topics", "/topics/left",
    "/topics/left?message=0:0", "/topics/left?message=0:0&view=hex", "/topics/left?tab=partitions",
    "/topics/left?tab=groups", "/topics/left?tab=configs", "/topics/left?tab=tail", "/groups",
    f"/groups/{quote(WORDS, safe='')}", f"/trace?message={QUEUE}:0:0", "/cluster", "/alerts",
    "/pipelines", "/settings", "/audit",
)  # fmt: skip
WRITTEN = (
    "/queues?q={}", "/topics?q={}", "/groups?q={}", "/settings?q={}", "/search?q={}",
    "/trace?message={}", "/cluster?kind={}", "/queues/left?tab=dead&reason={}",
    "/topics/left?text={}", "/topics/left?from={}", "/audit?q={}", "/alerts?state={}",
)  # fmt: skip
FOREIGN = (
    "script:not([src]), img:not([src^='/assets/']), svg:not(.spark), [onerror], [onload],"
    " [onclick], [href^='javascript:']"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    """A dead letter, a message, a group and a worker, all of them with bad intentions."""
    with PenstockServer() as broker:
        settings = {"dead_letter_topic": "letters", "deliveries_max": 3}
        body = {"name": QUEUE, "settings": settings}
        assert ask(broker.places.http, "POST", "/v1/queues", body)[0] == 201
        with blocking.connect(broker.url, settings=ClientSettings(client_id=BAD)) as client:
            queue = client.queue(QUEUE)
            queue.send({"note": BAD}, key=BAD, headers={"source": BAD})
            for message in queue.receive(1, wait=30):
                assert message.reject(BAD)
            client.queue("left").send(BAD, key=BAD, headers={"source": BAD})
            client.queue("left").peek()
            produce(broker)
            yield broker


def produce(broker: PenstockServer) -> None:
    """The same by Kafka."""
    producer = Producer({"bootstrap.servers": broker.kafka, "client.id": BAD})
    producer.produce("left", BAD, key=BAD, headers={BAD: BAD.encode()})
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": broker.kafka, "group.id": WORDS, "client.id": BAD}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("left", 0, 1)], asynchronous=False)
    consumer.close()


def test_it_is_text_on_every_page(page: Page, broker: PenstockServer) -> None:
    for path in PATHS:
        visit(page, broker.http_url + path)
        assert page.locator(FOREIGN).count() == 0, path


def test_it_can_be_read(page: Page, broker: PenstockServer) -> None:
    visit(page, f"{broker.http_url}/queues/{QUEUE}?tab=dead&message=0:0")
    letter = page.locator("#chosen")
    expect(letter.locator(".death")).to_have_text(BAD)
    expect(letter.locator(".headers").first).to_contain_text(BAD)
    expect(letter.locator(".facts").first).to_contain_text(BAD)
    visit(page, f"{broker.http_url}/queues/left?tab=messages&message=0:0&view=text")
    expect(page.locator("#chosen .payload")).to_contain_text("<script>alert(1)</script><img src=")
    visit(page, f"{broker.http_url}/groups")
    expect(page.locator("main")).to_contain_text(WORDS)


def test_it_is_text_in_the_address(browser: Browser, broker: PenstockServer) -> None:
    with open_page(browser) as page:
        for path in WRITTEN:
            visit(page, broker.http_url + path.format(quote(BAD, safe="")))
            assert page.locator(FOREIGN).count() == 0, path


def test_it_is_text_while_one_searches(page: Page, broker: PenstockServer) -> None:
    visit(page, broker.http_url)
    page.keyboard.press("/")
    page.keyboard.type("group</b>")
    expect(page.locator("#search-results")).to_contain_text(WORDS)
    assert page.locator(FOREIGN).count() == 0


def test_a_narrow_window_does_not_scroll_sideways(browser: Browser, broker: PenstockServer) -> None:
    with open_page(browser, width=400) as page:
        for path in PATHS:
            page.goto(broker.http_url + path)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 400, path
