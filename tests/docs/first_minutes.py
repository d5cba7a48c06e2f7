"""A new user's first ten minutes, done by a program, with nothing prepared for it.

    make first-minutes
    python -m tests.docs.first_minutes [DIRECTORY]

A fresh clone; `make run`, which installs; every block of the README and of the start page in order,
among them a cluster of three nodes; and what the start page says about a message that fails is done
by hand in a browser: the dead letter is found from the first page of the dashboard, read and sent
back. No variable names a broker, no package is there that `make run` has not installed, and the
home directory is empty. The usual ports, 9092, 8080 and 9192 to 9214, must be free.

It prints how long each step took. It needs what a new user needs: git, make, Python 3.11 or later,
packages from pip's index; and Chromium, with the Playwright of this environment to steer it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.browsing import missing, open_browser, open_page
from tests.cluster.waiting import wait_until
from tests.docs.alone import taken
from tests.docs.blocks import Block
from tests.docs.pages import ALONE, read_page
from tests.docs.run import show
from tests.docs.stage import USUAL_HTTP, Failed, Stage
from tests.house.sources import ROOT

SECONDS_MAX = 600.0
FAILING = '"order": 103'
"""In the block that sends the message which fails."""
DEATHS = "KeyError: 'cents'"


def main(directory: Path) -> int:
    """Returns 0 if all of it went well."""
    if busy := taken():
        print(f"something listens on {', '.join(busy)} already", file=sys.stderr)
        return 1
    if lacking := missing():
        print(f"the dashboard cannot be tried: {lacking}", file=sys.stderr)
        return 1
    started = time.monotonic()
    clone = directory / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    _report(started, "a fresh clone")
    try:
        with Stage(directory, clone=clone) as stage:
            for block in (block for page in ALONE for block in read_page(page)):
                _play(stage, block, started)
    except (Failed, AssertionError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - started
    print(f"---- all of it took {seconds:.0f} s")
    return 0 if seconds < SECONDS_MAX else 1


def _play(stage: Stage, block: Block, started: float) -> None:
    if not block.runs:
        return
    shown = stage.play(block)
    show(shown)
    _report(started, block.place)
    if FAILING in block.text:
        _find_and_redrive(stage)
        _report(started, "the dead letter was found and sent back")
    if "penstock cluster status" in block.text and not re.search("3 of 3 nodes", shown.output):
        raise Failed(f"{block.place}: not those three nodes\n{shown.output}")


def _find_and_redrive(stage: Stage) -> None:
    """What a person does who opens the dashboard and sees that something is wrong."""
    with open_browser() as browser, open_page(browser) as page:
        page.goto(f"http://{USUAL_HTTP}")
        row = page.locator("#queue-orders-queue")
        expect(row).to_contain_text("1 dead", timeout=120_000)
        before = stage.printed_behind().count(DEATHS)
        row.get_by_role("link", name="orders", exact=True).click()
        page.locator(".tabs").get_by_role("link", name="Dead letters").click()
        page.locator(".messages a").first.click()
        expect(page.locator("#chosen")).to_contain_text("too many deliveries: KeyError")
        page.get_by_role("button", name="Redrive this one").click()
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        expect(page.locator("main")).to_contain_text("1 message moved back")
        wait_until(
            lambda: stage.printed_behind().count(DEATHS) > before,
            "the worker does not get the message that was sent back",
            seconds=120,
        )


def _report(started: float, what: str) -> None:
    print(f"---- {time.monotonic() - started:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    if sys.argv[1:]:
        sys.exit(main(Path(sys.argv[1]).absolute()))
    with tempfile.TemporaryDirectory(prefix="penstock-first-") as name:
        sys.exit(main(Path(name)))
