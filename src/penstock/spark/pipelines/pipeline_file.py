"""A pipeline from a file: TOML, YAML, or Python with a `Pipeline` in it.

Nothing is guessed. An unknown key is refused with the path it stands at and the nearest
key there is, and so is a value of another kind; paths are written as in a program:
`stages[1].schema.amount`.
"""

import datetime as dt
import importlib
import re
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from penstock.core.errors import InvalidRequest, NotInstalled
from penstock.core.extras import how_to_install
from penstock.spark.pipelines.checks import check
from penstock.spark.pipelines.declaration import (
    Column,
    Declaration,
    Part,
    Source,
    Table,
    Target,
    Written,
    WrittenStage,
)
from penstock.spark.pipelines.short_forms import write_out

FILE_BYTES_MAX = 1 << 20
SUFFIXES = (".toml", ".yaml", ".yml", ".py")

_WHERE = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_KNOWN_BELOW: Mapping[type[Part], Mapping[str, type[Part]]] = {
    Written: {"stages": WrittenStage},
    WrittenStage: {"from": Source, "to": Target, "enrich": Table, "schema": Column},
}
_BY_NAME = frozenset({"schema"})
"""Keys whose values are tables with names that the user chooses."""


def read_pipeline(path: Path) -> Declaration:
    """The declaration in a file, checked; `InvalidRequest` says what is wrong with it and where."""
    if path.suffix not in SUFFIXES:
        raise InvalidRequest(f"{path} must end in {', '.join(SUFFIXES)}: it tells how to read it")
    if path.suffix == ".py":
        return _python(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidRequest(
            f"{path} cannot be read: {error.strerror}; begin one with `penstock pipeline new NAME`"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidRequest(f"{path} is too large to be a pipeline")
    try:
        return parse_text(data.decode(), path.suffix, path.parent.absolute())
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is no text: {error.reason}") from error
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error}") from error


def parse_text(text: str, suffix: str, directory: Path) -> Declaration:
    """The declaration in a text that would be a file of this suffix in this directory."""
    try:
        document = tomllib.loads(text) if suffix == ".toml" else _yaml(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"no TOML: {error}") from error
    return parse(document, directory)


def parse(document: object, directory: Path | None = None) -> Declaration:
    """The declaration that a document of plain dicts and lists is; its paths are seen from
    `directory`."""
    if not isinstance(document, dict):
        raise InvalidRequest("a pipeline is a table with the keys name and stages")
    _check_keys(document, Written, "")
    try:
        written = msgspec.convert(_plain(document), Written)
    except msgspec.ValidationError as error:
        raise InvalidRequest(_sentence(error)) from error
    declaration = write_out(written, directory)
    check(declaration)
    return declaration


def _check_keys(table: Mapping[Any, Any], kind: type[Part], path: str) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        here = f"{path}.{key}" if path else str(key)
        if key not in known:
            near = get_close_matches(str(key), sorted(known), n=1, cutoff=0.5)
            hint = f"is {near[0]} meant?" if near else f"known are: {', '.join(sorted(known))}"
            raise InvalidRequest(f"{here} is no key of a pipeline; {hint}")
        below = _KNOWN_BELOW.get(kind, {}).get(key)
        if below is None:
            continue
        for place, part in _parts(value, here, by_name=key in _BY_NAME):
            _check_keys(part, below, place)


def _parts(value: object, path: str, *, by_name: bool) -> list[tuple[str, Mapping[Any, Any]]]:
    if isinstance(value, list):
        found = [(f"{path}[{number}]", one) for number, one in enumerate(value)]
    elif isinstance(value, dict) and by_name:
        found = [(f"{path}.{name}", one) for name, one in value.items()]
    else:
        found = [(path, value)]
    return [(place, one) for place, one in found if isinstance(one, dict)]


def _plain(value: object) -> object:
    """Dates of TOML and YAML as the texts that SQL wants."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return value


def _sentence(error: msgspec.ValidationError) -> str:
    matched = _WHERE.fullmatch(str(error))
    assert matched is not None, f"{error} is not written as msgspec writes"
    where, problem = matched["path"] or "the pipeline", matched["problem"]
    if "matching regex" in problem:
        problem = "a name has letters, digits, dots, - and _, begins with one of the first two, and"
        problem += " is at most 100 characters long"
    return f"{where}: {problem[0].lower()}{problem[1:]}"


def _yaml(text: str) -> object:
    try:
        import yaml  # noqa: PLC0415 - it is not there on every machine
    except ModuleNotFoundError as error:
        raise NotInstalled(f"YAML needs a package: {how_to_install('spark')}") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be understood"
        raise InvalidRequest(f"no YAML{place}: {problem}") from error


def _python(path: Path) -> Declaration:
    """Return the only pipeline in a Python file, whatever its name is."""
    from penstock.spark.pipelines.pipeline import Pipeline  # noqa: PLC0415 - it imports this one

    if not path.is_file():
        raise InvalidRequest(f"{path} is not there")
    directory = str(path.parent.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        module = importlib.import_module(path.stem)
    except Exception as error:
        raise InvalidRequest(
            f"{path} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found = [one for one in vars(module).values() if isinstance(one, Pipeline)]
    if len({id(one) for one in found}) != 1:
        count = "no" if not found else "more than one"
        raise InvalidRequest(f"{path} has {count} penstock.spark.Pipeline; it must have one")
    return found[0].declaration
