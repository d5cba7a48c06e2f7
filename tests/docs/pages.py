"""Which pages there are, how one is run from top to bottom, and which blocks are left out, and why.

Pages that are generated from the code hold help texts and signatures; they are compared with the
code by `tests/house` and not run here.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.docs.blocks import Block, Use, blocks_of
from tests.docs.stage import Failed, Shown, Stage
from tests.house.reference import PAGES as GENERATED
from tests.house.sources import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if path.relative_to(ROOT) not in GENERATED
)

ALONE = ("README.md", "docs/start.md")
"""The first pages that are read, one after the other: they start their broker themselves."""


def read_page(page: str) -> list[Block]:
    """The blocks of a page of this repository."""
    return blocks_of(page, (ROOT / page).read_text("utf-8"))


def run_page(
    blocks: list[Block],
    directory: Path,
    told: Callable[[Shown], None] = lambda _shown: None,
    *,
    alone: bool = False,
) -> list[str]:
    """Run every block in order. Returns what was left out because a program is not here."""
    nodes = max((int(block.orders.get("nodes", "1")) for block in blocks), default=1)
    left_out = []
    before: Shown | None = None
    with Stage(directory, nodes=nodes, alone=alone) as stage:
        for block in blocks:
            if "output" in block.orders:
                if before is not None:
                    compare(block, before)
            elif block.use is Use.PARSED:
                parse(block)
            elif block.runs and (absent := missing_programs(block)):
                left_out.append(f"{block.place}: no {absent} here")
                before = None
            elif block.runs:
                before = stage.play(block)
                told(before)
            elif block.language == "python":
                compile(block.text, block.place, "exec")
    return left_out


def compare(block: Block, shown: Shown) -> None:
    """What a page shows is what was printed; `…` stands for anything."""
    wanted = block.text.strip()
    pattern = ".*".join(map(re.escape, re.split(r"…", wanted)))
    printed = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
    if not re.fullmatch(pattern, printed, re.DOTALL):
        raise Failed(
            f"{block.place} shows another output than {shown.block.place} has\n{wanted}\n"
            f"---- printed:\n{printed}"
        )


def parse(block: Block) -> None:
    """A document that is only shown is at least a document."""
    try:
        if block.language == "json":
            json.loads(block.text)
        else:
            tomllib.loads(block.text)
    except ValueError as error:
        raise Failed(f"{block.place}: no {block.language}: {error}") from error


def missing_programs(block: Block) -> str:
    """Programs a block needs that this machine does not have."""
    wanted = block.orders.get("needs", "").split(",")
    return ", ".join(name for name in wanted if name and shutil.which(name) is None)


def unrun_blocks(blocks: list[Block]) -> Iterator[str]:
    """A line for each block that does not run although it could be code, and why."""
    for block in blocks:
        if "skip" in block.orders:
            yield f"{block.page}: {first_line(block)}: {block.orders['skip']}"
        elif "needs" in block.orders:
            needed = block.orders["needs"]
            yield f"{block.page}: {first_line(block)}: runs where {needed} is installed"


def first_line(block: Block) -> str:
    """How a block is recognised when its page changes."""
    lines = [line.strip() for line in block.text.splitlines() if line.strip()]
    return lines[0] if lines else "nothing"


_COMMAND = re.compile(r"(\$ )?(penstock|make|curl|pip|python|aws|docker|export|kcat) ")


def commands_for_the_eye(blocks: list[Block]) -> Iterator[str]:
    """Commands in a block that says it is no code: nobody would run them."""
    for block in blocks:
        if block.use is Use.SHOWN and "output" not in block.orders:
            for line in block.text.splitlines():
                if _COMMAND.match(line) or line.startswith(("import ", "from ", "async def ")):
                    yield f"{block.place}: {line}"


def indented_commands(page: str, text: str) -> Iterator[str]:
    """The same in a block that is set by four spaces instead of a fence. Pages for those who work
    on Penstock may: they name commands that run for minutes, and `tests/house` checks targets."""
    if page.startswith("docs/internals/"):
        return
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("    ") and _COMMAND.match(line.strip()):
            yield f"{page}:{number}: {line.strip()}"
