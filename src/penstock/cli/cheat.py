"""`penstock cheat`: examples of every command, to copy.

They are the ones at the end of the help texts, gathered: there is no second list that could grow
old. What is printed can be pasted into a shell, comments and all.
"""

import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import App, Parameter

from penstock.cli.examples import examples_of, parts_of
from penstock.core.errors import LocalError


def cheat(
    subject: Annotated[
        str | None, Parameter(help="A command, such as queue; all of them without it.")
    ] = None,
    /,
) -> None:
    """Print examples of a command and of everything below it; without one, of all.

    Examples
    --------
    penstock cheat queue
    penstock cheat | grep redrive
    """
    from penstock.cli.program import app

    subjects = {part.name[0]: part for part in parts_of(app)}
    if subject is not None and subject not in subjects:
        raise LocalError(f"there is nothing about {subject}; there is about: {', '.join(subjects)}")
    chosen = [subjects[subject]] if subject is not None else list(subjects.values())
    blocks = [
        f"# {_sentence(command)}\n" + "\n".join(examples_of(command))
        for top in chosen
        for command in _leaves(top)
    ]
    sys.stdout.write("\n\n".join(blocks) + "\n")


def _leaves(command: App) -> Iterator[App]:
    if command.default_command is not None:
        yield command
        return
    for part in parts_of(command):
        yield from _leaves(part)


def _sentence(command: App) -> str:
    """The first line of its help text."""
    return command.help.strip().splitlines()[0]
