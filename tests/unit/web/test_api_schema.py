"""Requests that schemathesis makes from the API's own description, against a real broker.

Each operation gets valid and invalid requests; whatever is answered must be in the description:
status, content type, and the shape of the document. There is a queue with messages, or paths would
lead nowhere.

Three checks of schemathesis do not apply. A description cannot say that a name must exist or that
two settings exclude each other, so a valid request may be refused. The guard refuses a change that
is not JSON before it looks for its path (415, not 405). And a group's name may have slashes, so
`/v1/groups/a/reset` is also the path of a group.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import CHECKS, load_all_checks

from penstock.web.app import api_routes
from penstock.web.openapi import openapi_document
from tests.unit.web.asgi import FakeBroker
from tests.web_broker import WebBroker

QUEUE = "orders"
KNOWN = {"name": [QUEUE, "nowhere"]}
"""What parameters of a path are drawn from."""
NOT_APPLICABLE = ("positive_data_acceptance", "unsupported_method", "allow_header_conformance")
ANSWER_SECONDS_MAX = 60
QUICK = settings(
    max_examples=3,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
THOROUGH = settings(QUICK, max_examples=300)

load_all_checks()


def described() -> dict[str, Any]:
    """The description, with names that are there."""
    document: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(openapi_document(api_routes(FakeBroker())))
    )
    for methods in document["paths"].values():
        for operation in methods.values():
            for one in operation["parameters"]:
                if one["in"] == "path" and one["name"] in KNOWN:
                    one["schema"] = {"enum": KNOWN[one["name"]]}
    return document


SCHEMA = schemathesis.openapi.from_dict(described())


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(Path(tmp_path_factory.mktemp("schema"))) as broker:
        broker.look()
        yield broker


def check(case: "Case[Any]", web: WebBroker) -> None:
    status, _ = web.ask("POST", "/v1/queues", {"name": QUEUE, "partitions": 2})
    if status == 201:
        messages = {"messages": [{"body": "a", "headers": {"h": "1"}}, {"body": None, "key": "k"}]}
        web.expect(201, "POST", f"/v1/queues/{QUEUE}/messages", messages)
    for part in (case.query, case.body):
        if isinstance(part, dict) and type(part.get("wait_ms")) is int:
            part["wait_ms"] = 0
    answer = case.call(base_url=f"http://{web.http}", timeout=ANSWER_SECONDS_MAX)
    checks: list[Any] = list(CHECKS.get_by_names(list(NOT_APPLICABLE)))
    case.validate_response(answer, excluded_checks=checks)


@pytest.mark.slow
@SCHEMA.parametrize()
@QUICK
def test_answers_are_as_described(case: "Case[Any]", web: WebBroker) -> None:
    check(case, web)


@pytest.mark.long
@SCHEMA.parametrize()
@THOROUGH
def test_many_answers_are_as_described(case: "Case[Any]", web: WebBroker) -> None:
    check(case, web)
