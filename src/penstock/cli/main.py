"""The `penstock` command.

Rules of every command: what was asked for goes to stdout, talk goes to stderr. Exit code 0 is done,
1 is a refusal or an error, told in one sentence that says what to do, and 2 is a command that was
typed wrongly. A traceback is a bug of Penstock, never an answer. `--json` prints one document for
programs. Colour only on a terminal, and not if NO_COLOR is set.

What a command needs is imported when it is called, so that `penstock version` costs nothing but
itself. A group of commands has a module of its own; to add one, add a line to `COMMANDS`.
"""

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from penstock import __version__
from penstock.core.errors import PenstockError

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

COMMANDS = (
    ("serve", "penstock.cli.serve:serve", "Run a broker."),
    (
        "dev",
        "penstock.cli.serve:dev",
        "Run a broker on this machine, for trying and developing.",
    ),
    ("config", "penstock.cli.config:app", "Show, check and explain the broker's settings."),
    ("cluster", "penstock.cli.cluster:app", "Look at a running cluster, and change it."),
    (
        "queue",
        "penstock.cli.queue:app",
        "Make and run queues, and look at the messages in them.",
    ),
    ("log", "penstock.cli.log:app", "Look into the log of a shard on this machine, and repair it."),
)
"""Name, where it is, and what `penstock --help` says about it."""

app = App(
    name="penstock",
    help="""A distributed message queue that speaks Kafka.

    `penstock dev` starts a broker on this machine and prints lines to paste.
    """,
    help_flags=["--help", "-h"],
    version=__version__,
    version_flags=["--version"],
    help_format="markdown",
    suppress_keyboard_interrupt=False,
)


@app.command
def demo(*, seconds: float = 20, data: str | None = None) -> int:
    """Show a cluster of three nodes at work while nodes are stopped, cut off and damaged.

    One line per event. In the end everything that was acknowledged is read back from every node;
    the exit code is 0 if it was all there.

    Parameters
    ----------
    seconds
        How long the trouble lasts.
    data
        Keep the nodes' files in this directory; without it they are removed at the end.
    """
    from penstock.cli.demo import run_demo

    return run_demo(seconds, data)


@app.command(name="version")
def show_version() -> None:
    """Print the version and end."""
    print(__version__)


for _name, _place, _help in COMMANDS:
    app.command(_place, name=_name, help=_help)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line of this process, or the given one, and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    talk = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        result = app(
            list(arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        sentence = str(error).strip().splitlines()[0]
        talk.print(f"penstock: {sentence} See: penstock {_known(arguments)}--help")
        return EXIT_USAGE
    except PenstockError as error:
        talk.print("penstock: " + " ".join(str(error).split()))
        return EXIT_REFUSED
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Python would complain once more when
        # it flushes at exit, so its output now goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_REFUSED
    except KeyboardInterrupt:
        talk.print("penstock: interrupted")
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0


def _known(arguments: Sequence[str]) -> str:
    """The part of a command line that names a command: whose help to point to."""
    _, apps, _ = app.parse_commands(list(arguments))
    return "".join(f"{command.name[0]} " for command in apps[1:])


if __name__ == "__main__":
    main()
