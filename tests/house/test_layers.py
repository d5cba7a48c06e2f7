"""Arrows point down: the contracts of pyproject.toml hold, and each of them can be broken.

The contracts are checked by import-linter. To see that they bite, a package of the same shape with
one forbidden import in it is made, and the same contracts are run over it.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.sources import ROOT

PYPROJECT = ROOT / "pyproject.toml"
CONTRACTS = tomllib.loads(PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = CONTRACTS[0]["layers"]
ROOMS = CONTRACTS[1]["layers"]


def lint(directory: Path, package_parent: Path) -> tuple[int, str]:
    """Run the contracts in `directory` over the package found in `package_parent`."""
    outcome = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(package_parent), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.returncode, outcome.stdout + outcome.stderr


def make_folders(parent: Path, layers: list[str]) -> None:
    for line in layers:
        for layer in line.split("|"):
            if not layer.strip().startswith("("):
                folder = parent / layer.strip()
                folder.mkdir()
                (folder / "__init__.py").touch()
                (folder / "thing.py").touch()


def make_package(directory: Path) -> Path:
    """A package with every present layer, one module in each, that breaks nothing."""
    contracts = PYPROJECT.read_text("utf-8").partition("[tool.importlinter]")
    (directory / "pyproject.toml").write_text(contracts[1] + contracts[2])
    package = directory / "penstock"
    package.mkdir()
    (package / "__init__.py").touch()
    make_folders(package, LAYERS)
    make_folders(package / "engine", ROOMS)
    (package / "engine" / "thing.py").unlink()
    (package / "core" / "clock.py").write_text("import time\n")
    (package / "core" / "decoders.py").write_text("import threading\n")
    (package / "storage" / "memory_disk.py").write_text("import threading\n")
    return package


def test_the_layers_hold() -> None:
    code, output = lint(ROOT, ROOT / "src")
    assert code == 0, output


@pytest.mark.slow
def test_a_package_of_this_shape_passes(tmp_path: Path) -> None:
    make_package(tmp_path)
    code, output = lint(tmp_path, tmp_path)
    assert code == 0, output


BROKEN = [
    ("core", "import penstock.raft.thing", "Arrows point down"),
    ("raft", "import penstock.storage.thing", "Arrows point down"),
    ("storage", "import penstock.engine.replica.thing", "Arrows point down"),
    ("engine/replica", "import penstock.testing.thing", "Arrows point down"),
    ("engine/replica", "import penstock.engine.peers.thing", "Inside the engine"),
    ("engine/delivery", "import penstock.engine.groups.thing", "Inside the engine"),
    ("cli", "import penstock.testing.thing", "Arrows point down"),
    ("native", "import penstock.client.thing", "Arrows point down"),
    ("blocking", "import penstock.spark.thing", "Arrows point down"),
    ("client", "import penstock.engine.replica.thing", "A client needs no engine"),
    ("spark", "import penstock.storage.thing", "A client needs no engine"),
    ("wire", "import asyncio", "The pure layers never touch"),
    ("raft", "import asyncio", "The pure layers never touch"),
    ("machines", "from time import monotonic", "The pure layers never touch"),
    ("core", "import random", "The pure layers never touch"),
    ("storage", "import threading", "Storage knows files"),
    ("engine/topics", "import rich", "Only the command line draws"),
    ("spark", "import rich", "Only the command line draws"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "statement", "contract"), BROKEN)
def test_a_wrong_import_is_found(tmp_path: Path, layer: str, statement: str, contract: str) -> None:
    package = make_package(tmp_path)
    (package / layer / "thing.py").write_text(statement + "\n")
    code, output = lint(tmp_path, tmp_path)
    assert code != 0
    broken = [line for line in output.splitlines() if " BROKEN" in line]
    assert len(broken) == 1, output
    assert broken[0].startswith(contract)


@pytest.mark.slow
def test_a_folder_without_a_floor_is_found(tmp_path: Path) -> None:
    package = make_package(tmp_path)
    (package / "attic").mkdir()
    (package / "attic" / "__init__.py").touch()
    code, output = lint(tmp_path, tmp_path)
    assert code != 0
    assert "attic" in output
