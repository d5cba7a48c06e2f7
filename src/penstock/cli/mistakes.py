"""The message for a command line that cannot be parsed: the mistake, a suggestion, and the command
whose help to read.

The library that reads command lines does not load a group of commands before it is used, so it
knows few names to suggest. Here all names are known.
"""

from collections.abc import Sequence
from difflib import get_close_matches

from cyclopts import App, CycloptsError, UnknownCommandError, UnusedCliTokensError

from penstock.cli.examples import parts_of

SIMILARITY = 0.6


def describe_mistake(app: App, arguments: Sequence[str], error: CycloptsError) -> str:
    """Return one line about a command line that was refused."""
    chain, apps, left = app.parse_commands(list(arguments))
    if isinstance(error, UnknownCommandError) and left:
        sentence = f'Unknown command "{left[0]}".{_suggestion(apps[-1], chain, left[0])}'
    elif isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        extra = " ".join(error.unused_tokens)
        sentence = f'Unexpected argument: "{extra}".'
    else:
        sentence = str(error).strip().splitlines()[0]
    return f"{sentence} See: {' '.join(('penstock', *chain, '--help'))}"


def _suggestion(app: App, chain: Sequence[str], typed: str) -> str:
    """Suggest a similar command here, or a command of that name in a group."""
    names = [name for name in app if not name.startswith("-")]
    near = get_close_matches(typed, names, n=1, cutoff=SIMILARITY)
    if not near:
        near = [f"{part.name[0]} {typed}" for part in parts_of(app) if typed in part]
    if not near:
        return ""
    listed = " or ".join(" ".join(("penstock", *chain, one)) for one in near)
    return f" Did you mean: {listed}?"
