"""`penstock generate completion`: completion of commands and flags, and of what a broker knows.

The library that reads command lines writes a script with all commands and flags. It cannot know the
names of queues and topics, which are asked of the broker at the moment of the keypress, nor the
values of the flags of queue configs, which are texts to it. Both are added here, from the same
commands.
"""

import sys
from collections.abc import Iterator
from typing import Annotated, Literal

from cyclopts import App, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json, print_text
from penstock.cli.examples import parts_of
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.client.default_url import DEFAULT_URL
from penstock.core.errors import PenstockError
from penstock.core.internal_topics import is_internal

SECONDS_MAX = 2.0
NAMED = ("The name of the queue.", "The name of the topic.", "The topic or queue.")
"""The beginnings of help texts of first arguments that name a queue or a topic."""
NEW = ("create", "add")
"""Commands whose first argument is a new name, which is not completed."""
QUEUE, PRIORITY = "queue", "--priority"
ASK = "penstock generate names 2>/dev/null"

BASH = """
_penstock_known() {{
  _penstock
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}"
  local typed="${{COMP_WORDS[*]:1:COMP_CWORD-1}}"
  case "$typed" in
    {named}) COMPREPLY+=($(compgen -W "$({ask})" -- "$cur")) ;;
  esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}} $prev" in
{choices}
  esac
}}

complete -F _penstock_known penstock
"""
ZSH_NAMES = """
_penstock_names() {{
  compadd -- ${{(f)"$({ask})"}}
}}
"""


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Print a completion script for a shell: commands, flags and the names of queues.

    Examples
    --------
    # bash, for this shell; for all of them, put the line into ~/.bashrc
    source <(penstock generate completion bash)
    # zsh: anywhere in $fpath
    penstock generate completion zsh > ~/.zsh/completions/_penstock
    # fish
    penstock generate completion fish > ~/.config/fish/completions/penstock.fish
    """
    from penstock.cli.program import app as program

    text = program.generate_completion(prog_name="penstock", shell=shell)
    named = sorted(" ".join(path) for path, command in _leaves(program, ()) if _takes(command))
    choices = dict(sorted(_choices(program)))
    finish = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    print_text(finish(text, named, choices), json=json)


def names(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Print the names of all queues and topics, a line each; nothing if no broker answers.

    Examples
    --------
    penstock generate names
    """

    async def work(client: Client) -> list[str]:
        return sorted(one.name for one in await client.topics() if not is_internal(one.name))

    try:
        found = with_client(broker.native() or DEFAULT_URL, work, timeout=SECONDS_MAX)
    except PenstockError:
        found = []  # A shell that completes a word has no use for the reason.
    if json:
        print_json(found)
    else:
        sys.stdout.write("".join(f"{name}\n" for name in found))


def _leaves(command: App, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    for part in parts_of(command):
        name = part.name[0]
        if part.default_command is not None:
            yield (*path, name), part
        else:
            yield from _leaves(part, (*path, name))


def _takes(command: App) -> bool:
    """True if the first argument of a command is the name of an existing queue or topic."""
    if command.name[0] in NEW:
        return False
    arguments = command.assemble_argument_collection(parse_docstring=False)
    return any(one.index == 0 and (one.parameter.help or "").startswith(NAMED) for one in arguments)


def _choices(program: App) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Command and flag of a queue's configs -> the values that the help lists."""
    for path, command in _leaves(program, ()):
        for argument in command.assemble_argument_collection(parse_docstring=False):
            listed = argument.parameter.metavar or ""
            if path[0] == QUEUE and "|" in listed and argument.names:
                yield (" ".join(path), argument.names[0]), tuple(listed.split("|"))


def _bash(text: str, named: list[str], choices: dict[tuple[str, str], tuple[str, ...]]) -> str:
    lines = [
        f'    "{path} {flag}") COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$cur")) ;;'
        for (path, flag), values in choices.items()
    ]
    patterns = "|".join(f'"{path}"' for path in named)
    return text + BASH.format(named=patterns, choices="\n".join(lines), ask=ASK)


def _zsh(text: str, _named: list[str], choices: dict[tuple[str, str], tuple[str, ...]]) -> str:
    for begin in NAMED:
        text = text.replace(f"'1:{begin}'", f"'1:{begin}:_penstock_names'")
    for flag, values in {flag: values for (_, flag), values in choices.items()}.items():
        if flag != PRIORITY:  # Of a message it is a number.
            end = f"]:{flag.removeprefix('--')}' "
            text = text.replace(end, f"{end[:-2]}:({' '.join(values)})' ")
    head, newline, rest = text.partition("\n")
    return head + newline + ZSH_NAMES.format(ask=ASK) + rest


def _fish(text: str, named: list[str], choices: dict[tuple[str, str], tuple[str, ...]]) -> str:
    using = "complete -c penstock -n '__fish_penstock_using_command"
    lines = [f"{using} {path}' -f -a '({ASK})'" for path in named]
    lines += [
        f"{using} {path}' -l {flag.removeprefix('--')} -r -f -a '{' '.join(values)}'"
        for (path, flag), values in choices.items()
    ]
    return text + "\n# Names and values.\n" + "\n".join(lines) + "\n"
