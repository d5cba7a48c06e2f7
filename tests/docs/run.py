"""Run pages as the tests do, and show what each block prints.

    python -m tests.docs.run docs/start.md

For writers: a page that runs here passes in `tests/docs`. A path outside the repository will do.
README.md and docs/start.md start a broker at the usual ports, which must be free; see `alone.py`.
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.pages import run_page
from tests.docs.stage import Failed, Shown


def show(shown: Shown) -> None:
    name = "hidden" if shown.block.hidden else shown.block.language
    print(f"---- {shown.block.place} {name} {shown.ended}")
    print(shown.output, end="", flush=True)


def main(paths: list[str]) -> int:
    for path in paths:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="penstock-docs-") as directory:
            try:
                text = Path(path).read_text("utf-8")
                for left in run_page(blocks_of(path, text), Path(directory), show):
                    print(f"---- left out: {left}")
            except Failed as error:
                print(f"\n{error}", file=sys.stderr)
                return 1
        print(f"---- {path}: {time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
