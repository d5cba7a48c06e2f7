"""The Examples at the end of every help text, and what `penstock cheat` prints.

They stand in the docstring of the command they belong to, in a section "Examples", one command
line a line, with a comment above where one helps. The library that lays out our help texts drops
that section, because it cannot know how one's examples look; here it is read, and printed plainly
and unwrapped, so that a line can be copied. A group of commands shows the first line of each of
its commands. A test tries whether every line can be parsed.
"""

import inspect
from collections.abc import Iterator

from cyclopts import App
from rich.console import Console

HEADING = "Examples"
INDENT = "  "


def examples_in(text: str) -> list[str]:
    """The lines of the section "Examples" of a help text; none if it has no such section."""
    lines = inspect.cleandoc(text).splitlines()
    start = _start(lines)
    if start is None:
        return []
    found: list[str] = []
    for number in range(start, len(lines)):
        if number + 1 < len(lines) and _is_rule(lines[number + 1]):
            break  # The next section begins.
        found.append(lines[number].strip())
    return "\n".join(found).strip().splitlines()


def examples_of(command: App) -> list[str]:
    """The examples of a command; of a group of commands, the first of each of them."""
    function = command.default_command
    own = examples_in((function.__doc__ if function is not None else command.help) or "")
    if own or function is not None:
        return own
    below = [examples_of(part) for part in parts_of(command)]
    return [next((line for line in lines if not line.startswith("#")), "") for lines in below]


def parts_of(command: App) -> Iterator[App]:
    """The commands of a group, in the order of their names."""
    for name in sorted(command):
        if not name.startswith("-"):
            yield command[name]


def print_examples(console: Console, lines: list[str]) -> None:
    """Print them below a help text."""
    console.print(f"\n{HEADING}:", style="bold", highlight=False, markup=False)
    for line in lines:
        style = "dim" if line.startswith("#") else None
        console.print(INDENT + line, style=style, highlight=False, markup=False, soft_wrap=True)


def _start(lines: list[str]) -> int | None:
    for number, line in enumerate(lines):
        if line == f"{HEADING}:":
            return number + 1
        if line == HEADING and number + 1 < len(lines) and _is_rule(lines[number + 1]):
            return number + 2
    return None


def _is_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")
