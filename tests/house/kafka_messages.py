"""Writes `src/penstock/kafka/messages.txt` from the schemas of the kio package.

kio has a class for every message and version; here they are merged into one list of fields per
message, each with the versions it belongs to, as Kafka itself describes its protocol. The page is
compared with the package by the house tests, and the bytes by tests/properties.
"""

import dataclasses
import datetime as dt
import types
import typing

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

HEAD = """\
# Every message of the Kafka protocol: a line names a message, and under it stand its fields.
# Generated from the kio package; `pytest tests/house --rewrite` renews it.
#
#   NAME DIRECTION key KEY versions FIRST-LAST [flexible FIRST-LAST]
#     NAME TYPE VERSIONS [null VERSIONS] [tag TAG] [default VALUE]
"""


class _Field:
    """One field while versions are being merged."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.versions: list[int] = []
        self.null: list[int] = []
        self.tag: int | None = None
        self.default = ""
        self.children: list[_Field] = []


def messages_page() -> str:
    """src/penstock/kafka/messages.txt."""
    lines = [HEAD.rstrip("\n")]
    for key, name in sorted(api_key_map.items()):
        versions = sorted(schema_name_map[name])
        for direction, load in (
            ("request", load_request_schema),
            ("response", load_response_schema),
        ):
            entities = {version: load(key, version) for version in versions}
            flexible = [version for version in versions if entities[version].__flexible__]
            line = f"{name} {direction} key {key} versions {_span(versions)}"
            lines += ["", line + (f" flexible {_span(flexible)}" if flexible else "")]
            merged: list[_Field] = []
            for version, entity in entities.items():
                _merge(merged, entity, version)
            lines += _lines(merged, "  ")
    return "\n".join(lines) + "\n"


def _merge(merged: list[_Field], entity: type, version: int) -> None:
    """Bring the fields of one version in, each new one behind the one it follows there."""
    place = 0
    for field in dataclasses.fields(entity):
        kind, inner, nullable = _kind(field)
        found = next((known for known in merged if known.name == field.name), None)
        if found is None:
            found = _Field(field.name, kind)
            merged.insert(place, found)
        assert found.kind == kind, f"{entity}: {field.name} was {found.kind} and is {kind}"
        place = merged.index(found) + 1
        found.versions.append(version)
        if nullable:
            found.null.append(version)
        if "tag" in field.metadata:
            found.tag = field.metadata["tag"]
        found.default = _default(field) or found.default
        if inner is not None:
            _merge(found.children, inner, version)


def _kind(field: dataclasses.Field[object]) -> tuple[str, type | None, bool]:
    """How the page spells the type, the class of its rows if it has any, and whether it is null."""
    kind: object = field.type
    arguments = typing.get_args(kind)
    nullable = isinstance(kind, types.UnionType) and type(None) in arguments
    if nullable:
        kind = next(part for part in arguments if part is not type(None))
    is_array = typing.get_origin(kind) is tuple
    if is_array:
        kind = typing.get_args(kind)[0]
    prefix = "[]" if is_array else ""
    if "kafka_type" in field.metadata:
        word = field.metadata["kafka_type"]
        return prefix + word, None, nullable and word != "uuid"
    assert isinstance(kind, type), field
    return prefix + "struct", kind, nullable


def _default(field: dataclasses.Field[object]) -> str:
    value = field.default
    if value is dataclasses.MISSING or value == ():
        return ""
    if value is None:
        return "" if field.metadata.get("kafka_type") == "uuid" else "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.timedelta):
        return str(round(value.total_seconds() * 1000))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return f'"{value}"'
    assert dataclasses.is_dataclass(value), field
    return ""


def _lines(fields: list[_Field], indent: str) -> list[str]:
    lines = []
    for field in fields:
        line = f"{indent}{field.name} {field.kind} {_span(field.versions)}"
        line += f" null {_span(field.null)}" if field.null else ""
        line += f" tag {field.tag}" if field.tag is not None else ""
        line += f" default {field.default}" if field.default else ""
        lines += [line, *_lines(field.children, indent + "  ")]
    return lines


def _span(versions: list[int]) -> str:
    assert versions == list(range(versions[0], versions[-1] + 1)), versions
    return f"{versions[0]}-{versions[-1]}"
