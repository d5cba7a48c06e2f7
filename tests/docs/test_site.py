"""The site of the pages: every page is in a menu, links keep leading to what they named.

`make docs` builds it and fails at the first warning; CI does so at every push.
"""

import json
import re
from pathlib import Path

import pytest

from penstock.core.version import __version__
from tests.docs.pages import PAGES
from tests.docs.site import (
    OF_THE_ROOT,
    build,
    configuration,
    expanded,
    for_site,
    main,
    on_config,
    pages_of,
)
from tests.house.reference import PAGES as GENERATED

KNOWN = {"index.md", "start.md", "guides/spark.md", "images/overview.png"}


def test_every_page_is_in_a_menu() -> None:
    config = on_config(configuration())
    named = pages_of(config.nav)
    assert sorted(named) == sorted(set(named)), "a page is in two menus"
    written = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    written |= {
        path.relative_to("docs").as_posix()
        for path in GENERATED
        if path.parts[0] == "docs" and path.suffix == ".md"
    }
    assert config.not_in_nav is not None
    left_out = {page for page in written if config.not_in_nav.match_file(page)}
    assert set(named) == (written - left_out) | set(OF_THE_ROOT.values())


def test_a_star_is_the_pages_of_a_folder_that_no_menu_names() -> None:
    nav = ["index.md", {"Guides": ["guides/b.md", "guides/*"]}, {"Start": "start.md"}]
    unnamed = {"guides/c.md", "guides/a.md", "runbooks/d.md"}
    guides = ["guides/b.md", "guides/a.md", "guides/c.md"]
    assert expanded(nav, unnamed) == ["index.md", {"Guides": guides}, {"Start": "start.md"}]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    main(tmp_path)
    site = tmp_path / __version__
    asked = re.compile(
        r'<(?:script|img)[^>]* src="https?:|<link[^>]* rel="stylesheet" href="https?:'
    )
    pages = list(site.rglob("*.html"))
    assert [page.name for page in pages if asked.search(page.read_text("utf-8"))] == []
    found = json.loads((site / "search/search_index.json").read_text("utf-8"))["docs"]
    assert any(one["location"].startswith("guides/dashboard.html") for one in found)
    assert f"{__version__}/index.html" in (tmp_path / "index.html").read_text("utf-8")


@pytest.mark.slow
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# Page\n\n![a picture](nowhere.png)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text("site_name: x\ntheme: {name: material, font: false}\n")
    with pytest.raises(SystemExit, match=r"nowhere\.png"):
        build(tmp_path / "site", config)


@pytest.mark.parametrize(
    ("place", "link", "wanted"),
    [
        ("index.md", "[a](docs/start.md)", "[a](start.md)"),
        ("index.md", "![a](docs/images/overview.png)", "![a](images/overview.png)"),
        ("start.md", "[a](../README.md#run-it)", "[a](index.md#run-it)"),
        ("guides/spark.md", "[a](../start.md#look)", "[a](../start.md#look)"),
        ("guides/spark.md", "[a](#stream)", "[a](#stream)"),
        ("guides/spark.md", "[a](https://example.org)", "[a](https://example.org)"),
        ("index.md", "see [the licence](LICENSE).", "see the licence."),
        ("start.md", "[a](nowhere.md)", "[a](nowhere.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site(place: str, link: str, wanted: str) -> None:
    assert for_site(link, place, KNOWN) == wanted


def test_code_stays_as_it_is_and_orders_to_the_tests_are_left_out() -> None:
    code = "```python\nrow[key](docs/start.md)\n```\n"
    page = f"<!-- test: file=a.py -->\n{code}<!-- test: sh\nx\n-->\nend"
    assert for_site(page, "index.md", KNOWN) == f"{code}end"
