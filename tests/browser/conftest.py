"""One browser for all tests of a file, and a page for each.

Not one for all files: while Playwright is there, its loop is the one that runs on this thread, and
tests of other files, which this process may have as well, need theirs.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.browsing import open_browser, open_page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A page that must not complain. It is closed before the test's broker stops: an open page
    asks for itself at any time, and complains about the 503 of a broker that is stopping."""
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker")
    with open_page(browser) as page:
        yield page
