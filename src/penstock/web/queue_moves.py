"""Dead letters over HTTP: moving them back, and deciding about those that stayed.

    POST    /v1/queues/{name}/redrive        {"to"?, "filter"?, "rate"?, "dry_run"?}: move messages
    GET     /v1/queues/{name}/moves          the moves out of this queue, the latest first
    DELETE  /v1/queues/{name}/moves/{id}     stop one; what was moved stays moved
    POST    /v1/queues/{name}/dead/revive    {"group"?, "filter"?, "dry_run"?}: deliver them anew
    POST    /v1/queues/{name}/dead/discard   {"group"?, "filter"?}: drop them
    POST    /v1/queues/{name}/dead/archive   move none of them any more: they stay where they died

A redrive empties a dead-letter queue: each message goes back to where it died, or all of them go to
another queue. It is the cluster that does it; asked is only that it begins.

Dead messages that were not moved (`queue.dead.letter.policy=archive`) are decided about where they
are. A filter is the same for all: see `core.move_filter`.
"""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.move_filter import MoveFilter
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset
from penstock.engine.cluster.node import Node
from penstock.engine.engine import Engine
from penstock.machines.moves import Move
from penstock.web.answer_types import DeadDecided, Matching, MoveList
from penstock.web.answers import json_answer
from penstock.web.api_operation import ApiOperation
from penstock.web.broker import Broker, node_of
from penstock.web.queue_lines import MoveLine
from penstock.web.requests import bounded, read_body


class Conditions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that select messages; a message must meet all of them."""

    reason: str = ""
    topic: str = ""
    group: str = ""
    from_ms: int = -1
    until_ms: int = -1
    ids: tuple[str, ...] = ()
    places: tuple[tuple[int, int], ...] = ()
    """The places, as [partition, offset]."""
    key: str = ""
    header: str = ""
    header_value: str = ""
    body: str = ""

    def filter(self) -> MoveFilter | None:
        """Return the conditions as a filter; None if there are none."""
        if self == Conditions():
            return None
        given = msgspec.structs.asdict(self)
        given["places"] = tuple((index, Offset(offset)) for index, offset in self.places)
        return MoveFilter(**given)


class Redrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request that starts a move."""

    to: str | None = None
    filter: Conditions = Conditions()
    rate: int | None = None
    """The rate in messages per second."""
    dry_run: bool = False


class DeadMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body that decides about dead messages."""

    group: str = DEFAULT_WORK_GROUP
    filter: Conditions = Conditions()
    dry_run: bool = False
    """For a revival: only count the messages."""


def move_routes(broker: Broker) -> Sequence[ApiOperation]:
    moves = _Moves(broker)
    one = "/v1/queues/{name}"
    return [
        ApiOperation(
            "POST",
            f"{one}/redrive",
            moves.redrive,
            "Move messages back to the queue they died in, or to another one; 200 for a dry run",
            body=Redrive,
            answers={202: MoveLine, 200: Matching},
        ),
        ApiOperation(
            "GET",
            f"{one}/moves",
            moves.list,
            "List the moves out of a queue, the latest first",
            answers={200: MoveList},
        ),
        ApiOperation(
            "DELETE",
            f"{one}/moves/{{id}}",
            moves.cancel,
            "Cancel a move; messages already moved stay moved",
            answers={200: MoveLine},
        ),
        ApiOperation(
            "POST",
            f"{one}/dead/revive",
            moves.revive,
            "Redeliver dead messages in their queue",
            body=DeadMessages,
            answers={200: (DeadDecided, Matching)},
        ),
        ApiOperation(
            "POST",
            f"{one}/dead/discard",
            moves.discard,
            "Drop dead messages",
            body=DeadMessages,
            answers={200: DeadDecided},
        ),
        ApiOperation(
            "POST",
            f"{one}/dead/archive",
            moves.archive,
            "Keep dead messages in their queue instead of moving them",
            answers={200: DeadDecided},
        ),
    ]


class _Moves:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def redrive(self, request: Request) -> Response:
        wanted = await read_body(request, Redrive)
        node, topic = self._asked(request)
        move = await bounded(
            node.engine.moves.start(
                topic,
                None if wanted.to is None else node.engine.topics.topic(wanted.to),
                rate=wanted.rate,
                filter=wanted.filter.filter(),
                dry_run=wanted.dry_run,
            )
        )
        if wanted.dry_run:
            return json_answer(Matching(move.to_move))
        return json_answer(move_line(node.engine, move), status=202)

    async def list(self, request: Request) -> Response:
        node, topic = self._asked(request)
        return json_answer(MoveList(await move_lines(node, topic)))

    async def cancel(self, request: Request) -> Response:
        node, topic = self._asked(request)
        move = await bounded(node.engine.moves.cancel(topic, request.path_params["id"]))
        return json_answer(move_line(node.engine, move))

    async def revive(self, request: Request) -> Response:
        node, topic, wanted = await self._dead(request)
        count = await bounded(
            node.engine.moves.redrive_in_place(
                topic,
                group=wanted.group,
                filter=wanted.filter.filter(),
                dry_run=wanted.dry_run,
            )
        )
        return json_answer(Matching(count) if wanted.dry_run else DeadDecided(count))

    async def discard(self, request: Request) -> Response:
        node, topic, wanted = await self._dead(request)
        count = await bounded(
            node.engine.moves.discard_in_place(
                topic, group=wanted.group, filter=wanted.filter.filter()
            )
        )
        return json_answer(DeadDecided(count))

    async def archive(self, request: Request) -> Response:
        node, topic = self._asked(request)
        changes = {"queue.dead.letter.policy": "archive"}
        topic = await bounded(node.engine.topics.configure_topic(topic.name, changes))
        counts = await node.delivery.counts(topic)
        return json_answer(DeadDecided(counts.dead))

    def _asked(self, request: Request) -> tuple[Node, Topic]:
        node = node_of(self._broker)
        return node, node.engine.topics.topic(request.path_params["name"])

    async def _dead(self, request: Request) -> tuple[Node, Topic, DeadMessages]:
        wanted = await read_body(request, DeadMessages)
        node, topic = self._asked(request)
        await node.survey.require(topic, wanted.group)
        return node, topic, wanted


async def move_lines(node: Node, topic: Topic) -> list[MoveLine]:
    """The moves out of a queue, the latest first."""
    return [move_line(node.engine, move) for move in await node.engine.moves.list(topic)]


def move_line(engine: Engine, move: Move) -> MoveLine:
    """Build the document of a move."""
    return MoveLine(
        id=move.move_id,
        to=_name(engine, move),
        state=move.state.name.lower(),
        to_move=move.to_move,
        moved=move.moved,
        failed=move.failed,
        rate=move.rate,
        started_ms=move.started_ms,
        ended_ms=move.ended_ms,
        failure=move.failure,
    )


def _name(engine: Engine, move: Move) -> str:
    if move.destination == NO_TOPIC_ID:
        return ""
    found = engine.topics.catalog.topic_by_id(move.destination)
    return "a queue that is deleted" if found is None else found.name
