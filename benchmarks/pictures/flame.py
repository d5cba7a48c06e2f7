"""A flame graph of stacks that py-spy sampled: python -m benchmarks.pictures.flame STACKS SVG TITLE

    make profile ARGS="--load sqs"
    .venv/bin/python -m benchmarks.pictures.flame \\
        benchmarks/results/local/profile-sqs-node-1.txt docs/benchmarks/flame-sqs.svg "By SQS"

A line of the file is a stack, outermost first, and how often it was seen. A box is a function, as
wide as the share of time in which it was somewhere on the stack, above the one that called it. Our
own functions are blue, by layer; what belongs to the loop and to libraries is grey. Lines of one
function are one box.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.pictures.svg import Sheet, width_of

WIDTH = 1_200
ROW = 18
MARGIN = 20
HEAD = 56
SHARE_MIN = 0.002
_FRAME = re.compile(r"^(?P<name>.+) \((?P<file>[^()]*?)(:\d+)?\)$")
_LAYERS = {
    "kafka": "#0b6bcb",
    "engine": "#2f8fe0",
    "machines": "#0f9d8a",
    "raft": "#7a5cd6",
    "storage": "#b8560f",
    "core": "#5b7083",
}
_OURS = "#4a90c2"
_OTHERS = "#b6c0ca"


@dataclass
class Box:
    """A function at its place in the stacks."""

    name: str
    file: str
    samples: int = 0
    above: dict[str, "Box"] = field(default_factory=dict)


def read_stacks(text: str) -> Box:
    """All stacks, one upon the other."""
    root = Box("all", "")
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdigit():
            continue
        box = root
        box.samples += int(count)
        for frame in _above_the_loop(stack.split(";")):
            found = _FRAME.match(frame)
            name, file = (found["name"], found["file"]) if found else (frame, "")
            box = box.above.setdefault(f"{name} {file}", Box(name, file))
            box.samples += int(count)
    return root


def _above_the_loop(frames: list[str]) -> list[str]:
    """What stands below the event loop is always the same, and says nothing."""
    loops = [number for number, frame in enumerate(frames) if "(asyncio/runners.py" in frame]
    return frames[loops[-1] :] if loops else frames


def depth(box: Box, whole: int) -> int:
    """How many rows its stacks take."""
    tall = [one for one in box.above.values() if one.samples >= SHARE_MIN * whole]
    return 1 + max((depth(one, whole) for one in tall), default=0)


def draw_flame(root: Box, title: str) -> str:
    """The picture."""
    rows = depth(root, root.samples)
    height = HEAD + rows * ROW + MARGIN
    sheet = Sheet(WIDTH, height, title)
    sheet.box(0, 0, WIDTH, height, fill="#ffffff", radius=10, stroke="#d5dbe1")
    sheet.words(MARGIN, 30, title, size=16, fill="#1c2733", bold=True)
    legend = MARGIN
    for layer, fill in [*_LAYERS.items(), ("others of ours", _OURS), ("loop, libraries", _OTHERS)]:
        sheet.box(legend, 39, 10, 10, fill=fill, radius=2)
        sheet.words(legend + 14, 48, layer, size=10, fill="#5b6773")
        legend += 30 + int(width_of(layer, 10))
    _draw(sheet, root, float(MARGIN), height - MARGIN, (WIDTH - 2 * MARGIN) / root.samples, root)
    return sheet.text()


def _draw(sheet: Sheet, box: Box, left: float, bottom: float, scale: float, root: Box) -> None:
    width = box.samples * scale
    sheet.box(left, bottom - ROW + 1, max(0.5, width - 0.5), ROW - 1.5, fill=_fill(box), radius=2)
    room = int((width - 8) / width_of("m", 10)) if width > 8 else 0
    if room >= 3:
        shown = box.name if len(box.name) <= room else box.name[: room - 1] + "…"
        sheet.words(left + 4, bottom - 5, shown, size=10, fill="#ffffff" if box.file else "#1c2733")
    for one in sorted(box.above.values(), key=lambda above: -above.samples):
        if one.samples >= SHARE_MIN * root.samples:
            _draw(sheet, one, left, bottom - ROW, scale, root)
        left += one.samples * scale


def _fill(box: Box) -> str:
    parts = box.file.split("/")
    if parts[0] != "penstock":
        return _OTHERS
    return _LAYERS.get(parts[1], _OURS)


def main(arguments: list[str]) -> int:
    """Draw a file of stacks."""
    if len(arguments) != 3:
        print(__doc__)
        return 2
    source, target = map(Path, arguments[:2])
    root = read_stacks(source.read_text("utf-8"))
    if not root.samples:
        print(f"there are no stacks in {source}")
        return 1
    target.write_text(draw_flame(root, arguments[2]), "utf-8")
    print(f"{root.samples} samples in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
