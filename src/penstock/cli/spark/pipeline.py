"""`penstock pipeline …`: data pipelines on Spark, declared in one file.

Everything about them is in `penstock.spark.pipelines`; here they are run with a display of their
progress. What needs Spark is imported where it is needed: the other commands must not wait for it.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from penstock.cli.address_flags import (
    DEFAULT_URL,
    HERE,
    URL_VARIABLE,
    BrokerAddress,
    context_url,
)
from penstock.cli.admin import Json, print_json
from penstock.cli.table import format_age, print_table
from penstock.core.clock import SystemClock
from penstock.core.errors import LocalError
from penstock.core.pipeline_report import PipelineReport

if TYPE_CHECKING:
    from penstock.spark.pipelines.declaration import Declaration

app = App(name="pipeline", help="Run data pipelines on Spark.")

File = Annotated[
    Path,
    Parameter(
        metavar="FILE",
        help="The file of the pipeline: TOML, YAML, Python, a spark-pipeline.yml or its directory.",
    ),
]
Master = Annotated[
    str,
    Parameter(metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://…"),
]
Url = Annotated[
    str | None,
    Parameter(
        name=["--url", "-u"],
        metavar="URL",
        show_default=False,
        help="Address of the broker; overrides the file, PENSTOCK_URL and the context.",
    ),
]
State = Annotated[
    Path | None,
    Parameter(
        metavar="DIRECTORY",
        show_default=False,
        help="The directory of checkpoints, instead of the user's state directory.",
    ),
]


class _Pipelines(msgspec.Struct):
    pipelines: list[PipelineReport]


@app.command
def run(
    file: File,
    /,
    *,
    master: Master = "local[*]",
    once: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Process the existing messages, and exit."),
    ] = False,
    fresh: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Discard the checkpoints: read everything again, and write it again.",
        ),
    ] = False,
    url: Url = None,
    state: State = None,
    json: Json = False,
) -> int:
    """Run a pipeline, until Ctrl-C or SIGTERM stops it.

    Each stage reads a topic or a queue and writes another, or a lake. Rows that are not what they
    should be go to the dead letters, with the reason, and stop nothing. A run that was killed goes
    on where it was, and what was written is not written twice. On a terminal there is a table of
    all stages; in a pipe a line for each change, and with --json a document for each.

    Examples
    --------
    penstock pipeline run orders.toml
    penstock pipeline run orders.yaml --once --master 'local[4]'
    penstock pipeline run orders.py --master spark://spark.example:7077 --json
    # A pipeline in Spark's own declarative form:
    penstock pipeline run sales/spark-pipeline.yml --master 'local[2]'
    """
    need_spark()
    from penstock.spark.pipelines.declarative import run_declarative, specification_in

    specification = specification_in(file)
    if specification is not None:
        place = state or specification.absolute().parent / ".penstock"
        return run_declarative(
            specification, master=master, state=place, url=url or known_url(os.environ)
        )
    from penstock.cli.spark.pipeline_screen import screen
    from penstock.spark.pipelines.pipeline_file import read_pipeline
    from penstock.spark.pipelines.runner import run_pipeline

    declaration = read_pipeline(file)
    with screen(json=json) as show:
        ended = run_pipeline(
            declaration,
            master=master,
            once=once,
            fresh=fresh,
            url=url or declaration.broker or known_url(os.environ),
            state=state,
            directory=file.absolute().parent,
            show=show,
        )
    return 1 if ended.state == "failed" else 0


@app.command
def check(
    file: File,
    /,
    *,
    master: Master = "local[1]",
    quick: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Do not start Spark: leave SQL, functions and tables unchecked.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check a pipeline and the schemas of its stages without running it.

    Keys, names and durations are checked first; then Spark reads the tables, imports the functions
    and tries every expression against the columns there are. No broker is asked.

    Examples
    --------
    penstock pipeline check orders.toml
    penstock pipeline check orders.toml --quick
    """
    from penstock.spark.pipelines.pipeline_file import read_pipeline

    declaration = read_pipeline(file)
    columns: Mapping[str, Mapping[str, str]] = {}
    if not quick:
        columns = _tried(declaration, file, master)
    if json:
        print_json({"pipeline": declaration.name, "sound": True, "columns": columns})
        return
    for stage, types in columns.items():
        print(f"{stage}: {', '.join(f'{name} {kind}' for name, kind in types.items())}")
    tried = "" if not quick else "; Spark was not asked about its expressions"
    print(f"pipeline {declaration.name} is sound, {len(declaration.stages)} stages{tried}")


@app.command
def show(file: File, /, *, json: Json = False) -> None:
    """Draw the stages of a pipeline: what each reads, does and writes.

    Examples
    --------
    penstock pipeline show orders.toml
    penstock pipeline show orders.toml --json
    """
    from penstock.spark.pipelines.diagram import draw
    from penstock.spark.pipelines.pipeline_file import read_pipeline

    declaration = read_pipeline(file)
    if json:
        print_json(declaration)
    else:
        print(draw(declaration))


@app.command
def new(
    name: Annotated[str, Parameter(help="The name of the pipeline; the file is NAME.toml.")],
    /,
    *,
    force: Annotated[
        bool, Parameter(negative="", show_default=False, help="Replace an existing file.")
    ] = False,
    json: Json = False,
) -> None:
    """Write an example pipeline, with a comment on every option.

    Examples
    --------
    penstock pipeline new orders
    """
    from penstock.spark.pipelines.example import example
    from penstock.spark.pipelines.pipeline_file import parse_text

    path = Path(f"{name}.toml")
    text = example(name, path.name)
    parse_text(text, ".toml", Path.cwd())  # A name that cannot be one is refused by this.
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise LocalError(f"{path} exists already; add --force to replace it") from error
    except OSError as error:
        raise LocalError(f"{path} cannot be written: {error.strerror}") from error
    if json:
        print_json({"path": str(path)})
        return
    print(f"{path}: now `penstock pipeline check {path}`")


@app.command
def status(
    name: Annotated[str | None, Parameter(show_default=False, help="Only this pipeline.")] = None,
    /,
    *,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Show the last reports of pipelines, stage by stage.

    The cluster keeps the last report of each, also of one that has ended; the dashboard shows the
    same. One that runs and has not reported for half a minute is silent.

    Examples
    --------
    penstock pipeline status
    penstock pipeline status orders --json
    """
    found = broker.ask_for("GET", "/v1/pipelines", _Pipelines).pipelines
    chosen = [one for one in found if name in (None, one.pipeline)]
    if name is not None and not chosen:
        known = ", ".join(one.pipeline for one in found) or "none yet"
        raise LocalError(f"no pipeline {name} has reported; those that have: {known}")
    if json:
        print_json(chosen)
        return
    if not chosen:
        print("no pipeline has reported yet; run one: penstock pipeline run FILE", file=sys.stderr)
        return
    now_ms = SystemClock().wall_ms()
    for report in chosen:
        age = format_age(max(0, now_ms - report.reported_ms))
        print(f"{report.pipeline}: {report.state}, on {report.host}, reported {age} ago")
        print_table(HEADS, [stage_row(report, number) for number in range(len(report.stages))])
        for stage in report.stages:
            if stage.error:
                print(f"{stage.stage}: {stage.error}")


HEADS = ("STAGE", "STATE", "IN", "OUT", "DEAD", "ROWS/S", "LAG", "BATCH MS")


def stage_row(report: PipelineReport, number: int) -> tuple[object, ...]:
    """The row of a stage in the table."""
    one = report.stages[number]
    lag = "-" if one.lag is None else one.lag
    return (one.stage, one.state, one.rows_in, one.rows_out, one.rows_dead, round(one.rate), lag,
            one.batch_ms)  # fmt: skip


def known_url(environment: Mapping[str, str]) -> str:
    """The address of the broker if neither a flag nor the file gives it."""
    return environment.get(URL_VARIABLE) or context_url(environment, may_lack=True) or DEFAULT_URL


def need_spark() -> None:
    """Refuse now what would end in an error of Python's."""
    from penstock.spark.sessions import check_packages

    check_packages()


def _tried(declaration: "Declaration", file: Path, master: str) -> dict[str, dict[str, str]]:
    need_spark()
    from penstock.spark.pipelines.plans import Plans, pipeline_session

    spark = pipeline_session(declaration, master=master, once=True)
    try:
        found = Plans(spark, declaration, file.absolute().parent).check()
        return {
            stage: {one.name: one.dataType.simpleString() for one in columns.fields}
            for stage, columns in found.items()
        }
    finally:
        spark.stop()
