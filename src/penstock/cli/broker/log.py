"""`penstock log …`: look into the directory of one shard's log, and repair it.

`describe` and `verify` change nothing; `describe` also works while a node is running. `repair` is
the way out for a cluster of one: it gives up what cannot be read. It shows what it found and asks
before it does anything, because a replica of a cluster is better repaired by its leader.
"""

import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from penstock.cli.quantities import parse_bytes
from penstock.core.errors import LocalError
from penstock.engine.cluster.group_repair import drop_groups
from penstock.storage.disk import RealDisk
from penstock.storage.repair import (
    Finding,
    describe_directory,
    repair_directory,
    verify_directory,
)

EXIT_DAMAGED = 1

app = App(name="log", help="Inspect and repair the log of a shard on this machine.")

Directory = Annotated[str, Parameter(help="The directory of one shard's log.")]
Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print one JSON document, for programs.",
    ),
]


@app.command
def describe(directory: Directory, /, *, json: Json = False) -> None:
    """List the files of a log and their contents. The node may be running.

    Examples
    --------
    penstock log describe ./penstock-data/shard-0
    """
    files = describe_directory(RealDisk(), directory)
    if json:
        _print_json(files)
        return
    rows = [("FILE", "KIND", "BYTES", "")]
    rows += [(file.name, file.kind, f"{file.size_bytes:,}", file.facts) for file in files]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, kind, size, facts in rows:
        line = f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {size:>{widths[2]}}  {facts}"
        print(line.rstrip())


@app.command
def verify(directory: Directory, /, *, json: Json = False) -> int:
    """Read every byte of a log and check it. The node must be stopped.

    The exit code is 0 if nothing is damaged, and 1 otherwise.

    Examples
    --------
    penstock log verify ./penstock-data/shard-0
    """
    findings = verify_directory(RealDisk(), directory)
    if json:
        _print_json(findings)
    elif findings:
        _print_findings(findings)
        print(
            "In a cluster, start the node: it repairs itself from the leader.\n"
            f"If this is the only copy: penstock log repair {directory}",
            file=sys.stderr,
        )
    else:
        print(f"{directory} is whole")
    return EXIT_DAMAGED if findings else 0


@app.command
def repair(
    directory: Directory,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="", show_default=False, help="Do not ask.")] = False,
    drop_group: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="Delete this consumer group; can be repeated."
        ),
    ] = (),
    drop_groups_above: Annotated[
        str | None,
        Parameter(metavar="SIZE", help="Delete consumer groups larger than this, such as `16MiB`."),
    ] = None,
    json: Json = False,
) -> None:
    """Repair a damaged log by dropping what cannot be read. The node must be stopped.

    Only for a cluster of one, or when every replica is damaged: otherwise start the node, and it
    repairs itself from the leader without losing anything. Files that are replaced are kept under
    another name. A log that is whole is left alone.

    With `--drop-group` or `--drop-groups-above` the log stays as it is, and consumer groups of the
    shard are deleted with their offsets: for a node whose memory a group has filled.

    Examples
    --------
    penstock log repair ./penstock-data/shard-0
    """
    disk = RealDisk()
    if drop_group or drop_groups_above is not None:
        _drop_groups(directory, drop_group, drop_groups_above, yes=yes, json=json)
        return
    if not yes:
        findings = verify_directory(disk, directory)
        if findings:
            _print_findings(findings, to_stderr=True)
            _ask(directory)
    report = repair_directory(disk, directory)
    if json:
        _print_json(report)
    else:
        print("\n".join(report.describe()))


def _drop_groups(
    directory: str, names: tuple[str, ...], above: str | None, *, yes: bool, json: bool
) -> None:
    size = None if above is None else parse_bytes("--drop-groups-above", above)
    if not yes:
        _ask(directory, "consumer groups and their offsets")
    dropped = drop_groups(RealDisk(), directory, names=names, larger_than_bytes=size)
    if json:
        _print_json(dropped)
        return
    for one in dropped:
        print(
            f"dropped: group {one.group}, {one.size_bytes:,} bytes, {one.members} members,"
            f" offsets of {one.offsets} partitions"
        )
    if not dropped:
        print("no group is so large, nothing was changed")


def _ask(directory: str, lost: str = "what cannot be read") -> None:
    """Destructive verbs ask for the name back."""
    if not sys.stdin.isatty():
        raise LocalError(f"repairing {directory} gives up {lost}; add --yes if you want that")
    print(
        f"This gives up {lost}. Type the directory's name to go on: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip() != directory:
        raise LocalError(f"the name does not match; {directory} is as it was")


def _print_findings(findings: list[Finding], *, to_stderr: bool = False) -> None:
    for finding in findings:
        print(
            f"damaged: {finding.path} at byte {finding.position}: {finding.problem}",
            file=sys.stderr if to_stderr else sys.stdout,
        )


def _print_json(document: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
