"""What Kafka's messages look like: the lines of `messages.txt`, read into fields.

A message has one list of fields for all its versions, and each field says in which versions it is
there, in which it may be null, and what stands for it where it is not. `kafka.codec` makes readers
and writers of it. The text file is data: it is read when the first message is wanted, and a message
is looked at when it is first used, so that starting a broker does not cost what it never needs.

Types are Kafka's: int8 … int64, uint16, float64, bool, uuid, string, bytes, records, struct and,
with `[]` before them, arrays of these. Four words more tell what a number means: error_code,
timedelta_i32 and timedelta_i64 (milliseconds) and datetime_i64 (milliseconds since 1970).
"""

import re
from functools import cache
from pkgutil import get_data
from typing import Final, Literal

import msgspec

Direction = Literal["request", "response"]
Span = tuple[int, int]

REQUIRED: Final = msgspec.UNSET
"""The default of a field that has none."""

_NEUTRAL: Final[dict[str, object]] = {
    "bool": False, "bytes": b"", "records": None, "string": "", "uuid": bytes(16),
}  # fmt: skip
_OPENING = re.compile(
    r"^(?P<name>\w+) (?P<direction>\w+) key (?P<key>\d+) versions (?P<versions>[\d-]+)"
    r"(?: flexible (?P<flexible>[\d-]+))?$",
    re.MULTILINE,
)


class Field(msgspec.Struct, frozen=True):
    """One field of a message, for all versions."""

    name: str
    kind: str
    is_array: bool
    versions: Span
    null: Span | None
    tag: int | None
    default: object
    children: tuple["Field", ...] = ()

    def exists_in(self, version: int) -> bool:
        """Whether the version has this field."""
        return self.versions[0] <= version <= self.versions[1]

    def may_be_null_in(self, version: int) -> bool:
        """Whether the field may be null there; a uuid never is, it is zero."""
        return self.null is not None and self.null[0] <= version <= self.null[1]

    @property
    def neutral(self) -> object:
        """What stands for the field where it is missing: its default, or nothing at all."""
        if self.default is not REQUIRED:
            return self.default
        if self.is_array:
            return ()
        if self.kind == "struct":
            return None
        return _NEUTRAL.get(self.kind, 0)


class Schema(msgspec.Struct, frozen=True):
    """One message: its fields, and the versions in which it exists and is flexible (KIP-482)."""

    name: str
    key: int
    direction: str
    versions: Span
    flexible: Span | None
    fields: tuple[Field, ...]

    def is_flexible_in(self, version: int) -> bool:
        """Whether the version has compact lengths and tagged fields."""
        return self.flexible is not None and self.flexible[0] <= version <= self.flexible[1]


@cache
def schema_of(key: int, direction: Direction) -> Schema:
    """The message of an API key, in one direction."""
    opening, text = _messages()[key, direction]
    lines = [line for line in text.split("\n") if line]
    return Schema(
        name=opening["name"],
        key=key,
        direction=direction,
        versions=_span(opening["versions"]),
        flexible=flexible_versions(key, direction),
        fields=_fields(lines, 0, len(lines), "  "),
    )


def flexible_versions(key: int, direction: Direction) -> Span | None:
    """The versions in which a message is flexible: all that is asked of most messages, most of the
    time, and known without reading their fields."""
    opening, _ = _messages()[key, direction]
    return _span(opening["flexible"]) if opening["flexible"] else None


@cache
def _messages() -> dict[tuple[int, str], tuple[re.Match[str], str]]:
    """The opening line and the fields' lines of every message."""
    data = get_data("penstock.kafka", "messages.txt")
    assert data is not None, "messages.txt is a part of the package"
    text = data.decode("utf-8")
    openings = list(_OPENING.finditer(text))
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    return {
        (int(opening["key"]), opening["direction"]): (opening, text[opening.end() : end])
        for opening, end in zip(openings, ends, strict=True)
    }


def _fields(lines: list[str], start: int, end: int, indent: str) -> tuple[Field, ...]:
    """The fields between two lines that stand exactly as deep as `indent`."""
    if start == end:
        return ()
    deeper = indent + " "
    firsts = [at for at in range(start, end) if not lines[at].startswith(deeper)]
    return tuple(
        _field(lines[at], _fields(lines, at + 1, following, indent + "  "))
        for at, following in zip(firsts, [*firsts[1:], end], strict=True)
    )


def _field(line: str, children: tuple[Field, ...]) -> Field:
    name, kind, versions, *more = line.split()
    marks = dict(zip(more[::2], more[1::2], strict=True))
    return Field(
        name=name,
        kind=kind.removeprefix("[]"),
        is_array=kind.startswith("[]"),
        versions=_span(versions),
        null=_span(marks["null"]) if "null" in marks else None,
        tag=int(marks["tag"]) if "tag" in marks else None,
        default=msgspec.json.decode(marks["default"]) if "default" in marks else REQUIRED,
        children=children,
    )


def _span(text: str) -> Span:
    first, last = text.split("-")
    return int(first), int(last)
