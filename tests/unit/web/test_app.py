"""The HTTP application, asked without a network."""

import logging

import pytest

from penstock.core.errors import NotLeader, OutcomeUnknown, Overloaded
from penstock.core.types import NodeId
from penstock.web.app import make_app
from penstock.web.broker import Phase
from tests.unit.web.asgi import JSON, FakeBroker, FakeNode, call, cluster_status, shard

STARTING = FakeBroker(phase=Phase.STARTING, node=None, reasons=["waits for node 2"])
UNLED = FakeBroker(reasons=["shard 3 has no leader"])
STOPPING = FakeBroker(phase=Phase.STOPPING, reasons=["it is stopping"])


@pytest.mark.parametrize(
    ("broker", "live", "started", "ready"),
    [
        (FakeBroker(), 200, 200, 200),
        (STARTING, 200, 503, 503),
        (FakeBroker(phase=Phase.STARTING), 200, 200, 503),
        (UNLED, 200, 200, 503),
        (STOPPING, 200, 200, 503),
    ],
)
def test_probes(broker: FakeBroker, live: int, started: int, ready: int) -> None:
    app = make_app(broker)
    assert call(app, "GET", "/livez").status == live
    assert call(app, "GET", "/startupz").status == started
    assert call(app, "GET", "/readyz").status == ready
    assert call(app, "GET", "/healthz").status == ready


def test_a_probe_says_what_is_wrong() -> None:
    answer = call(make_app(FakeBroker()), "GET", "/readyz").json()
    assert answer == {"ready": True, "problems": [], "warnings": []}
    answer = call(make_app(UNLED), "GET", "/readyz").json()
    assert answer == {"ready": False, "problems": ["shard 3 has no leader"], "warnings": []}
    answer = call(make_app(STARTING), "GET", "/startupz").json()
    assert answer == {"started": False, "problems": ["waits for node 2"]}


def test_a_broker_that_warns_is_ready() -> None:
    warned = "shard 1: the disk is full, appends are refused"
    answer = call(make_app(FakeBroker(warned=[warned])), "GET", "/readyz")
    assert answer.status == 200
    assert answer.json() == {"ready": True, "problems": [], "warnings": [warned]}


def test_quorum_critical() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    app = make_app(broker)
    answer = call(app, "GET", "/v1/health/quorum-critical")
    assert (answer.status, answer.json()["safe_to_stop"]) == (200, True)
    broker.node.cluster.found = cluster_status(shard(0), shard(1, silent_ms={2: 9_000}))
    answer = call(app, "GET", "/v1/health/quorum-critical")
    assert answer.status == 503
    assert answer.json()["problems"] == [
        "shard 1 would be left with 1 of 3 voters in good order and needs 2"
    ]
    answer = call(app, "GET", "/v1/health/replicated")
    assert answer.status == 503
    assert answer.json()["problems"] == ["shard 1 has no copy in good order on node 2"]


def test_the_cluster() -> None:
    answer = call(make_app(FakeBroker()), "GET", "/v1/cluster")
    assert answer.status == 200
    assert answer.json()["nodes"][2]["kafka"] == "127.0.0.1:9093"
    assert answer.headers["content-type"] == "application/json"


def test_groups() -> None:
    app = make_app(FakeBroker())
    listed = call(app, "GET", "/v1/groups").json()
    assert listed == {"groups": [{"group": "readers", "state": "Stable", "coordinator": 2}]}
    assert call(app, "GET", "/v1/groups/readers/a").json()["lag"] == 2
    assert call(app, "GET", "/v1/groups/nobody").status == 404


def test_orders() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    app = make_app(broker)
    added = call(
        app,
        "POST",
        "/v1/cluster/members",
        headers=JSON,
        parts=[b'{"node":4,', b'"peer":"a:1"}'],
    )
    assert (added.status, added.json()) == (201, {"node": 4, "peer": "a:1"})
    removed = call(app, "DELETE", "/v1/cluster/members/4", headers=JSON)
    assert (removed.status, removed.json()) == (200, {"node": 4, "gone": True})
    broker.node.cluster.gone = False
    removed = call(app, "DELETE", "/v1/cluster/members/5", headers=JSON)
    assert (removed.status, removed.json()) == (202, {"node": 5, "gone": False})
    body = b'{"shard":2,"target":3}'
    handed = call(app, "POST", "/v1/cluster/transfer", headers=JSON, parts=[body])
    assert handed.status == 200
    assert broker.node.cluster.orders == [
        ("add", 4, "a:1"),
        ("remove", 4),
        ("remove", 5),
        ("transfer", 2, 3),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "name"),
    [
        ("GET", "/nowhere", b"", 404, "NotFound"),
        ("GET", "/v1/cluster/members/x", b"", 404, "NotFound"),
        ("POST", "/livez", b"", 405, "MethodNotAllowed"),
        ("POST", "/v1/cluster/members", b"", 400, "InvalidRequest"),
        ("POST", "/v1/cluster/members", b'{"node": 4}', 400, "InvalidRequest"),
        ("POST", "/v1/cluster/members", b'{"node":"4","peer":"a:1"}', 400, "InvalidRequest"),
        ("POST", "/v1/cluster/members", b'{"node":4,"peer":"a:1","x":1}', 400, "InvalidRequest"),
        ("POST", "/v1/cluster/transfer", b"[]", 400, "InvalidRequest"),
        ("POST", "/v1/cluster/transfer", b"\xff", 400, "InvalidRequest"),
    ],
)
def test_bad_requests(method: str, path: str, body: bytes, status: int, name: str) -> None:
    answer = call(make_app(FakeBroker()), method, path, headers=JSON, parts=[body])
    assert (answer.status, answer.json()["error"]) == (status, name)
    assert answer.json()["message"]


def test_a_parameter_that_is_given_twice_is_refused() -> None:
    answer = call(make_app(FakeBroker()), "GET", "/v1/audit?limit=1&limit=2")
    assert (answer.status, answer.json()["error"]) == (400, "InvalidRequest")
    assert answer.json()["message"] == "limit is given more than once"


def test_our_errors_keep_their_names() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    app = make_app(broker)
    unknown = call(app, "DELETE", "/v1/cluster/members/9", headers=JSON)
    assert unknown.json() == {"error": "UnknownNode", "message": "there is no node 9"}
    for error, status, retry in (
        (Overloaded("too much", retry_after_ms=1_500), 503, "2"),
        (OutcomeUnknown("perhaps"), 504, None),
    ):
        broker.node.cluster.error = error
        answer = call(app, "GET", "/v1/cluster")
        assert (answer.status, answer.headers.get("retry-after")) == (status, retry)
        assert answer.json()["error"] == type(error).__name__
    broker.node.cluster.error = NotLeader("elsewhere", leader=NodeId(2))
    assert call(app, "GET", "/v1/cluster").json()["leader"] == 2


def test_a_bug_is_answered_and_told(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker(node=FakeNode())
    assert broker.node is not None
    broker.node.cluster.error = ZeroDivisionError("secret")
    with caplog.at_level(logging.ERROR), pytest.raises(ZeroDivisionError):
        # It goes on to the server, which logs its traceback.
        call(make_app(broker), "GET", "/v1/cluster")
    assert "/v1/cluster failed" in caplog.text


def test_nothing_is_known_before_there_is_a_node() -> None:
    answer = call(make_app(STARTING), "GET", "/v1/cluster")
    assert (answer.status, answer.json()["error"]) == (503, "Unavailable")


def test_settings_with_their_sources() -> None:
    answer = call(make_app(FakeBroker()), "GET", "/v1/config")
    assert answer.json() == {"settings": [{"name": "shards", "value": "4", "source": "default"}]}
