"""The HTTP application: health for probes, the cluster for operators, a page for people.

    GET     /, /queues, /cluster, …      pages for people, see `dashboard/`
    GET     /livez                       the loop turns; never looks outside
    GET     /startupz                    the log is recovered, the node is in its cluster
    GET     /readyz, /healthz            requests are served; 503 with a list of what is wrong
    GET     /v1/health/quorum-critical   may this node be stopped? 503 with the shards that need it
    GET     /v1/health/replicated        does every shard have all its replicas? 503 if not
    GET     /metrics                     for Prometheus, see `metrics.py`
    GET     /v1/cluster                  members, shards, leaders
    POST    /v1/cluster/members          {"node": 4, "peer": "host:port"}: add a node
    DELETE  /v1/cluster/members/{node}   remove one for good
    POST    /v1/cluster/transfer         {"shard": 2, "target": 3}: hand over leadership
    POST    /v1/cluster/key/rotate       {}: replace the cluster key on every node
    POST    /v1/backup/cut               a moment of the whole cluster, for `penstock backup`
    GET     /v1/groups                   consumer groups of the whole cluster
    GET     /v1/groups/{group}           one of them: members, offsets, lag
    GET     /v1/pipelines                the last report of every pipeline, stage by stage
    GET     /v1/config                   settings in force, each with its source
    GET     /v1/audit                    what operators ordered, the newest first (?limit=)
            /v1/readings, /v1/alerts, …  see `watching.py`
            /v1/queues…                  see `queues.py`, `queue_work.py`, `queue_moves.py`
            /v1/topics…                  see `topics.py`, `topic_messages.py`
    GET     /v1/trace/{message}          what became of one message: see `traces.py`
    GET     /v1/openapi.json             all of this, in OpenAPI: see `openapi.py`

Answers are JSON, errors are `{"error", "message"}`. What a request must pass is `guard.py`.
"""

import logging
from functools import partial
from http import HTTPStatus

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp

from penstock.core.errors import PenstockError, Unavailable
from penstock.core.limits import AUDIT_LINES_MAX
from penstock.core.request_times import RequestTimes
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.backups.cut import Cut
from penstock.engine.cluster.keys.key_distribution import KeyStatus
from penstock.engine.cluster.node import Node as EngineNode
from penstock.engine.cluster.status import ClusterStatus
from penstock.engine.groups.lag import GroupLag
from penstock.engine.topics.slow_requests import SlowRequests
from penstock.web.answer_types import (
    AuditTrail,
    GroupList,
    LeadershipMoved,
    MemberAdded,
    MemberRemoved,
    PipelineList,
    ReplicaVerdict,
    SettingList,
    StopVerdict,
)
from penstock.web.answers import error_answer, json_answer, penstock_error_answer
from penstock.web.api_operation import ApiOperation, limit_parameter
from penstock.web.audited_actions import OrderNotes
from penstock.web.broker import Broker, Cluster, Node, node_of
from penstock.web.dashboard.renderer import is_for_people, problem_view, render
from penstock.web.dashboard.routes import page_routes
from penstock.web.guard import Guard
from penstock.web.health import missing_replicas, needed_here
from penstock.web.metrics import metric_routes
from penstock.web.openapi import openapi_route
from penstock.web.probes import PROBE_PATHS, verdict
from penstock.web.queue_moves import move_routes
from penstock.web.queue_work import work_routes
from penstock.web.queues import queue_routes
from penstock.web.readings import watch_routes
from penstock.web.request_timer import Timing
from penstock.web.requests import bounded, read_body, whole_number
from penstock.web.silences import silence_routes
from penstock.web.tokens import is_token
from penstock.web.topic_messages import MessageBrowser
from penstock.web.topics import topic_routes
from penstock.web.traces import trace_routes

logger = logging.getLogger(__name__)


class AddMember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that adds a node."""

    node: int
    peer: str


class NoFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of an order that needs no more words."""


class TransferLeadership(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that hands over a shard."""

    shard: int
    target: int


def make_app(broker: Broker, times: RequestTimes | None = None) -> ASGIApp:
    """The application for one broker; `times` is where requests are counted."""
    endpoints = _Probes(broker)
    routes = [
        *page_routes(broker),
        *(Route(path, endpoints.probe) for path in PROBE_PATHS),
        *metric_routes(broker),
        *api_routes(broker),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            PenstockError: _answer_error,
            HTTPException: partial(_answer_http_error, broker),
            Exception: partial(_answer_bug, broker),
        },
    )
    guarded = Guard(
        OrderNotes(app, broker),
        hosts=broker.hosts,
        open_paths=PROBE_PATHS,
        is_token=partial(is_token, broker),
        read_only=lambda: broker.read_only,
    )
    slow = partial(_slow_requests, broker)
    return Timing(guarded, routes, RequestTimes() if times is None else times, slow)


def api_routes(broker: Broker) -> list[BaseRoute]:
    """Every path below `/v1`, the description of them included."""
    endpoints = _Endpoints(broker)
    routes: list[BaseRoute] = [
        *_cluster_routes(endpoints),
        ApiOperation(
            "GET",
            "/v1/groups",
            endpoints.groups,
            "List the consumer groups of the whole cluster",
            answers={200: GroupList},
        ),
        *topic_routes(broker),
        *MessageBrowser(broker).routes(),
        ApiOperation(
            "GET",
            "/v1/groups/{group:path}",
            endpoints.group,
            "Describe a consumer group: members, offsets, lag",
            answers={200: GroupLag},
        ),
        ApiOperation(
            "GET",
            "/v1/pipelines",
            endpoints.pipelines,
            "List the last report of every pipeline, stage by stage",
            answers={200: PipelineList},
        ),
        *trace_routes(broker),
        ApiOperation(
            "GET",
            "/v1/config",
            endpoints.config,
            "List the settings in force on this node, each with its source",
            answers={200: SettingList},
        ),
        ApiOperation(
            "GET",
            "/v1/audit",
            endpoints.audit,
            "List the actions of operators, newest first",
            answers={200: AuditTrail},
            query=[limit_parameter(AUDIT_LINES_MAX, AUDIT_LINES_MAX)],
        ),
        ApiOperation(
            "POST",
            "/v1/backup/cut",
            endpoints.cut,
            "Mark one moment of the whole cluster, for a copy of this node's files",
            answers={200: Cut},
        ),
        *watch_routes(broker),
        *silence_routes(broker),
        *queue_routes(broker),
        *work_routes(broker),
        *move_routes(broker),
    ]
    return [*routes, openapi_route(routes)]


def _cluster_routes(endpoints: "_Endpoints") -> list[ApiOperation]:
    return [
        ApiOperation(
            "GET",
            "/v1/health/quorum-critical",
            endpoints.quorum_critical,
            "Check whether this node may be stopped; 503 with the shards that need it",
            answers={200: StopVerdict, 503: StopVerdict},
        ),
        ApiOperation(
            "GET",
            "/v1/health/replicated",
            endpoints.replicated,
            "Check whether every shard has all its replicas; 503 if not",
            answers={200: ReplicaVerdict, 503: ReplicaVerdict},
        ),
        ApiOperation(
            "GET",
            "/v1/cluster",
            endpoints.status,
            "Describe the cluster: nodes, shards, leaders",
            answers={200: ClusterStatus},
        ),
        ApiOperation(
            "POST",
            "/v1/cluster/members",
            endpoints.add_member,
            "Add a node",
            body=AddMember,
            answers={201: MemberAdded},
        ),
        ApiOperation(
            "DELETE",
            "/v1/cluster/members/{node:whole}",
            endpoints.remove_member,
            "Remove a node permanently; 202 while its shards are moving",
            answers={200: MemberRemoved, 202: MemberRemoved},
        ),
        ApiOperation(
            "POST",
            "/v1/cluster/transfer",
            endpoints.transfer,
            "Hand over the leadership of a shard",
            body=TransferLeadership,
            answers={200: LeadershipMoved},
        ),
        ApiOperation(
            "POST",
            "/v1/cluster/key/rotate",
            endpoints.rotate_key,
            "Replace the cluster key on every node",
            body=NoFields,
            answers={200: KeyStatus},
        ),
    ]


def _slow_requests(broker: Broker) -> SlowRequests | None:
    node = broker.node
    return node.engine.topics.slow_requests if isinstance(node, EngineNode) else None


class _Probes:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def probe(self, request: Request) -> Response:
        document = verdict(self._broker, request.url.path)
        return json_answer(document, status=503 if document.get("problems") else 200)


class _Endpoints:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def quorum_critical(self, _request: Request) -> Response:
        problems = needed_here(await self._cluster().status())
        return json_answer(StopVerdict(not problems, problems), status=503 if problems else 200)

    async def replicated(self, _request: Request) -> Response:
        problems = missing_replicas(await self._cluster().status())
        return json_answer(ReplicaVerdict(not problems, problems), status=503 if problems else 200)

    async def status(self, _request: Request) -> Response:
        return json_answer(await self._cluster().status())

    async def add_member(self, request: Request) -> Response:
        wanted = await read_body(request, AddMember)
        await bounded(self._cluster().add_node(NodeId(wanted.node), wanted.peer))
        return json_answer(MemberAdded(wanted.node, wanted.peer), status=201)

    async def remove_member(self, request: Request) -> Response:
        """202 if its shards are still moving; a repeated request returns the progress."""
        node = NodeId(request.path_params["node"])
        gone = await bounded(self._cluster().remove_node(node))
        return json_answer(MemberRemoved(node, gone), status=200 if gone else 202)

    async def transfer(self, request: Request) -> Response:
        wanted = await read_body(request, TransferLeadership)
        await bounded(self._cluster().transfer(ShardId(wanted.shard), NodeId(wanted.target)))
        return json_answer(LeadershipMoved(wanted.shard, wanted.target))

    async def rotate_key(self, request: Request) -> Response:
        await read_body(request, NoFields)
        return json_answer(await bounded(node_of(self._broker).keys.rotate()))

    async def groups(self, _request: Request) -> Response:
        return json_answer(GroupList(await self._node().lag.groups()))

    async def group(self, request: Request) -> Response:
        return json_answer(await self._node().lag.group(request.path_params["group"]))

    async def pipelines(self, _request: Request) -> Response:
        return json_answer(PipelineList(await self._node().pipeline_reports.reports()))

    async def config(self, _request: Request) -> Response:
        return json_answer(SettingList(self._broker.settings()))

    async def audit(self, request: Request) -> Response:
        limit = whole_number(request, "limit", AUDIT_LINES_MAX, least=1, most=AUDIT_LINES_MAX)
        return json_answer(AuditTrail(await node_of(self._broker).audit.recent(limit)))

    async def cut(self, _request: Request) -> Response:
        """A POST, though it changes nothing: requests wait while the moment is marked."""
        return json_answer(await bounded(node_of(self._broker).cuts.cut()))

    def _cluster(self) -> Cluster:
        return self._node().cluster

    def _node(self) -> Node:
        node = self._broker.node
        if node is None:
            raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
        return node


def _answer_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PenstockError), f"{error!r} is no error of ours"
    return penstock_error_answer(error)


def _answer_http_error(broker: Broker, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), f"{error!r} is no HTTP error"
    name = error.detail.title().replace(" ", "").replace("-", "")
    sentence = {
        404: "there is nothing under this path",
        405: "this path does not take that method",
    }.get(error.status_code, error.detail)
    answer = _answer_problem(broker, request, error.status_code, name, sentence)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request) -> list[str]:
    """The methods that the path supports; several routes may share it."""
    return sorted(
        {
            method
            for route in request.app.routes
            if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
            for method in route.methods or ()
        }
    )


def _answer_bug(broker: Broker, request: Request, _error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path)
    sentence = "internal error, a bug of Penstock; see the broker's log"
    return _answer_problem(broker, request, 500, "InternalError", sentence)


def _answer_problem(
    broker: Broker, request: Request, status: int, name: str, sentence: str
) -> Response:
    """A page for people, a document for programs."""
    if is_for_people(request):
        return render(broker, request, problem_view(status, name, sentence))
    return error_answer(status, name, sentence)
