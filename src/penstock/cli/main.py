"""The `penstock` command.

Rules of every command: what was asked for goes to stdout, talk goes to stderr. Exit code 0 is done,
1 is a refusal or an error, reported in one sentence that says what to do, and 2 is a command that
was typed wrongly. A traceback is a bug of Penstock, never an answer. `--json` prints one document
for programs; a command that streams prints one a line. Colour and progress bars only on a terminal,
and no colour if NO_COLOR is set. Every help text ends with examples (see `examples.py`).

The commands are in `program`. A broker is started by machines more often than by people, and what
reads a command line well takes longer to load than the broker to start: so a plain `penstock serve`
is read without it (`plain_serve`), and everything else, mistakes included, by `program`.
"""

import os
import sys
from collections.abc import Sequence

from penstock.cli.broker.plain_serve import read_plainly
from penstock.core.errors import PenstockError
from penstock.core.extras import require

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
PACKAGES = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line of this process, or the given one, and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        plain = read_plainly(arguments)
        result = _run_program(arguments) if plain is None else plain()
        sys.stdout.flush()
    except PenstockError as error:
        _talk(" ".join(str(error).split()))
        return EXIT_REFUSED
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain once more when
        # it flushes at exit, so its output now goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_REFUSED
    except KeyboardInterrupt:
        _talk("interrupted")
        return EXIT_INTERRUPTED
    return result


def _run_program(arguments: Sequence[str]) -> int:
    # One installation must do: `penstock dev` needs a broker as well.
    extra = "server" if arguments and arguments[0] in ("serve", "dev") else "cli"
    require(extra, "The command line", PACKAGES)
    from cyclopts import CycloptsError

    from penstock.cli.mistakes import describe_mistake
    from penstock.cli.program import app, with_shown_names

    arguments = with_shown_names(arguments)
    try:
        result = app(
            arguments,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        _talk(describe_mistake(app, arguments, error))
        return EXIT_USAGE
    return result if isinstance(result, int) else 0


def _talk(sentence: str) -> None:
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        # Only a client is installed, and `sentence` says so.
        print(f"penstock: {sentence}", file=sys.stderr)
        return
    talk = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    talk.print(f"penstock: {sentence}")


if __name__ == "__main__":
    main()
