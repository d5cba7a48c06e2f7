"""Pictures of every page of the dashboard, light, dark and narrow, for somebody to look at:

    make screenshots
    .venv/bin/python -m tests.browser.screenshots [DIRECTORY]
    make screenshots ARGS=--docs     only those that pages show, into docs/images

A shop (see `shop.py`) is at work on three nodes on this machine; the pictures are taken after a
while, when its charts have a shape. They are written to `build/screenshots` unless told otherwise.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page

from penstock.testing import LocalCluster
from tests.browser.browsing import open_browser, open_page
from tests.browser.shop import Shop

FOLDER = Path("build/screenshots")
SHOWN_FOLDER = Path("docs/images")
SHOWN_BYTES_MAX = 150_000
AT_WORK_SECONDS = 60
MODES = (("light", False, 1280), ("dark", True, 1280), ("narrow", False, 400))
MAILS, DEAD, VIEWS = "confirmation-mails", "confirmation-mails-dead", "page-views"
PAGES = {
    "overview": "/",
    "queues": "/queues",
    "queue": f"/queues/{MAILS}",
    "queue-message": "/queues/stock-updates?tab=messages&message={waiting}",
    "queue-dead": f"/queues/{MAILS}?tab=dead",
    "queue-letter": f"/queues/{MAILS}?tab=dead&message={{letter}}",
    "queue-of-letters": f"/queues/{DEAD}",
    "queue-archive": "/queues/invoices?tab=dead",
    "queue-workers": "/queues/payments?tab=workers",
    "queue-send": f"/queues/{MAILS}?tab=send",
    "queue-settings": f"/queues/{MAILS}?tab=settings",
    "topics": "/topics",
    "topic": f"/topics/{VIEWS}",
    "topic-message": f"/topics/{VIEWS}?message=0:3",
    "topic-tail": f"/topics/{VIEWS}?tab=tail",
    "topic-partitions": f"/topics/{VIEWS}?tab=partitions",
    "topic-groups": f"/topics/{VIEWS}?tab=groups",
    "topic-configs": f"/topics/{VIEWS}?tab=configs",
    "groups": "/groups",
    "group": "/groups/visitor-statistics",
    "group-preview": "/groups/nightly-export?to=earliest",
    "trace": "/trace?message={died}",
    "cluster": "/cluster",
    "alerts": "/alerts",
    "pipelines": "/pipelines",
    "settings": "/settings",
    "audit": "/audit",
    "search": "/search?q=confirm",
    "unknown": "/queues/there-is-no-such-queue",
}
SHOWN = ("overview", "queue", "queue-letter", "group", "trace", "cluster", "alerts")
"""What README.md and docs/guides/dashboard.md show: the upper part of each, as a screen has it."""
DRAWN = "[...document.querySelectorAll('[data-chart]')].every(one => one.querySelector('canvas'))"


def take(browser: Browser, url: str, folder: Path) -> None:
    """A picture of each page in each mode."""
    places = choose(url)
    for mode, dark, width in MODES:
        for name, path in PAGES.items():
            with open_page(browser, dark=dark, width=width, may_complain=name == "unknown") as page:
                settle(page, url + path.format(**places))
                place = folder / f"{name}-{mode}.png"
                page.screenshot(path=place, full_page=True)
                print(place)


def take_for_pages(browser: Browser, url: str, folder: Path) -> None:
    """The upper part of some pages; a whole page would be a large file."""
    places = choose(url)
    for name in SHOWN:
        with open_page(browser, dark=False, width=1280) as page:
            settle(page, url + PAGES[name].format(**places))
            place = folder / f"{name}.png"
            size = len(page.screenshot(path=place))
            assert size < SHOWN_BYTES_MAX, f"{place} has {size} bytes"
            print(place)


def choose(url: str) -> dict[str, str]:
    """Messages worth a picture: a dead letter, where it died, and one that waits."""

    def first(queue: str) -> tuple[str, str]:
        with urllib.request.urlopen(
            f"{url}/queues/{queue}?format=json&tab=messages", timeout=30
        ) as answer:
            row = json.load(answer)["rows"][0]
        return row["place"], row["trace_start"]

    letter, died = first(DEAD)
    waiting, _ = first("stock-updates")
    return {"letter": letter, "died": died, "waiting": waiting}


def settle(page: Page, address: str) -> None:
    """Until the page is alive and its charts are drawn."""
    page.goto(address)
    page.wait_for_selector('[data-live="live"]', state="attached")
    page.wait_for_function(DRAWN)
    if page.locator("[data-tail-rows]").count():
        page.locator("[data-tail-rows] li").nth(9).wait_for()


def main() -> None:
    """See the top of this module."""
    for_pages = sys.argv[1:] == ["--docs"]
    folder = SHOWN_FOLDER if for_pages else Path(*sys.argv[1:] or [str(FOLDER)])
    folder.mkdir(parents=True, exist_ok=True)
    with open_browser() as browser, LocalCluster(3) as cluster, Shop(cluster):
        print(f"a shop is at work; pictures in {AT_WORK_SECONDS} seconds")
        time.sleep(AT_WORK_SECONDS)
        if for_pages:
            take_for_pages(browser, cluster.http_url, folder)
        else:
            take(browser, cluster.http_url, folder)


if __name__ == "__main__":
    main()
