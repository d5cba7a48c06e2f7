"""Every example runs, ends by itself, and finds that all is well."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

SECONDS_MAX = 120


def run_example(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "last_line"),
    [
        ("orders", "100 orders: 89 charged exactly once, 11 declined and put back"),
        ("images", "13 pictures"),
        ("ledger", "1 snapshot"),
        ("burst", "600 orders sent, 600 done"),
        ("traced", "one trace of 6 spans"),
        ("fastapi_orders", "10 orders came by HTTP and were packed"),
        ("django_orders", "10 orders were committed and packed"),
    ],
)
def test_an_example_ends_well(name: str, last_line: str) -> None:
    said = run_example(f"examples.{name}")
    assert said.splitlines()[-1].startswith(last_line)


@pytest.mark.slow
def test_an_example_on_files_can_be_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert "charged exactly once" in run_example(
            "examples.orders", f"file:{tmp_path / 'data'}", "--orders", "20"
        )


def test_every_example_is_in_the_readme() -> None:
    readme = (ROOT / "examples" / "README.md").read_text("utf-8")
    names = {path.parent.name for path in (ROOT / "examples").glob("*/__main__.py")}
    assert names == {
        "burst", "django_orders", "fastapi_orders", "images", "ledger", "order_stream", "orders",
        "traced",
    }  # fmt: skip
    for name in names:
        assert f"`python -m examples.{name}`" in readme
