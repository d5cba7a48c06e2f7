"""What a request brings is read or refused, whatever it is."""

import pytest
from starlette.requests import Request

from penstock.core.errors import InvalidRequest
from penstock.web.app import make_app
from penstock.web.requests import decimal, whole_number
from tests.unit.web.asgi import JSON, FakeBroker, call

UNREADABLE = {
    "too deep": b'{"a":' + b"[" * 100_000,
    "no UTF-8": b'{"name":"\xff\xfe"}',
    "no JSON": b"{",
}


def query(text: str) -> Request:
    return Request({"type": "http", "query_string": text.encode()})


@pytest.mark.parametrize(
    "text",
    ["", "-1", "+1", "1.5", "x", "²", "201", "0" * 20 + "199999", "9" * 5_000],
)
def test_a_number_of_the_query_is_within_its_bounds(text: str) -> None:
    with pytest.raises(InvalidRequest, match="limit must be a whole number from 1 to 200"):
        whole_number(query(f"limit={text}"), "limit", 5, least=1, most=200)


def test_a_number_may_be_left_out_or_begin_with_zeros() -> None:
    assert whole_number(query(""), "limit", 5, most=200) == 5
    assert whole_number(query("limit=00199"), "limit", 5, most=200) == 199
    assert decimal("1" * 19) == int("1" * 19)
    assert decimal("1" * 20) is None


@pytest.mark.parametrize("path", ["/v1/queues", "/v1/cluster/members", "/v1/backup/begin"])
@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_cannot_be_read_is_the_clients_fault(path: str, body: bytes) -> None:
    answer = call(make_app(FakeBroker()), "POST", path, headers=JSON, parts=[body])
    assert 400 <= answer.status < 500, answer.body


@pytest.mark.parametrize("digits", [20, 5_000])
def test_a_path_with_a_number_that_is_too_long_is_no_path(digits: int) -> None:
    app = make_app(FakeBroker())
    answer = call(app, "DELETE", f"/v1/cluster/members/{'9' * digits}", headers=JSON)
    assert answer.status == 404


def test_a_length_of_too_many_digits_is_too_large() -> None:
    headers = {**JSON, "content-length": "9" * 5_000}
    answer = call(make_app(FakeBroker()), "POST", "/v1/queues", headers=headers)
    assert answer.status == 413
