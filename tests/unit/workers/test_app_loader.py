"""From a command line's target to an application, or to one sentence that says why not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.errors import LocalError
from penstock.workers.app_loader import load_app
from penstock.workers.default import default_app

IMPORT = "import penstock.workers as workers\n"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    known, path, tasks = set(sys.modules), list(sys.path), list(default_app.tasks)
    yield tmp_path
    sys.path[:] = path
    default_app.tasks[:] = tasks
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_by_name(project: Path) -> None:
    (project / "one.py").write_text(IMPORT + "app = workers.App('memory:one')\n")
    assert load_app("one:app", directory=project).url == "memory:one"
    assert load_app("one", directory=project).url == "memory:one"
    assert load_app("one.py:app".replace(".py", ""), directory=project).url == "memory:one"


def test_inside_of_a_package(project: Path) -> None:
    package = project / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "orders.py").write_text(IMPORT + "class Place:\n    app = workers.App('memory:p')\n")
    assert load_app("shop.orders:Place.app", directory=project).url == "memory:p"


def test_the_default_application(project: Path) -> None:
    (project / "plain.py").write_text(
        IMPORT + "@workers.worker('letters')\ndef letter(text: str) -> None: ...\n"
    )
    assert load_app("plain", directory=project) is default_app
    assert default_app.tasks[-1].queue == "letters"


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("", "missing", "there is no module missing in"),
        ("", "broken.missing:app", "there is no module broken.missing"),
        ("import nowhere_to_be_found\n", "broken", "ModuleNotFoundError: No module named 'nowhere"),
        ("x = 1\n1 / 0\n", "broken", "ZeroDivisionError: division by zero ("),
        ("app = 1\n", "broken:app", "app of module broken is a int, not a penstock.App"),
        ("", "broken:app", "module broken has no app; write `app = penstock.App()` there"),
        ("", "broken", "has no penstock.App, and declares no worker"),
        (
            IMPORT + "one = workers.App()\nother = workers.App()\n",
            "broken",
            "has several applications; name one: broken:one, broken:other",
        ),
        ("", ":app", "must be MODULE or MODULE:APP"),
        ("", "broken:", "must be MODULE or MODULE:APP"),
    ],
)
def test_what_is_no_application(project: Path, source: str, target: str, problem: str) -> None:
    default_app.tasks.clear()
    (project / "broken.py").write_text(source)
    with pytest.raises(LocalError) as caught:
        load_app(target, directory=project)
    assert problem in str(caught.value)
