"""A page that many have open is made once, and made again when there is something new."""

import http.client
import re
from contextlib import closing
from pathlib import Path

from starlette.requests import Request

from penstock.web.broker import Phase
from penstock.web.dashboard.live.page_cache import KEPT_MAX, KEPT_SECONDS, Shared
from penstock.web.dashboard.renderer import page_answer
from tests.unit.web.asgi import FakeBroker
from tests.web_broker import WebBroker


def request(query: str = "", *, fragment: bool = True) -> Request:
    headers = [(b"x-penstock-fragment", b"1")] if fragment else []
    return Request(
        {
            "type": "http", "method": "GET", "scheme": "http", "server": ("127.0.0.1", 1),
            "path": "/queues", "query_string": query.encode(), "headers": headers,
        }
    )  # fmt: skip


class Moment:
    """A clock that is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def kept(broker: FakeBroker, moment: Moment) -> Shared:
    shared = Shared(broker, moment)
    assert shared.find(request()) is None
    shared.keep(request(), page_answer("<main>one</main>"))
    return shared


def test_the_second_one_gets_what_the_first_one_got() -> None:
    shared = kept(FakeBroker(), Moment())
    found = shared.find(request())
    assert found is not None
    assert bytes(found.body) == b"<main>one</main>"
    assert "content-security-policy" in found.headers


def test_another_address_and_a_whole_page_are_others() -> None:
    shared = kept(FakeBroker(), Moment())
    assert shared.find(request("sort=-dead")) is None
    assert shared.find(request(fragment=False)) is None
    shared.keep(request("a=1", fragment=False), page_answer("<html>"))
    assert shared.find(request("a=1")) is None


def test_what_is_not_well_is_not_kept() -> None:
    shared = kept(FakeBroker(), Moment())
    shared.keep(request("a=1"), page_answer("<main>", 503))
    assert shared.find(request("a=1")) is None


def test_it_is_made_again_after_a_while() -> None:
    moment = Moment()
    shared = kept(FakeBroker(), moment)
    moment.seconds += KEPT_SECONDS - 0.01
    assert shared.find(request()) is not None
    moment.seconds += 0.01
    assert shared.find(request()) is None


def test_it_is_made_again_when_the_broker_has_something_to_say() -> None:
    broker = FakeBroker()
    shared = kept(broker, Moment())
    broker.reasons = ["the disk is full"]
    assert shared.find(request()) is None
    shared.keep(request(), page_answer("<main>"))
    broker.phase = Phase.STOPPING
    assert shared.find(request()) is None


def test_what_changes_while_a_page_is_made_is_not_kept() -> None:
    broker = FakeBroker()
    shared = Shared(broker, Moment())
    assert shared.find(request()) is None
    broker.reasons = ["the disk is full"]
    shared.keep(request(), page_answer("<main>"))
    assert shared.find(request()) is None


def test_so_many_are_kept_and_no_more() -> None:
    shared = kept(FakeBroker(), Moment())
    for number in range(2 * KEPT_MAX):
        shared.keep(request(f"q={number}"), page_answer("<main>"))
    found = [shared.find(request(f"q={number}")) for number in range(2 * KEPT_MAX)]
    assert sum(one is not None for one in found) == KEPT_MAX - 1


def queues(address: str) -> str:
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", "/queues", headers={"x-penstock-fragment": "1"})
        return connection.getresponse().read().decode()


def test_numbers_move_as_soon_as_the_watch_has_looked(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        broker.expect(201, "POST", "/v1/queues", {"name": "jobs"})
        shown = []
        for _ in range(2):
            broker.expect(201, "POST", "/v1/queues/jobs/messages", {"messages": [{"body": "a"}]})
            broker.look()
            text, again = queues(broker.http), queues(broker.http)
            assert text == again
            shown += re.findall(r'<td class="number">(\d+)</td>', text)[:1]
        assert shown == ["1", "2"]
