"""What the pages say is true, and what exists is on a page.

Links lead somewhere; generated pages are up to date; every make target is documented, and every
target and command that a page mentions exists; the architecture page names every folder, and the
page of dependencies gives a reason for each.
"""

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.house import reference
from tests.house.sources import ROOT, Source, read_sources

PAGES = [source for source in read_sources() if source.is_markdown]
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
DECISION_PARTS = ["Context", "Decision", "Consequences"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_links_lead_somewhere(page: Source) -> None:
    assert list(broken_links(page, ROOT)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_what_a_page_tells_one_to_type_exists(page: Source) -> None:
    names = {name for name, _ in reference.commands()}
    assert list(unknown_commands(page, TARGETS, names)) == []


def test_every_target_is_documented() -> None:
    text = "\n".join(page.text for page in PAGES)
    missing = [target for target in sorted(TARGETS - {"help"}) if f"`make {target}`" not in text]
    assert missing == []
    assert {"setup", "run", "test", "lint", "sim", "bench", "soak"} <= TARGETS


@pytest.mark.parametrize("path", reference.PAGES, ids=str)
def test_reference_pages_are_up_to_date(path: Path, rewrite: bool) -> None:
    wanted = reference.PAGES[path]()
    page = ROOT / path
    if rewrite:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(wanted, "utf-8")
    assert page.exists(), f"{path} is missing: pytest tests/house --rewrite"
    assert page.read_text("utf-8") == wanted, f"{path} is old: pytest tests/house --rewrite"


def test_every_command_has_a_help_text() -> None:
    assert [name for name, command in reference.commands() if not command.help.strip()] == []


def test_the_architecture_names_every_folder() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text("utf-8")
    package = ROOT / "src/penstock"
    folders = [path.parent.name for path in package.glob("*/__init__.py")]
    rooms = [f"engine/{path.parent.name}" for path in package.glob("engine/*/__init__.py")]
    missing = [name for name in sorted(folders + rooms) if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def test_every_dependency_has_a_reason() -> None:
    text = (ROOT / "docs/internals/dependencies.md").read_text("utf-8")
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", one)[0] for one in wanted} - {project["name"]}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_decisions_are_in_order() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text("utf-8")
    pages = [source for source in PAGES if re.match(r"docs/decisions/\d", source.path)]
    assert len(pages) > 50
    assert list(bad_decisions(pages, index)) == []


def test_the_changelog_has_a_place_for_what_comes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall("^## (.*)", text, re.MULTILINE)
    assert re.fullmatch(r"\d+\.\d+\.\d+ \(unreleased\)", releases[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", release) for release in releases[1:])


# The checkers.


def broken_links(page: Source, root: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.text)):
        if re.match(r"https?://|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (root / page.path).parent / path if path else root / page.path
        if not file.exists():
            yield f"{page.path}: {target} leads nowhere"
        elif anchor and anchor not in anchors(file.read_text("utf-8")):
            yield f"{page.path}: {target}: no such section"


def bad_decisions(pages: list[Source], index: str) -> Iterator[str]:
    """Decisions have numbers of their own, one shape, and a line in the index."""
    seen = set()
    for page in pages:
        name = page.path.rsplit("/", 1)[-1]
        number = name[:4]
        if number in seen:
            yield f"{name}: the number is taken"
        seen.add(number)
        headings = re.findall("^## (.*)", page.text, re.MULTILINE)
        if not page.text.startswith(f"# {number}: ") or headings != DECISION_PARTS:
            yield f"{name}: not a number, a title, {', '.join(DECISION_PARTS)}"
        if not re.search(rf"^- .*\b{number}\b", index, re.MULTILINE):
            yield f"{name}: not in the index"


def anchors(text: str) -> set[str]:
    """The sections of a page, spelled as in links."""
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def code(text: str) -> Iterator[str]:
    """Everything set as code: lines of blocks, and pieces between backticks."""
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", without_code(text))


def unknown_commands(page: Source, targets: set[str], names: set[str]) -> Iterator[str]:
    for piece in code(page.text):
        if found := re.match(r"(?:\$ )?make ([a-z]+(?:-[a-z]+)*)\b", piece):
            if found.group(1) not in targets:
                yield f"{page.path}: make {found.group(1)}"
        word = r" [a-z]+(?:-[a-z]+)*"
        if found := re.match(rf"(?:\$ )?(?:\.venv/bin/)?penstock((?:{word})+)\b", piece):
            words = found.group(1).split()
            group = f"penstock {words[0]}"
            is_group = any(name.startswith(group + " ") for name in names)
            name = " ".join(["penstock", *words[: 2 if is_group else 1]])
            if name not in names:
                yield f"{page.path}: {name}"


# The checkers can fail.


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# Title\n\n## A section, or two\n")
    text = (
        "# Page\n\n[a](there.md) [b](there.md#a-section-or-two) [c](#page) [d](https://example.org)\n"
        "```\n[not a link](nowhere)\n```\n"
    )
    (tmp_path / "page.md").write_text(text)
    assert list(broken_links(Source("page.md", text), tmp_path)) == []
    for bad in ("[x](nowhere.md)", "[x](there.md#other)", "[x](#nothing)"):
        assert len(list(broken_links(Source("page.md", text + bad), tmp_path))) == 1


def test_an_unknown_command_is_found() -> None:
    text = "# Page\n\n`make test` `penstock version` `penstock log verify DIRECTORY`\n"
    names = {"penstock version", "penstock log", "penstock log verify"}

    def unknown(text: str) -> list[str]:
        return list(unknown_commands(Source("page.md", text), {"test"}, names))

    assert unknown(text) == []
    assert unknown(text + "`make coffee`") == ["page.md: make coffee"]
    assert unknown(text + "`make test-coffee`") == ["page.md: make test-coffee"]
    assert unknown(text + "```\npenstock fly\n```\n") == ["page.md: penstock fly"]
    assert unknown(text + "`.venv/bin/penstock log fly`") == ["page.md: penstock log fly"]


def test_a_bad_decision_is_found() -> None:
    good = "# 0001: Title\n\n## Context\n\n## Decision\n\n## Consequences\n"
    index = "- [0001](0001-title.md): Title\n"

    def bad(*pages: tuple[str, str]) -> list[str]:
        sources = [Source(f"docs/decisions/{name}", text) for name, text in pages]
        return [complaint.split(":")[0] for complaint in bad_decisions(sources, index)]

    assert bad(("0001-title.md", good)) == []
    assert bad(("0001-title.md", good), ("0001-again.md", good)) == ["0001-again.md"]
    assert bad(("0001-title.md", good.replace("0001", "0002"))) == ["0001-title.md"]
    assert bad(("0001-title.md", good.replace("Context", "Story"))) == ["0001-title.md"]
    assert bad(("0002-new.md", good.replace("0001", "0002"))) == ["0002-new.md"]
