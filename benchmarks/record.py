"""What a run has found so far, as a file: numbers for programs, tables for people.

The document is written anew after every benchmark, so that one which breaks, or a run that is
ended, loses nothing of the others. Tables and pictures are made from it alone: whoever has the file
can make them again without measuring.

    when, quick, seconds       of the run
    machine                    where it was made
    findings   {name: [row]}   the numbers, one object for each row
    tables     {name: {…}}     title, columns, rows and notes of the same, and when they were taken
    broken     {name: why}     what could not be measured

A part of a recorded run may be measured again: its findings take the place of the old ones, and the
table says when it was taken, as numbers of two runs should not be compared.
"""

import datetime as dt
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from benchmarks.report import Finding, Measured, show

TABLE_COLUMNS = 120


class Table(msgspec.Struct, kw_only=True):
    """A finding as it is shown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    when: str
    commit: str


class Document(msgspec.Struct, kw_only=True):
    """One file of results."""

    when: str
    quick: bool
    seconds: float
    machine: dict[str, str]
    findings: dict[str, Sequence[Measured]]
    tables: dict[str, Table] = {}
    broken: dict[str, str] = {}


class Record:
    """A document that grows, and the two files it is kept in."""

    def __init__(
        self, path: Path, machine: Mapping[str, str], *, quick: bool, keep: bool = False
    ) -> None:
        self.path = path
        self.document = Document(
            when=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            quick=quick,
            seconds=0,
            machine=dict(machine),
            findings={},
        )
        if keep and path.exists():
            self._keep(read_document(path))

    def _keep(self, old: Document) -> None:
        """What is not measured this time stays as it was."""
        self.document.findings = dict(old.findings)
        self.document.tables = dict(old.tables)
        self.document.broken = dict(old.broken)
        self.document.seconds = old.seconds

    def add(self, findings: Sequence[Finding]) -> None:
        """What a benchmark found."""
        for finding in findings:
            self.document.findings[finding.name] = finding.numbers
            self.document.tables[finding.name] = Table(
                title=finding.title,
                columns=finding.columns,
                rows=finding.rows,
                notes=finding.notes,
                when=self.document.when,
                commit=self.document.machine.get("commit", ""),
            )

    def broke(self, name: str, why: str) -> None:
        """A benchmark has no result."""
        self.document.broken[name] = why

    def mended(self, name: str) -> None:
        """It has one now."""
        self.document.broken.pop(name, None)

    def save(self) -> None:
        """Both files, each at once: whoever reads one meanwhile finds it whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        plain = msgspec.to_builtins(self.document)
        text = msgspec.json.format(msgspec.json.encode(_rounded(plain)), indent=2)
        _replace(self.path, text + b"\n")
        _replace(self.path.with_suffix(".txt"), tables_of(self.document).encode())


def read_document(path: Path) -> Document:
    """A file of results."""
    return msgspec.json.decode(path.read_bytes(), type=Document)


def tables_of(document: Document) -> str:
    """All tables, then where they were made."""
    console = Console(file=io.StringIO(), width=TABLE_COLUMNS)
    for name, table in document.tables.items():
        show(console, _finding(name, table, document))
    show_end(console, document)
    assert isinstance(console.file, io.StringIO), f"the tables went to {console.file}"
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join(lines) + "\n"


def show_end(console: Console, document: Document) -> None:
    """What a reader must know about all tables."""
    for name, value in document.machine.items():
        console.print(f"{name}: {value}", highlight=False)
    for name in document.broken:
        console.print(f"{name} could not be measured", highlight=False)
    rough = ", quick and rough" if document.quick else ""
    console.print(f"{document.when}, {document.seconds:.0f} s in all{rough}", highlight=False)


def _finding(name: str, table: Table, document: Document) -> Finding:
    apart = [] if table.when == document.when else [f"measured {table.when} at {table.commit}."]
    return Finding(
        name=name,
        title=table.title,
        columns=table.columns,
        rows=table.rows,
        notes=[*table.notes, *apart],
    )


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    aside.replace(path)


def _rounded(value: Any) -> Any:
    """Four digits are more than such numbers are worth."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    return value
