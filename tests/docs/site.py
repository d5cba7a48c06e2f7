"""The pages as a site: what `make docs` does beside what mkdocs does by itself.

    python -m tests.docs.site [DIRECTORY]

Every page also reads well in the repository, so that nothing in it is written for the site:

- README.md is the first page; three more pages from the repository's root become pages as well.
- A link to a page leads to that page of the site. One to anything else (a source, a test) is text.
- The orders to the tests, which are comments, are left out.
- `reference/*` in a menu is every page of that folder that no menu names: a new page has a place.

The site of a version is in a directory of its own, `build/site/VERSION`, beside a list of all that
were built there, which the selector in the header reads. Every warning of mkdocs fails the build: a
link that leads nowhere, a section that is not there, a page that is in no menu.
"""

import json
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from penstock.core.version import __version__

ROOT = Path(__file__).parents[2]
SITES = ROOT / "build" / "site"
OF_THE_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Pages outside of docs/, and where they are on the site."""
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_ORDERS = re.compile(r"^ *<!-- test:.*?-->\n", re.MULTILINE | re.DOTALL)
_FORWARD = (
    '<!doctype html><meta charset="utf-8"><title>Penstock</title>'
    '<meta http-equiv="refresh" content="0; url={version}/index.html">'
    '<a href="{version}/index.html">Penstock {version}</a>\n'
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages that no menu names where their folder has its `*`."""
    places = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert config.not_in_nav is not None, "mkdocs.yml names what is in no menu"
    left_out = {page for page in places if config.not_in_nav.match_file(page)}
    config.nav = expanded(config.nav, places - left_out - set(pages_of(config.nav)))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root."""
    for source, place in OF_THE_ROOT.items():
        text = (ROOT / source).read_text("utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page of the repository as a page of the site."""
    known = {file.src_uri for file in files}
    return for_site(markdown, page.file.src_uri, known)


def for_site(markdown: str, place: str, known: set[str]) -> str:
    """The text of the page at `place`, of a site that has the files `known`."""
    markdown = _ORDERS.sub("", markdown)
    pieces = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        pieces += [_relinked(markdown[end : fence.start()], place, known), fence[0]]
        end = fence.end()
    return "".join([*pieces, _relinked(markdown[end:], place, known)])


def _relinked(text: str, place: str, known: set[str]) -> str:
    origin = next((one for one, site in OF_THE_ROOT.items() if site == place), f"docs/{place}")

    def relink(link: re.Match[str]) -> str:
        path, mark, section = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        found = OF_THE_ROOT.get(there, there.removeprefix("docs/"))
        if found not in known and (ROOT / there).exists():
            return f"{link['picture']}{link['text']}"
        target = posixpath.relpath(found, posixpath.dirname(place) or ".")
        return f"{link['picture']}[{link['text']}]({target}{mark}{section})"

    return _LINK.sub(relink, text)


def configuration() -> MkDocsConfig:
    """What mkdocs.yml says."""
    return load_config(str(ROOT / "mkdocs.yml"), strict=True)


def expanded(nav: object, unnamed: set[str]) -> list[object]:
    """A menu in which `folder/*` is replaced by the pages of `unnamed` in that folder."""
    assert isinstance(nav, list), f"no menu: {nav!r}"
    pages: list[object] = []
    for entry in nav:
        if isinstance(entry, dict):
            pages += [
                {title: expanded(part, unnamed) if isinstance(part, list) else part}
                for title, part in entry.items()
            ]
        elif entry.endswith("/*"):
            pages += sorted(one for one in unnamed if posixpath.dirname(one) == entry[:-2])
        else:
            pages.append(entry)
    return pages


def pages_of(nav: object) -> list[str]:
    """Every page that a menu of mkdocs.yml names."""
    if isinstance(nav, str):
        return [nav]
    parts = list(nav.values()) if isinstance(nav, dict) else nav
    assert isinstance(parts, list), f"no menu: {nav!r}"
    return [page for part in parts for page in pages_of(part)]


def build(site: Path, config: Path = ROOT / "mkdocs.yml") -> None:
    """Run mkdocs. Exits with its warnings, if there are any."""
    # Not `--quiet`: what is not shown is not counted either.
    command = ["build", "--strict", f"--config-file={config}", f"--site-dir={site}"]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *command],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.splitlines()
        sys.exit("\n".join(line for line in lines if not line.startswith("INFO")))


def main(directory: Path = SITES) -> None:
    """Build the site of this version; a warning is an exit with an error."""
    build(directory / __version__)
    built = sorted(os.path.basename(path.parent) for path in directory.glob("*/index.html"))
    versions = [
        {"version": one, "title": one, "aliases": ["latest"] if one == __version__ else []}
        for one in reversed(built)
    ]
    (directory / "versions.json").write_text(json.dumps(versions), "utf-8")
    (directory / "index.html").write_text(_FORWARD.format(version=__version__), "utf-8")
    print(f"{directory}/index.html: {len(list(directory.rglob('*.html')))} pages")


if __name__ == "__main__":
    main(*(Path(one).absolute() for one in sys.argv[1:]))
