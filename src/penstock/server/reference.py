"""The settings explained: as a file to start from, and as a page of the documentation."""

import textwrap
from collections.abc import Iterator

from penstock.server.config import BARE_SECTION, FIELDS, Field, sections
from penstock.server.sources import CONFIG_VARIABLE, DEFAULT_FILE

_WIDTH = 96
_INTRODUCTION = f"""\
A value is taken from the first of these that has it: a flag, an environment variable, the
configuration file, the default. The file is the one named by `--config` or `{CONFIG_VARIABLE}`,
else `{DEFAULT_FILE}` in the current directory if there is one. What is not known is an error.
`penstock config show` prints every value with its source, `penstock config reference` a file to
start from.

Sizes are written as "64MiB" (B, KiB, MiB, GiB), durations as "30s" (ms, s, m, h, d)."""


def reference_toml() -> str:
    """A commented file with every setting; taking a `#` away sets nothing new but says it."""
    lines = [
        "# Settings of a Penstock broker. Values are the defaults; what has none is in capitals.",
        "# A flag counts more than a variable, a variable more than this file.",
    ]
    for section, cls in sections():
        title = _title(cls)
        lines += (
            ["", f"# {title}"] if section == BARE_SECTION else ["", f"# {title}", f"[{section}]"]
        )
        for entry in FIELDS:
            if entry.section == section:
                lines += ["", *_commented(entry.meaning), f"# {entry.key} = {_toml(entry)}"]
    return "\n".join(lines) + "\n"


def reference_page() -> str:
    """docs/reference/config.md without its notice."""
    parts = [_INTRODUCTION]
    for section, cls in sections():
        heading = "Top level" if section == BARE_SECTION else f"[{section}]"
        parts += [f"## {heading}", _title(cls), "\n".join(_table(section))]
    return "\n\n".join(parts) + "\n"


def _table(section: str) -> Iterator[str]:
    yield "| key | default | flag and variable | what it is |"
    yield "|---|---|---|---|"
    for entry in FIELDS:
        if entry.section == section:
            default = entry.written(entry.default)
            allowed = entry.notation.allowed.replace("|", "\\|")
            yield (
                f"| `{entry.key}` | {f'`{default}`' if default else ''} | `{entry.flag}`"
                f" `{entry.variable}` | {entry.meaning} {allowed[0].upper()}{allowed[1:]}. |"
            )


def _title(cls: type) -> str:
    assert cls.__doc__, f"{cls} has no docstring"
    return cls.__doc__.splitlines()[0]


def _commented(meaning: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(meaning, _WIDTH)]


def _toml(entry: Field) -> str:
    written = entry.written(entry.default) or entry.notation.placeholder
    if isinstance(entry.default, bool) or (isinstance(entry.default, int) and written.isdecimal()):
        return written
    return f'"{written}"'
