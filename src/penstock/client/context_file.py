"""The file in which addresses of brokers have names, so that they need not be typed each time.

    current = "production"

    [contexts.production]
    url = "penstock://a.example:9092,b.example:9092"
    http = "a.example:8080"

It is `contexts.toml` under `$XDG_CONFIG_HOME/penstock`, which is `~/.config/penstock` unless that
variable says otherwise. A person may edit it; what cannot be read is an error that names the file,
never an empty list, because the next write would lose what is in it.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.core.errors import LocalError

FILE_NAME = "contexts.toml"
CONTEXT_VARIABLE = "PENSTOCK_CONTEXT"
"""Chooses a context for one shell, over the one the file says is current."""
FILE_BYTES_MAX = 1 << 20

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The addresses of a broker; either may be missing."""

    url: str = ""
    http: str = ""


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The named addresses, and which one is in use."""

    current: str = ""
    contexts: Mapping[str, Context] = {}

    def chosen_name(self, environment: Mapping[str, str]) -> str:
        """The name of the context that counts now; empty if none was chosen."""
        return environment.get(CONTEXT_VARIABLE) or self.current

    def chosen(self, environment: Mapping[str, str]) -> tuple[str, Context] | None:
        """The context that counts now, and its name; None if none was chosen."""
        name = self.chosen_name(environment)
        if not name:
            return None
        found = self.contexts.get(name)
        if found is None:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise LocalError(f"there is no context {name}; there are: {known}")
        return name, found


def context_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the file, whether it exists or not."""
    base = environment.get("XDG_CONFIG_HOME")
    # The convention says that a path which is not absolute does not count.
    directory = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    return directory / "penstock" / FILE_NAME


def read_contexts(path: Path) -> Contexts:
    """Read the contexts; none if there is no file."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise LocalError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise LocalError(f"{path} is too large to be a list of contexts")
    try:
        return msgspec.toml.decode(data, type=Contexts)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LocalError(f"{path} cannot be understood: {error}; correct or remove it") from error


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Replace the file; one that is half written is never seen."""
    text = format_contexts(contexts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=FILE_NAME)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise LocalError(f"{path} cannot be written: {error.strerror}") from error


def format_contexts(contexts: Contexts) -> str:
    """Format the contexts as the text of the file."""
    parts = [f"current = {_quoted(contexts.current)}\n"] if contexts.current else []
    for name, context in sorted(contexts.contexts.items()):
        lines = [f"[contexts.{name}]"]
        lines += [f"{key} = {_quoted(value)}" for key, value in _fields(context) if value]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def check_name(name: str) -> None:
    """Refuse a name that would have to be quoted somewhere."""
    if not _NAME.fullmatch(name):
        raise LocalError(
            f'"{name}" cannot name a context: letters, digits, - and _ can, at most 64 of them'
        )


def _fields(context: Context) -> list[tuple[str, str]]:
    return [("url", context.url), ("http", context.http)]


def _quoted(text: str) -> str:
    """Quote a text as TOML does, which differs from JSON in one character."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
