"""The description of the HTTP API, in OpenAPI 3.1: `GET /v1/openapi.json`.

It is made from the routes and their types (`api_operation`), so it cannot say anything else than
what is served. The sentence below a field in the source is the description of the field.
"""

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from penstock.web.answers import HttpProblem, json_answer
from penstock.web.api_operation import ApiOperation

PATH = "/v1/openapi.json"
API_VERSION = "1"
"""Of the paths; releases only add to it."""
_REFERENCES = "#/components/schemas/{name}"
_JSON = "application/json"
_PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")
_ABOUT = """\
Any node of a cluster can be asked. Bodies and answers are JSON; a change needs \
`Content-Type: application/json`. A refusal is `{"error", "message"}`: the name of the error and \
one sentence. Times are milliseconds since 1970, durations are milliseconds."""

Document = dict[str, Any]


class DescribedApi(msgspec.Struct, frozen=True):
    """An OpenAPI document, which its own schema leaves open."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


def openapi_route(routes: Iterable[BaseRoute]) -> ApiOperation:
    """The path of the document, which describes itself, too."""
    made: list[Response] = []

    async def answer(_request: Request) -> Response:
        if not made:  # It takes a tenth of a second, mostly to read the sources.
            made.append(json_answer(await asyncio.to_thread(openapi_document, described)))
        return made[0]

    route = ApiOperation(
        "GET", PATH, answer, "Describe this API, in OpenAPI 3.1", answers={200: DescribedApi}
    )
    described = [*routes, route]
    return route


def openapi_document(routes: Iterable[BaseRoute]) -> Document:
    """The document of all operations among some routes."""
    operations = [route for route in routes if isinstance(route, ApiOperation)]
    kinds = [*_kinds(operations), HttpProblem]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCES)
    schema_of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    for kind in _structs(kinds):
        _describe(components, kind)
    paths: dict[str, Document] = {}
    for one in operations:
        path = _PARAMETER.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": API_VERSION, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {str(status): _refusal(status) for status in _refused(operations)},
        },
    }


def _operation(one: ApiOperation, schema_of: dict[int, Document]) -> Document:
    responses: Document = {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in one.refusals
    }
    for status, kinds in one.answers.items():
        schemas = [schema_of[id(kind)] for kind in _each(kinds)]
        if status in one.refusals:
            schemas.append({"$ref": _REFERENCES.format(name=HttpProblem.__name__)})
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {_JSON: {"schema": _any_of(schemas)}},
        }
    described: Document = {
        "operationId": _operation_id(one),
        "tags": [one.path.split("/")[2].partition(".")[0]],
        "summary": one.summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one, schema_of)],
        "responses": dict(sorted(responses.items())),
    }
    if one.body is not None:
        schema = _any_of([schema_of[id(kind)] for kind in _each(one.body)])
        described["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
    return described


def _path_parameters(one: ApiOperation) -> Iterator[Document]:
    for name, convertor in _PARAMETER.findall(one.path):
        schema: Document = {"type": "string", "minLength": 1}
        if convertor == "whole":
            schema = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(one: ApiOperation, schema_of: dict[int, Document]) -> Iterator[Document]:
    for query in one.query:
        schema = schema_of[id(query.kind)]
        if query.repeats:
            schema = {"type": "array", "items": schema}
        yield {"name": query.name, "in": "query", "description": query.about, "schema": schema}


def _refusal(status: int) -> Document:
    described: Document = {
        "description": HTTPStatus(status).phrase,
        "content": {_JSON: {"schema": {"$ref": _REFERENCES.format(name=HttpProblem.__name__)}}},
    }
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        described["headers"] = {
            "retry-after": {
                "description": "After how many seconds to ask again",
                "schema": {"type": "integer", "minimum": 0},
            }
        }
    return described


def _refused(operations: Iterable[ApiOperation]) -> list[int]:
    return sorted({status for one in operations for status in one.refusals})


def _operation_id(one: ApiOperation) -> str:
    words = re.findall(r"\w+", _PARAMETER.sub(r"\1", one.path.removeprefix("/v1/")))
    return "_".join((one.method.lower(), *words))


def _any_of(schemas: Sequence[Document]) -> Document:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _kinds(operations: Iterable[ApiOperation]) -> Iterator[object]:
    """Every type of a body, an answer or a parameter, each once."""
    seen: set[int] = set()
    for one in operations:
        given = [*_each(one.body), *(query.kind for query in one.query)]
        for kinds in one.answers.values():
            given += _each(kinds)
        for kind in given:
            if id(kind) not in seen:
                seen.add(id(kind))
                yield kind


def _each(kinds: object) -> tuple[object, ...]:
    if kinds is None:
        return ()
    return kinds if isinstance(kinds, tuple) else (kinds,)


# The descriptions of fields.


def _structs(kinds: Iterable[object]) -> list[type[msgspec.Struct]]:
    """Every struct among some types and their fields."""
    found: dict[type[msgspec.Struct], None] = {}
    pending: list[object] = [msgspec.inspect.type_info(kind) for kind in kinds]
    while pending:
        one = pending.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls in found:
                continue
            found[one.cls] = None
        if isinstance(one, msgspec.Struct):
            pending += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple | list):
            pending += one
    return list(found)


def _describe(components: Document, kind: type[msgspec.Struct]) -> None:
    """Enter the sentences below the fields of a struct into its schema."""
    name = kind.__name__
    if name not in components:  # Several types are called so.
        name = f"{kind.__module__}.{kind.__qualname__}"
    properties = components[name].get("properties", {})
    for owner in reversed(kind.__mro__):
        for field, sentence in _field_notes(owner.__module__).get(owner.__name__, {}).items():
            if field in properties:
                properties[field].setdefault("description", sentence)


@lru_cache(maxsize=100)
def _field_notes(module: str) -> dict[str, dict[str, str]]:
    """For each class of a module, the sentence below each field; none without the source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):
        return {}
    return {one.name: dict(_notes(one)) for one in tree.body if isinstance(one, ast.ClassDef)}


def _notes(owner: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, note in zip(owner.body, owner.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
                yield field.target.id, " ".join(str(note.value.value).split())
