"""All commands of `penstock`, put together: one table, and what every help text has in common.

What a command needs is imported when it is called, so that `penstock version` costs nothing but
itself. A group of commands has a module of its own; to add one, add a line to `COMMANDS`.
"""

from collections.abc import Iterable, Mapping, Sequence

from cyclopts import App, Group
from rich.console import Console

from penstock.cli.address_flags import fill_in_addresses
from penstock.cli.admin import Json, print_json
from penstock.cli.examples import examples_of, print_examples
from penstock.core.version import __version__

COMMANDS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "Run a broker": (
        (
            "dev",
            "penstock.cli.broker.serve:dev",
            "Run a broker on this machine, for trying and developing.",
        ),
        ("serve", "penstock.cli.broker.serve:serve", "Run a broker."),
        (
            "config",
            "penstock.cli.broker.config:app",
            "Show, check and explain the broker's settings.",
        ),
    ),
    "Queues and topics": (
        (
            "queue",
            "penstock.cli.queue.command:app",
            "Create and manage queues, and show their messages.",
        ),
        ("topic", "penstock.cli.cluster.topic:app", "Create, show, change and delete topics."),
        (
            "group",
            "penstock.cli.cluster.group:app",
            "Show, reset and delete consumer groups.",
        ),
    ),
    "Messages": (
        (
            "produce",
            "penstock.cli.message.produce:produce",
            "Send the lines of stdin or of a file.",
        ),
        (
            "consume",
            "penstock.cli.message.consume:consume",
            "Print the messages of a topic or a queue.",
        ),
        (
            "peek",
            "penstock.cli.queue.peek:peek",
            "Show messages of a queue without leasing them.",
        ),
        (
            "redrive",
            "penstock.cli.queue.redrive:redrive",
            "Move dead letters back to the queue they died in.",
        ),
        ("trace", "penstock.cli.message.trace:trace", "Trace one message."),
        ("work", "penstock.cli.work:work", "Run workers."),
    ),
    "Operate": (
        (
            "cluster",
            "penstock.cli.cluster.command:app",
            "Show and change a running cluster.",
        ),
        ("top", "penstock.cli.cluster.top:top", "Watch depth, lag and rates."),
        (
            "alert",
            "penstock.cli.cluster.alert:app",
            "List, acknowledge and silence alerts, and test the webhook.",
        ),
        (
            "mcp",
            "penstock.cli.assistant.command:mcp",
            "Serve queues to an assistant over MCP.",
        ),
        (
            "doctor",
            "penstock.cli.doctor.command:doctor",
            "Check this machine and a broker for problems.",
        ),
        ("backup", "penstock.cli.cluster.backup:backup", "Back up a node's data while it runs."),
        ("restore", "penstock.cli.cluster.backup:restore", "Create a new cluster from a backup."),
        (
            "verify",
            "penstock.cli.cluster.backup:verify",
            "Check every byte of a backup or a stopped node.",
        ),
        (
            "log",
            "penstock.cli.broker.log:app",
            "Inspect and repair the log of a shard on this machine.",
        ),
        ("bench", "penstock.cli.bench.command:app", "Measure a running broker."),
        ("plan", "penstock.cli.plan.command:plan", "Advise on capacity."),
    ),
    "Spark": (
        ("pipeline", "penstock.cli.spark.pipeline:app", "Run data pipelines on Spark."),
        ("job", "penstock.cli.spark.job:app", "Archive, replay and audit topics, with Spark."),
    ),
    "This program": (
        ("cheat", "penstock.cli.cheat:cheat", "Print examples to copy."),
        (
            "context",
            "penstock.cli.context:app",
            "Manage named brokers, and choose the default one.",
        ),
        (
            "generate",
            "penstock.cli.generate.command:app",
            "Generate files for other programs: shells, Prometheus, Grafana, Kubernetes.",
        ),
    ),
}
"""The commands by group: name, module and summary in `penstock --help`."""

_DEDUPLICATION = {"--deduplication-id": "--dedup-id"}
_SETTINGS = {"--dead-letter": "--dead-letter-topic", "--retry": "--retry-policy"}
ALIASES: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("produce",): _DEDUPLICATION,
    ("queue", "send"): _DEDUPLICATION,
    ("queue", "create"): _SETTINGS,
    ("queue", "configure"): _SETTINGS,
}
"""Flags with a second name, by command: what another command, Python or an earlier release calls
them. No help text lists both."""
ENDS_FLAGS = "--"


def with_shown_names(arguments: Sequence[str]) -> list[str]:
    """Return a command line with every flag under the name that its help shows."""
    found = list(arguments)
    for command, aliases in ALIASES.items():
        if tuple(found[: len(command)]) != command:
            continue
        for place in range(len(command), len(found)):
            if found[place] == ENDS_FLAGS:
                break
            flag, equals, value = found[place].partition("=")
            found[place] = f"{aliases.get(flag, flag)}{equals}{value}"
    return found


class _Program(App):
    """The whole command line: each help text in full, and below it the examples."""

    def help_print(
        self,
        tokens: str | Iterable[str] | None = None,
        *,
        console: Console | None = None,
    ) -> None:
        _, path, _ = self.parse_commands(tokens)
        command = path[-1]
        listed = command.help
        if command.default_command is not None and command.default_command.__doc__:
            # It was registered with one line for the list of commands; this page is about it alone.
            command.help = command.default_command.__doc__
        try:
            super().help_print(tokens, console=console)
        finally:
            command.help = listed
        lines = examples_of(command)
        if lines:
            print_examples(console or command.console, lines)


app = _Program(
    name="penstock",
    help="""A distributed message queue that speaks Kafka.

    `penstock dev` starts a broker on this machine, `penstock cheat python` prints a first program.

    Examples
    --------
    penstock dev
    penstock queue create jobs --lease 1m --dead-letter-topic jobs-dlq
    seq 1000 | penstock produce jobs
    penstock consume jobs -n 10 --ack
    penstock cheat python
    """,
    help_flags=["--help", "-h"],
    version=__version__,
    version_flags=["--version"],
    help_format="markdown",
    suppress_keyboard_interrupt=False,
    config=fill_in_addresses,
)


_GROUPS = {title: Group(title, sort_key=rank) for rank, title in enumerate(COMMANDS)}
"""The groups of commands in the order of the help."""


@app.command(group=_GROUPS["Run a broker"])
def demo(*, seconds: float = 20, data: str | None = None, json: Json = False) -> int:
    """Show a cluster of three nodes at work while nodes are stopped, cut off and damaged.

    One line per event. In the end everything that was acknowledged is read back from every node;
    the exit code is 0 if it was all there.

    Parameters
    ----------
    seconds
        The duration of the faults.
    data
        Keep the nodes' files in this directory; without it they are removed at the end.

    Examples
    --------
    penstock demo
    penstock demo --seconds 60 --data ./demo
    """
    from penstock.cli.broker.demo import run_demo

    return run_demo(seconds, data, json=json)


@app.command(name="version", group=_GROUPS["This program"])
def show_version(*, json: Json = False) -> None:
    """Print the version and exit.

    Examples
    --------
    penstock version
    """
    if json:
        print_json({"version": __version__})
        return
    print(__version__)


for _title, _listed in COMMANDS.items():
    for _name, _place, _help in _listed:
        app.command(_place, name=_name, help=_help, group=_GROUPS[_title])
for _flag in ("--help", "--version"):
    app[_flag].group = _GROUPS["This program"]
