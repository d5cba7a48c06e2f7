"""What all commands have in common."""

import pytest
from cyclopts import App

from tests.house.reference import commands

COMMANDS = [(name, command) for name, command in commands() if command.default_command is not None]


def flags(command: App) -> set[str]:
    found = command.assemble_argument_collection(parse_docstring=False)
    return {name for argument in found for name in argument.names}


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_command_speaks_to_programs(name: str, command: App) -> None:
    assert "--json" in flags(command), f"{name} has no --json"
    assert "--no-json" not in flags(command)


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_one_flag_says_where_the_broker_is(name: str, command: App) -> None:
    """`--http` was another one; where a command still takes it, it takes `--url` as well."""
    listens = name in ("penstock serve", "penstock dev") or name.startswith("penstock config ")
    if "--http" in flags(command) and not listens:
        assert "--url" in flags(command), f"{name} has --http and no --url"
