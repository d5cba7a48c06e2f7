"""The declaration of a pipeline: stages that read a topic or a queue, change its rows and write
another.

    topic ──> extract ──> topic ──> transform ──> topic ──> load ──> lake
                 └──────────────────────┴───────────────────────┴──> dead letters

A declaration is the same however it was written, as TOML, as YAML or in Python: short forms have
been written out, what was not said has its default, and everything that can be known without a
broker and without Spark has been checked (see `checking`).

A stage does, in this order, what it says of: `schema`, `enrich`, `where`, `each`, `python`, `sql`,
`select`, `expect`. For another order, make two stages of it.
"""

from typing import Annotated, Literal

import msgspec

PARTITIONS_DEFAULT = 4
ROWS_PER_TRIGGER = 100_000
RESTARTS_DEFAULT = 5
TRIGGER_DEFAULT = "500ms"

Literalised = str | int | float | bool
"""A literal in a check: a text, a number, true or false."""
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any part of a declaration: what it does not know is refused."""


class Column(Part, frozen=True, kw_only=True):
    """A column of the JSON that a message holds, and what must be true of it."""

    type: str
    """The SQL type: string, bigint, double, timestamp, array<string>, struct<a: int>, …"""
    required: bool = False
    """True if the value must exist and not be null."""
    min: int | float | str | None = None
    max: int | float | str | None = None
    pattern: str | None = None
    """A regular expression of Java that some part of the text matches."""
    allowed: tuple[Literalised, ...] = ()
    """The allowed values; any if empty."""
    check: str | None = None
    """An SQL condition; null counts as met, as in SQL's own CHECK."""


class Source(Part, frozen=True, kw_only=True):
    """The source of a stage's rows: one of topic, queue and stage."""

    topic: str | None = None
    queue: str | None = None
    stage: str | None = None
    """An earlier stage: what it writes."""
    group: str | None = None
    """The reader's name at the broker: pipeline-stage unless given."""
    start: str = "earliest"
    """The start of the first run: earliest or latest."""


class Target(Part, frozen=True, kw_only=True):
    """The target of a stage's rows: one of topic, queue and lake."""

    topic: str | None = None
    queue: str | None = None
    lake: str | None = None
    """A directory of Parquet files, on this machine or wherever Spark can write."""
    partition_by: tuple[str, ...] = ()
    """Columns that become directories of a lake."""


class Table(Part, frozen=True, kw_only=True):
    """A table that rows are joined with, small enough to be held by every worker."""

    keys: tuple[str, ...]
    """Columns of both by which a row finds its match."""
    path: str | None = None
    """Parquet, CSV or JSON, by its ending; relative to the file of the pipeline."""
    format: str | None = None
    sql: str | None = None
    """A query, instead of a path."""
    columns: tuple[str, ...] = ()
    """The columns to add; all if empty."""
    missing: Literal["keep", "drop", "dead"] = "keep"
    """A row without a match: keep it with nulls, drop it, or make it a dead letter."""


class Stage(Part, frozen=True, kw_only=True, rename={"source": "from"}):
    """One step: a query of Structured Streaming."""

    name: Name
    source: Source
    to: Target
    schema: dict[str, Column] = {}
    """Empty: that of the stage before, or, of a topic, the text `value`."""
    enrich: tuple[Table, ...] = ()
    where: str | None = None
    each: str | None = None
    """module:function, from the row as a dict to a dict, or to None to drop it. What it raises
    makes the row a dead letter."""
    gives: dict[str, str] = {}
    """The columns and types that `each` returns; by default those of its input."""
    python: str | None = None
    """module:function, from a DataFrame to a DataFrame."""
    sql: str | None = None
    """A query of the table `input`."""
    watermark: str | None = None
    """A column and a delay, "at 10 minutes": what windows of `python` and `sql` need."""
    select: tuple[str, ...] = ()
    expect: dict[str, str] = {}
    """Conditions on what comes out, each with the reason that its failing is."""
    key: str | None = None
    """The key of the written message, in SQL; by default the key of the message read."""
    dead_letters: str
    trigger: str
    max_per_trigger: int


class Declaration(Part, frozen=True, kw_only=True):
    """A complete pipeline."""

    name: Name
    broker: str | None = None
    """The broker's address; by default that of the chosen context."""
    state: str | None = None
    """The directory of checkpoints; by default one of the user's."""
    partitions: Count = PARTITIONS_DEFAULT
    """Of topics that have to be made."""
    restarts: int = RESTARTS_DEFAULT
    """The number of consecutive failures of a stage after which the pipeline gives up."""
    settings: dict[str, str] = {}
    """Settings of Spark."""
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """Return the stage of this name."""
        return next(one for one in self.stages if one.name == name)

    def input_of(self, stage: Stage) -> str:
        """The topic that a stage reads; a queue is a topic too."""
        source = stage.source
        if source.stage is not None:
            before = self.stage(source.stage).to
            name = before.topic or before.queue
            assert name is not None, f"stage {source.stage} writes no topic"
            return name
        named = source.topic or source.queue
        assert named is not None, f"stage {stage.name} reads nothing"
        return named

    def group_of(self, stage: Stage) -> str:
        """The group that reads for a stage."""
        return stage.source.group or f"{self.name}-{stage.name}"


class WrittenStage(Part, frozen=True, kw_only=True, rename={"source": "from"}):
    """A stage as a person writes it: with short forms, and with much left unsaid."""

    name: Name
    source: str | Source | None = None
    to: str | Target | None = None
    schema: dict[str, str | Column] = {}
    enrich: Table | list[Table] = []
    where: str | None = None
    each: str | None = None
    gives: dict[str, str] = {}
    python: str | None = None
    sql: str | None = None
    watermark: str | None = None
    select: str | list[str] = []
    expect: dict[str, str] = {}
    key: str | None = None
    dead_letters: str | None = None
    trigger: str | None = None
    max_per_trigger: Count | None = None


class Written(Part, frozen=True, kw_only=True):
    """A pipeline as a person writes it."""

    name: Name
    broker: str | None = None
    state: str | None = None
    dead_letters: str | None = None
    trigger: str = TRIGGER_DEFAULT
    max_per_trigger: Count = ROWS_PER_TRIGGER
    partitions: Count = PARTITIONS_DEFAULT
    restarts: Annotated[int, msgspec.Meta(ge=0)] = RESTARTS_DEFAULT
    settings: dict[str, str] = {}
    stages: list[WrittenStage]
