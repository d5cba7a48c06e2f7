"""The reference of the HTTP API: a page for people, and the OpenAPI document for programs."""

import json
from collections.abc import Iterator
from functools import lru_cache
from textwrap import fill
from typing import Any

import msgspec

from penstock.web.app import api_routes
from penstock.web.openapi import PATH, openapi_document
from tests.unit.web.asgi import FakeBroker

Document = dict[str, Any]

INTRODUCTION = f"""\
Every broker serves the same description as OpenAPI 3.1 at `{PATH}`; for tools that read files it is
also in [openapi.json](openapi.json). `/metrics`, the probes and the pages of the dashboard are not
part of it."""
WIDTH = 118


@lru_cache(maxsize=1)
def document() -> Document:
    """The description as a client reads it."""
    made = openapi_document(api_routes(FakeBroker()))
    decoded: Document = msgspec.json.decode(msgspec.json.encode(made))
    return decoded


def openapi_file() -> str:
    """docs/reference/openapi.json: a line for each path and document."""
    return "\n".join(_lines(document(), depth=3)) + "\n"


def _lines(value: Document, depth: int) -> Iterator[str]:
    yield "{"
    for number, (name, one) in enumerate(value.items(), 1):
        end = "," if number < len(value) else ""
        if depth > 1 and isinstance(one, dict):
            first, *others, last = _lines(one, depth - 1)
            yield from (f"{json.dumps(name)}: {first}", *others, f"{last}{end}")
        else:
            yield f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}{end}"
    yield "}"


def http_api_page(notice: str) -> str:
    """docs/reference/http-api.md."""
    described = document()
    about = fill(described["info"]["description"], WIDTH)
    parts = ["# HTTP API", notice, about, fill(INTRODUCTION, WIDTH)]
    tags: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            section = "\n\n".join(_operation(method, path, operation))
            tags.setdefault(operation["tags"][0], []).append(section)
    for tag, sections in sorted(tags.items()):
        parts += [f"## {tag.capitalize()}", *sections]
    parts.append("## Documents")
    for name, schema in described["components"]["schemas"].items():
        parts += _document(name, schema)
    return "\n\n".join(parts) + "\n"


def _operation(method: str, path: str, operation: Document) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield f"{operation['summary']}."
    rows = [
        f"| `{one['name']}` | {_kind(one['schema'])} | {one['description']} |"
        for one in operation["parameters"]
        if one["in"] == "query"
    ]
    if rows:
        yield "\n".join(["| parameter | type | what it does |", "|---|---|---|", *rows])
    lines = []
    if "requestBody" in operation:
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        lines.append(f"- Body: {_kind(body)}")
    refused = []
    for status, answer in operation["responses"].items():
        if "content" in answer:
            lines.append(f"- {status}: {_kind(answer['content']['application/json']['schema'])}")
        else:
            refused.append(status)
    yield "\n".join([*lines, f"- Refused with: {', '.join(refused)}"])


def _document(name: str, schema: Document) -> Iterator[str]:
    yield f"### {_short(name)}"
    if "description" in schema:
        yield fill(" ".join(schema["description"].split()), WIDTH)
    if "enum" in schema:
        yield f"One of {', '.join(f'`{one}`' for one in schema['enum'])}."
    required = schema.get("required", ())
    rows = [
        f"| `{field}`{'' if field in required else ' ?'} | {_kind(one)}"
        f" | {one.get('description', '')} |"
        for field, one in schema.get("properties", {}).items()
    ]
    if rows:
        yield "\n".join(["| field | type | what it is |", "|---|---|---|", *rows])


def _kind(schema: Document) -> str:
    """A type in a few words; documents are links."""
    if "$ref" in schema:
        name = _short(schema["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    match schema.get("type"):
        case "array" if isinstance(schema.get("items"), dict):
            return f"list of {_kind(schema['items'])}"
        case "array":
            return f"[{', '.join(_kind(one) for one in schema.get('prefixItems', ()))}]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_kind(schema['additionalProperties'])}"
        case str(name):
            low, high = schema.get("minimum"), schema.get("maximum")
            return name if low is None or high is None else f"{name}, {low:,} to {high:,}"
    return "anything"


def _short(name: str) -> str:
    """Two documents of one name are told apart by their modules."""
    *_, module, last = ("", *name.split(".")) if "." in name else ("", "", name)
    return f"{last}-{module}".replace("_", "-") if module else last
