"""A real browser for tests: Chromium of the system, without a window, driven by Playwright.

Which one: what CHROMIUM names, or the first on PATH, or the one that Playwright brought. Where
there is none the tests are skipped, and say what to install.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
ABSENT = (
    "there is no browser here: install chromium (apt-get install chromium), or let Playwright bring"
    " one (.venv/bin/playwright install chromium), or name one in CHROMIUM"
)
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)
WIDE = {"width": 1280, "height": 800}
OURS = ("127.0.0.1", "localhost")


def find_chromium(playwright: Playwright) -> str | None:
    """Where it is."""
    if named := os.environ.get("CHROMIUM"):
        return shutil.which(named)
    brought = playwright.chromium.executable_path
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    return on_path or (brought if Path(brought).exists() else None)


def missing() -> str:
    """What to install if there is no browser; empty if there is one."""
    with sync_playwright() as playwright:
        return "" if find_chromium(playwright) else ABSENT


@contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser; the test is skipped if there is none."""
    with sync_playwright() as playwright:
        place = find_chromium(playwright)
        if place is None:
            pytest.skip(ABSENT)
        browser = playwright.chromium.launch(executable_path=place, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """What a page should not have done: an error in a script, something that its policy forbids, a
    question of the browser's own, a request to elsewhere."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("pageerror", self._error)
        page.on("console", self._line)
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _error(self, error: Error) -> None:
        self.found.append(str(error))

    def _line(self, message: ConsoleMessage) -> None:
        # A broker that was killed is no fault of the page.
        if message.type == "error" and "net::ERR" not in message.text:
            self.found.append(f"{message.text} ({message.location.get('url')})")

    def _dialog(self, dialog: Dialog) -> None:
        self.found.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        where = urlsplit(request.url)
        if where.scheme in ("http", "https", "ws", "wss") and where.hostname not in OURS:
            self.found.append(f"asked {request.url}")


@contextmanager
def open_page(
    browser: Browser,
    *,
    dark: bool = False,
    width: int = WIDE["width"],
    may_complain: bool = False,
) -> Iterator[Page]:
    """A page that must not complain."""
    context = browser.new_context(
        viewport={"width": width, "height": WIDE["height"]},
        color_scheme="dark" if dark else "light",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints = Complaints(page)
    try:
        yield page
    finally:
        context.close()
    assert may_complain or complaints.found == []


def visit(page: Page, address: str) -> None:
    """Open an address, and wait until the page hears from the broker."""
    page.goto(address)
    expect(page.locator("[data-live]")).to_have_attribute("data-live", "live")


@contextmanager
def without_reload(page: Page) -> Iterator[None]:
    """The document that is open now is still open in the end."""
    page.evaluate("window.sameDocument = true")
    yield
    assert page.evaluate("window.sameDocument") is True, "the page was loaded anew"
