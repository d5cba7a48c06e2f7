"""Every code block of every page runs, in order, against a real broker.

What does not run says why, on the page; those reasons are listed in `unrun.txt`, so that a new one
is seen when the change is read. `.venv/bin/pytest tests/docs --rewrite` renews the list.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs import alone
from tests.docs.blocks import BadPage, Use
from tests.docs.pages import (
    ALONE,
    PAGES,
    commands_for_the_eye,
    indented_commands,
    read_page,
    run_page,
    unrun_blocks,
)
from tests.house.reference import PAGES as GENERATED
from tests.house.sources import ROOT, read_sources

_SPARK = re.compile(r"spark|penstock (pipeline|job) ")
UNRUN = Path(__file__).with_name("unrun.txt")
HEAD = "# Blocks that do not run in every `make test`: page, first line, reason.\n"


def _runs(page: str) -> bool:
    try:
        return any(block.runs for block in read_page(page))
    except BadPage:
        return True  # The test itself tells what is wrong.


def _marks(page: str) -> list[pytest.MarkDecorator]:
    """A page that starts a JVM takes long: `make spark` runs it."""
    try:
        needs_spark = any(block.runs and _SPARK.search(block.text) for block in read_page(page))
    except BadPage:
        return []
    if not needs_spark:
        return []
    return [pytest.mark.spark, pytest.mark.long]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=_marks(page)) for page in PAGES if page not in ALONE and _runs(page)],
)
def test_every_block_of_a_page_runs(page: str, tmp_path: Path) -> None:
    if left_out := run_page(read_page(page), tmp_path):
        pytest.skip("all blocks ran but these: " + "; ".join(left_out))


@pytest.mark.slow
def test_the_first_pages_run_in_order_and_at_the_addresses_they_name() -> None:
    done = subprocess.run(alone.command(), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == alone.TAKEN:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_no_command_is_hidden_from_the_runner(page: str) -> None:
    assert list(commands_for_the_eye(read_page(page))) == []
    assert list(indented_commands(page, (ROOT / page).read_text("utf-8"))) == []


def test_blocks_that_do_not_run_are_listed_with_a_reason(rewrite: bool) -> None:
    lines = [line for page in PAGES for line in unrun_blocks(read_page(page))]
    wanted = HEAD + "".join(f"{line}\n" for line in lines)
    if rewrite:
        UNRUN.write_text(wanted, "utf-8")
    assert UNRUN.read_text("utf-8") == wanted, "read it, then: pytest tests/docs --rewrite"


def test_most_blocks_run() -> None:
    """Counts for whoever asks (`-s` shows them); a page that is all pictures explains nothing."""
    blocks = [block for page in PAGES for block in read_page(page) if not block.hidden]
    run = sum(block.runs for block in blocks)
    compared = sum("output" in block.orders for block in blocks)
    parsed = sum(block.use is Use.PARSED for block in blocks)
    skipped = sum("skip" in block.orders for block in blocks)
    pictures = len(blocks) - run - compared - parsed - skipped
    told = (
        f"{len(blocks)} blocks on {len(PAGES)} pages: {run} run, {compared} outputs compared,"
        f" {parsed} parsed, {skipped} skipped with a reason, {pictures} pictures and formats"
    )
    print(told)
    assert run > 4 * skipped, told


def test_generated_pages_are_not_written_by_hand() -> None:
    for page in ROOT.glob("docs/reference/*.md"):
        assert page.relative_to(ROOT) in GENERATED, f"{page.name}: nobody compares or runs it"


def test_no_installation_is_named_that_does_not_exist() -> None:
    """There is no package in an index and no published image: a clone, or a wheel built in one."""
    wrong = re.compile(
        r"pipx?[ ]install [\"']?penstock(?!-)|(uvx|docker run|docker pull)[ ]penstock"
    )
    found = [source.path for source in read_sources() if wrong.search(source.text)]
    assert found == []


def test_the_index_for_language_models_names_every_page() -> None:
    text = (ROOT / "llms.txt").read_text("utf-8")
    named = set(re.findall(r"\]\(([^)]+)\)", text))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    pages = {page for page in PAGES if page.startswith("docs/")}
    pages |= {path.as_posix() for path in GENERATED if path.parts[0] == "docs"}
    pages -= {page for page in pages if re.match(r"docs/decisions/\d", page)}  # They have an index.
    assert pages - named - {"docs/STYLE.md"} == set()
