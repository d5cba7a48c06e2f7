"""Commands that pages of the dashboard tell one to type exist."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.web.dashboard import renderer as rendering
from tests.house import reference

_SHOWN = re.compile(r"""["']penstock ([a-z]+)((?: [a-z]+)?)""")


def unknown_commands(texts: Iterable[str], names: set[str]) -> Iterator[str]:
    for text in texts:
        for first, second in _SHOWN.findall(text):
            is_group = any(name.startswith(f"penstock {first} ") for name in names)
            name = f"penstock {first}{second if is_group else ''}"
            if name not in names:
                yield name


def test_every_command_that_a_page_shows_exists() -> None:
    folder = Path(rendering.__file__).parent
    texts = [
        path.read_text("utf-8") for path in folder.rglob("*") if path.suffix in (".py", ".html")
    ]
    assert sum(len(_SHOWN.findall(text)) for text in texts) > 10
    assert list(unknown_commands(texts, {name for name, _ in reference.commands()})) == []


def test_one_that_does_not_is_found() -> None:
    names = {name for name, _ in reference.commands()}
    shown = ['command="penstock queue fly"', 'command="penstock top"', 'f"penstock walk {name}"']
    assert list(unknown_commands(shown, names)) == ["penstock queue fly", "penstock walk"]
