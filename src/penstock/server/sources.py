"""The sources of settings, in the order of precedence: flag, variable, file, default.

Every value keeps its source, so that `penstock config show` and an error can say where it was
written. The file is the one named by `--config` or `PENSTOCK_CONFIG`, else `penstock.toml` in the
current directory if there is one. An unknown key, in the file or among the variables that start
with `PENSTOCK_`, is an error and not ignored: a setting that was misspelled would otherwise be
missed on the day it is needed.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NoReturn

import msgspec

from penstock.core.errors import LocalError
from penstock.server.config import (
    BARE_SECTION,
    BY_NAME,
    BY_VARIABLE,
    ENVIRONMENT_PREFIX,
    FIELDS,
    Config,
    Field,
    make_config,
    sections,
)

CONFIG_VARIABLE = "PENSTOCK_CONFIG"
NO_SETTINGS = (CONFIG_VARIABLE, "PENSTOCK_URL", "PENSTOCK_CONTEXT", "PENSTOCK_WORKER_NUMBER")
"""Variables of the command line, of clients and of workers. A broker ignores them instead of taking
them for misspelled settings."""
DEFAULT_FILE = "penstock.toml"
FILE_BYTES_MAX = 1 << 20

_SERVICE_LINK = re.compile(
    r"PENSTOCK_(?:\w+_)?(?:SERVICE_(?:HOST|PORT\w*)|PORT_\d+_(?:TCP|UDP|SCTP)\w*)=.*"
    r"|PENSTOCK_(?:\w+_)?PORT=(?:tcp|udp|sctp)://.*"
)
"""Kubernetes gives every pod variables like these about a service named penstock-…"""


class Origin(Enum):
    """The kinds of sources, weakest first."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a value."""

    origin: Origin
    place: str = ""
    """The flag, the variable, or the file."""

    def __str__(self) -> str:
        return f"{self.origin.value} {self.place}".rstrip()


DEFAULT = Source(origin=Origin.DEFAULT)


class LoadedConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and where each value of it comes from."""

    config: Config
    sources: Mapping[str, Source]
    """The sources, by name of field."""
    file: str | None
    """The file that was read."""

    def source(self, of: Field) -> Source:
        return self.sources[of.name]

    def is_default(self, name: str) -> bool:
        """True if the value is a default."""
        return self.sources[name].origin is Origin.DEFAULT

    def rows(self) -> Iterator[tuple[Field, object, Source]]:
        """Each field with its value and source, in order."""
        for entry in FIELDS:
            yield entry, self.config.value(entry), self.sources[entry.name]

    def changed(self, values: Mapping[str, object], place: str) -> "LoadedConfig":
        """Return a copy with other defaults, for a command that has its own."""
        chosen = {entry.name: value for entry, value, _ in self.rows()} | dict(values)
        source = Source(origin=Origin.DEFAULT, place=place)
        return LoadedConfig(
            config=make_config(chosen),
            sources={**self.sources, **dict.fromkeys(values, source)},
            file=self.file,
        )


def load_config(
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    file: str | None = None,
) -> LoadedConfig:
    """Read all sources. `flags` goes by name of field; `file` is what `--config` says."""
    path = _choose_file(file, environment)
    values: dict[str, object] = {}
    sources: dict[str, Source] = {entry.name: DEFAULT for entry in FIELDS}

    def take(entries: Iterable[tuple[Field, object, Source]]) -> None:
        for entry, written, source in entries:
            values[entry.name] = parse_value(entry, written, source)
            sources[entry.name] = source

    if path is not None:
        take(_from_file(path))
    take(_from_environment(environment))
    take(
        (BY_NAME[name], written, Source(origin=Origin.FLAG, place=BY_NAME[name].flag))
        for name, written in flags.items()
    )
    return _follow_cluster(LoadedConfig(config=make_config(values), sources=sources, file=path))


def _follow_cluster(loaded: LoadedConfig) -> LoadedConfig:
    """A node listens for its peers at its address in the cluster, unless configured otherwise."""
    broker = loaded.config.broker
    own = [member.address for member in broker.cluster if member.node == broker.node_id]
    if own and loaded.is_default("peer"):
        return loaded.changed({"peer": own[0]}, "from cluster")
    return loaded


def parse_value(entry: Field, written: object, source: Source) -> object:
    """Read one value; the error is one sentence that names it all."""
    secret = entry.notation.secret
    try:
        return entry.notation.parse(_read_secret(entry, written, source) if secret else written)
    except ValueError as error:
        shown = f'"{written}"' if isinstance(written, str) else str(written)
        value = "" if secret else f" = {shown}"
        raise LocalError(
            f"{entry.name}{value} ({source}) is not allowed: it must be {entry.notation.allowed}"
        ) from (None if secret else error)


def _read_secret(entry: Field, written: object, source: Source) -> object:
    """Return the secret: the value itself, or the content of the file it names."""
    if not isinstance(written, str) or not written.startswith("@"):
        return written
    path = written[1:]
    try:
        with open(path, "rb") as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8").strip()
    except OSError as error:
        raise LocalError(
            f"{entry.name} ({source}) names the file {path}, which cannot be read:"
            f" {error.strerror or error}"
        ) from error


def _choose_file(file: str | None, environment: Mapping[str, str]) -> str | None:
    named = file or environment.get(CONFIG_VARIABLE)
    if named is not None:
        return named
    return DEFAULT_FILE if os.path.isfile(DEFAULT_FILE) else None


def _from_file(path: str) -> Iterator[tuple[Field, object, Source]]:
    source = Source(origin=Origin.FILE, place=path)
    for name, written in _flatten(_read_toml(path), path):
        entry = BY_NAME.get(name)
        if entry is None:
            _refuse_unknown(name, BY_NAME, f"{path} has an unknown key {name}")
        yield entry, written, source


def _read_toml(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LocalError(
            f"the configuration {path} cannot be read: {error.strerror or error}"
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise LocalError(f"the configuration {path} is over {FILE_BYTES_MAX} bytes; is it one?")
    import tomllib  # noqa: PLC0415 - most brokers have no file

    try:
        return tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        raise LocalError(f"the configuration {path} is no valid TOML: {error}") from error


def _flatten(document: Mapping[str, object], path: str) -> Iterator[tuple[str, object]]:
    """Names of fields, as far as they have the right shape."""
    tables = {section for section, _ in sections()} - {BARE_SECTION}
    for key, value in document.items():
        if not isinstance(value, dict):
            yield key, value
        elif key in tables:
            for inner, deep in value.items():
                yield f"{key}.{inner}", deep
        else:
            known = [*tables, *BY_NAME]
            _refuse_unknown(key, known, f"{path} has an unknown section [{key}]")


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[Field, object, Source]]:
    for variable, written in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in NO_SETTINGS:
            continue
        entry = BY_VARIABLE.get(variable)
        if entry is not None:
            yield entry, written, Source(origin=Origin.ENVIRONMENT, place=variable)
        elif not _SERVICE_LINK.fullmatch(f"{variable}={written}"):
            known = [*BY_VARIABLE, *NO_SETTINGS]
            _refuse_unknown(variable, known, f"the environment has an unknown variable {variable}")


def _refuse_unknown(name: str, known: Iterable[str], sentence: str) -> NoReturn:
    import difflib  # noqa: PLC0415 - most settings are known

    # What all of them begin with says nothing about which one was meant.
    short = {each.removeprefix(ENVIRONMENT_PREFIX): each for each in known}
    wanted = name.removeprefix(ENVIRONMENT_PREFIX).replace("-", "_")
    near = difflib.get_close_matches(wanted, list(short), n=1)
    hint = f"did you mean {short[near[0]]}?" if near else "see: penstock config reference"
    raise LocalError(f"{sentence}; {hint}")
