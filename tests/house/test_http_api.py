"""The description of the HTTP API names every route below `/v1`."""

import re

from starlette.routing import Route

from penstock.web.answers import HttpProblem
from penstock.web.api_operation import ApiOperation
from penstock.web.app import api_routes
from tests.house.http_api import document
from tests.unit.web.asgi import FakeBroker

ROUTES = [one for one in api_routes(FakeBroker()) if isinstance(one, Route)]


def test_every_route_is_described() -> None:
    plain = [one.path for one in ROUTES if not isinstance(one, ApiOperation)]
    assert plain == [], "a route below /v1 is an ApiOperation: say what it takes and answers"
    routed = set()
    for one in ROUTES:
        assert one.path.startswith("/v1/")
        methods = (one.methods or set()) - {"HEAD"}
        routed |= {(re.sub(r":\w+}", "}", one.path), method.lower()) for method in methods}
    described = {
        (path, method) for path, methods in document()["paths"].items() for method in methods
    }
    assert described == routed


def test_operations_have_names_of_their_own() -> None:
    names = [
        operation["operationId"]
        for methods in document()["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(names)) == len(names) == len(ROUTES)


def test_every_reference_leads_somewhere() -> None:
    components = document()["components"]
    assert HttpProblem.__name__ in components["schemas"]
    for kind, name in re.findall(r"'#/components/(\w+)/([\w.]+)'", str(document())):
        assert name in components[kind], name


def test_fields_are_described_by_their_sentences() -> None:
    schemas = document()["components"]["schemas"]
    fields = schemas["QueueReading"]["properties"]
    assert fields["dead_letter_topic"]["description"].startswith(
        "The queue that gets its dead letters"
    )
    inherited = schemas["TopicDetail"]["properties"]
    assert inherited["size_bytes"]["description"] == "The size on the leaders' disks."
