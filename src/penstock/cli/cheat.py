"""`penstock cheat`: examples of every command, and first programs, to copy.

The examples are the ones at the end of the help texts, gathered: there is no second list that could
grow old. What is printed can be pasted into a shell, comments and all.
"""

import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.examples import examples_of, parts_of
from penstock.cli.snippets import SNIPPETS, snippet
from penstock.client.default_url import DEFAULT_URL


def cheat(
    subject: Annotated[
        str | None,
        Parameter(
            help="python, kafka, sqs or cli: a first program. Or a command, such as queue."
            " By default all of them."
        ),
    ] = None,
    /,
    *,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Print a first program for Python, Kafka, SQS or the shell, or examples of commands.

    The programs have the address of your broker in them. Nothing is sent.

    Examples
    --------
    penstock cheat python
    penstock cheat sqs > first.py
    penstock cheat queue
    penstock cheat | grep redrive
    """
    if subject in SNIPPETS:
        http = str(broker.address()) if subject == "sqs" else ""
        text = snippet(subject, url=broker.native() or DEFAULT_URL, http=http)
        if json:
            print_json({"subject": subject, "text": text})
        else:
            sys.stdout.write(text)
        return
    from penstock.cli.program import app

    subjects = {name: app[name] for name in sorted(app) if not name.startswith("-")}
    if subject is not None and subject not in subjects:
        known = ", ".join([*SNIPPETS, *subjects])
        raise CycloptsError(msg=f'SUBJECT = "{subject}" must be one of: {known}.')
    chosen = [subjects[subject]] if subject is not None else list(subjects.values())
    leaves = [command for top in chosen for command in _leaves(top)]
    if json:
        print_json([
            {"about": _sentence(command), "examples": examples_of(command)} for command in leaves
        ])  # fmt: skip
        return
    blocks = [f"# {_sentence(command)}\n" + "\n".join(examples_of(command)) for command in leaves]
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
