"""The messages of a queue over HTTP: for people who look, and for workers without a client.

    GET     /v1/queues/{name}/messages       ?state= &partition= &from= &limit= &group= &reason=
                                             &topic= &key= &body= &header= &header_value=: look
    POST    /v1/queues/{name}/messages       one message, or {"messages": […]}: send
    DELETE  /v1/queues/{name}/messages/{partition}/{offset}    call off one that waits
    POST    /v1/queues/{name}/receive        {"max"?, "lease_ms"?, "wait_ms"?, "group"?}: lease some
    POST    /v1/queues/{name}/settle         {"verdicts": [{"receipt", "verdict", …}]}

Looking never leases and never counts. An answer has as many messages as fit into some megabytes;
`next` is what to give as `from` to go on, and null at the end.

A worker receives, works, and settles each message by its receipt: `ack` when it is done, `release`
to have it delivered again (at once or after `delay_ms`; without it, as the queue's retry policy
says), `reject` when it can never be done, `extend` to have it for another `lease_ms`. An outcome is
`done`, `stale` (another receiver has it by now, or it waits again) or `gone`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.decoders import UNREADABLE, decode_json
from penstock.core.errors import InvalidReceipt, InvalidRequest
from penstock.core.limits import (
    DEAD_REASON_CHARACTERS_MAX,
    LEASE_MS_MAX,
    QUEUE_WAIT_MS_MAX,
)
from penstock.core.memory_budget import SCOPE_ACCOUNT, MemoryAccount, MemoryDraw
from penstock.core.message_states import ALL_STATES, STATES, parse_states
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, Deduplication, Priorities
from penstock.core.receiver import receiver_name
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import Receipt
from penstock.web.answer_types import (
    MessagePage,
    MessagesCancelled,
    ReceivedMessages,
    SentMessage,
    SentMessages,
    SettleOutcomes,
)
from penstock.web.answers import error_answer, json_answer
from penstock.web.api_operation import (
    INDEX_MAX,
    ApiOperation,
    QueryParameter,
    limit_parameter,
)
from penstock.web.broker import Broker, node_of
from penstock.web.queue_browser import (
    BROWSE_MAX,
    BROWSE_STEP,
    BrowseWanted,
    browse,
    check_partition,
)
from penstock.web.queue_messages import (
    OutgoingMessage,
    browsed,
    delivered,
    new_message,
)
from penstock.web.queue_moves import Conditions
from penstock.web.request_timer import PROTOCOL
from penstock.web.requests import bounded, read_body, unless_gone, whole_number

RECEIVE_MAX = 100
SEND_MAX = 1_000
SETTLE_MAX = 1_000
_OFFSET_MAX = (1 << 63) - 1


class SendMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that sends several messages, in order."""

    messages: list[OutgoingMessage]


class ReceiveMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body that leases messages."""

    max: int = 1
    lease_ms: int | None = None
    """The lease; None for the queue's own."""
    wait_ms: int | None = None
    """The wait for the first message; None for the queue's own."""
    group: str = DEFAULT_WORK_GROUP


class WorkerVerdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A worker's verdict on a message."""

    receipt: str
    verdict: Literal["ack", "release", "reject", "extend"]
    delay_ms: int | None = None
    """The delay of a release."""
    lease_ms: int | None = None
    """The lease of an extension."""
    reason: str = ""


class SettleMessages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that settles messages."""

    verdicts: list[WorkerVerdict]


def work_routes(broker: Broker) -> Sequence[ApiOperation]:
    work = _Work(broker)
    messages = "/v1/queues/{name}/messages"
    return [
        ApiOperation(
            "GET",
            messages,
            work.browse,
            "Browse messages without leasing them; deliveries are not counted",
            query=_BROWSE_PARAMETERS,
            answers={200: MessagePage},
        ),
        ApiOperation(
            "POST",
            messages,
            work.send,
            "Send one message or several, in order",
            body=(OutgoingMessage, SendMessages),
            answers={201: SentMessages},
        ),
        ApiOperation(
            "DELETE",
            f"{messages}/{{partition:whole}}/{{offset:whole}}",
            work.cancel,
            "Cancel a message that is ready or delayed",
            query=[_GROUP],
            answers={200: MessagesCancelled},
        ),
        ApiOperation(
            "POST",
            "/v1/queues/{name}/receive",
            work.receive,
            "Lease messages; each is settled by its receipt",
            body=ReceiveMessages,
            answers={200: ReceivedMessages},
        ),
        ApiOperation(
            "POST",
            "/v1/queues/{name}/settle",
            work.settle,
            "Ack, release, reject or extend leased messages",
            body=SettleMessages,
            answers={200: SettleOutcomes},
        ),
    ]


_GROUP = QueryParameter("group", str, f"A work group; by default {DEFAULT_WORK_GROUP}")
_BROWSE_PARAMETERS = (
    QueryParameter("state", str, f"Any of {', '.join(STATES)}, separated by commas"),
    QueryParameter(
        "partition", Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)], "Only this partition"
    ),
    QueryParameter(
        "from", str, "The start: PARTITION:OFFSET, or an offset if `partition` is given"
    ),
    limit_parameter(BROWSE_STEP, BROWSE_MAX),
    _GROUP,
    QueryParameter("reason", str, "A part of the reason of death"),
    QueryParameter("topic", str, "The topic where it died"),
    QueryParameter("key", str, "Part of the key"),
    QueryParameter("body", str, "Part of the body"),
    QueryParameter("header", str, "The name of a header"),
    QueryParameter("header_value", str, "Part of that header's value"),
)


class _Work:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def browse(self, request: Request) -> Response:
        node, topic = self._asked(request)
        asked = request.query_params
        last = len(topic.partitions) - 1
        partition: int | None = None
        if "partition" in asked:
            partition = whole_number(request, "partition", 0, most=last)
        page = await browse(
            node,
            topic,
            BrowseWanted(
                group=asked.get("group", DEFAULT_WORK_GROUP),
                states=_states(asked.get("state")),
                written=asked.get("from", "0"),
                partition=partition,
                limit=whole_number(request, "limit", BROWSE_STEP, least=1, most=BROWSE_MAX),
                filter=conditions(request).filter(),
            ),
        )
        return json_answer(MessagePage([browsed(one) for one in page.found], page.next))

    async def send(self, request: Request) -> Response:
        wanted = await _outgoing(request)
        node, topic = self._asked(request)
        _check_heard(topic, wanted)
        fifo = topic.settings.queue.fifo
        messages = [new_message(one, fifo=fifo) for one in wanted]
        sent = await bounded(node.delivery.send(topic, messages, protocol=PROTOCOL))
        lines = [
            SentMessage(partition=one.index, offset=one.offset, duplicate=one.duplicate)
            for one in sent
        ]
        return json_answer(SentMessages(lines), status=201)

    async def cancel(self, request: Request) -> Response:
        node, topic = self._asked(request)
        index, offset = request.path_params["partition"], request.path_params["offset"]
        check_partition(topic, index)
        group = request.query_params.get("group", DEFAULT_WORK_GROUP)
        places = [(index, Offset(min(offset, _OFFSET_MAX)))]
        cancelled = await bounded(node.delivery.cancel(topic, places, group))
        if not cancelled:
            return error_answer(
                409,
                "MessageNotWaiting",
                f"message {index}:{offset} of {topic.name} does not wait: it is leased, done, or"
                " was never there",
            )
        return json_answer(MessagesCancelled(cancelled))

    async def receive(self, request: Request) -> Response:
        wanted = await read_body(request, ReceiveMessages)
        node, topic = self._asked(request)
        wait_ms = topic.settings.queue.wait_ms if wanted.wait_ms is None else wanted.wait_ms
        for name, number, most in (
            ("max", wanted.max - 1, RECEIVE_MAX - 1),
            ("lease_ms", wanted.lease_ms or 0, LEASE_MS_MAX),
            ("wait_ms", wait_ms, QUEUE_WAIT_MS_MAX),
        ):
            if not 0 <= number <= most:
                least = int(name == "max")
                raise InvalidRequest(f"{name} must be from {least} to {most + least}")
        account: MemoryAccount | None = request.scope.get(SCOPE_ACCOUNT)
        draw = None if account is None else MemoryDraw(account)
        try:
            deliveries = await unless_gone(
                request,
                node.delivery.receive(
                    topic,
                    group=wanted.group,
                    messages_max=wanted.max,
                    lease_ms=wanted.lease_ms,
                    wait_ms=wait_ms,
                    receiver=_receiver(request),
                    draw=draw,
                ),
            )
            if deliveries:
                node.engine.topics.traffic.of(PROTOCOL).delivered(topic.name, len(deliveries))
            sign = node.delivery.sign
            return json_answer(
                ReceivedMessages([delivered(one, sign(one.receipt)) for one in deliveries or ()])
            )
        finally:
            if draw is not None:  # The connection is given the answer now, and draws for it.
                draw.close()

    async def settle(self, request: Request) -> Response:
        wanted = await read_body(request, SettleMessages)
        node, topic = self._asked(request)
        if len(wanted.verdicts) > SETTLE_MAX:
            raise InvalidRequest(f"settle at most {SETTLE_MAX} messages at once")
        verdicts = [_verdict(node, topic, one) for one in wanted.verdicts]
        outcomes: Sequence[Outcome] = ()
        if verdicts:
            outcomes = await bounded(node.delivery.settle(topic, verdicts))
        return json_answer(SettleOutcomes([one.name.lower() for one in outcomes]))

    def _asked(self, request: Request) -> tuple[Node, Topic]:
        node = node_of(self._broker)
        return node, node.engine.topics.topic(request.path_params["name"])


def _receiver(request: Request) -> str:
    """The receiver, as leases record it."""
    client = request.client
    address = "" if client is None else f"{client.host}:{client.port}"
    return receiver_name("http", address, request.headers.get("user-agent", "").partition(" ")[0])


async def _outgoing(request: Request) -> list[OutgoingMessage]:
    """Return the messages of the body, which holds one or several."""
    body = await request.body()
    try:
        is_list = "messages" in decode_json(body, dict[str, msgspec.Raw])
    except UNREADABLE:
        is_list = False
    if not is_list:
        return [await read_body(request, OutgoingMessage)]
    messages = (await read_body(request, SendMessages)).messages
    if not 1 <= len(messages) <= SEND_MAX:
        raise InvalidRequest(f"send 1 to {SEND_MAX} messages at once, not {len(messages)}")
    return messages


def _check_heard(topic: Topic, messages: Sequence[OutgoingMessage]) -> None:
    """Refuse an option of a message that its queue would ignore, because that is always a
    mistake."""
    rules = topic.settings.queue.queue_rules
    for one in messages:
        if one.priority is not None and rules.priorities is Priorities.OFF:
            raise _deaf(topic, "priority", "queue.priority=strict")
        if one.deduplication_id is not None and rules.deduplication is Deduplication.OFF:
            raise _deaf(topic, "deduplication_id", "queue.deduplication=id")
        if not rules.delivery_headers:
            for name in one.timing:
                raise _deaf(topic, name, "queue.message.headers=true")
            if one.message_group is not None and not (rules.fifo and one.key is None):
                raise _deaf(topic, "message_group", "queue.message.headers=true")


def _deaf(topic: Topic, name: str, cure: str) -> InvalidRequest:
    return InvalidRequest(f"queue {topic.name} would ignore {name}; set {cure} first")


def _verdict(node: Node, topic: Topic, said: WorkerVerdict) -> tuple[Receipt, Verdict, int, str]:
    receipt = node.delivery.read_receipt(said.receipt)
    if receipt.partition not in topic.partitions:
        raise InvalidReceipt(f"this receipt is not for a message of {topic.name}")
    verdict = Verdict[said.verdict.upper()]
    if len(said.reason) > DEAD_REASON_CHARACTERS_MAX:
        raise InvalidRequest(f"a reason has at most {DEAD_REASON_CHARACTERS_MAX} characters")
    given = {Verdict.RELEASE: said.delay_ms, Verdict.EXTEND: said.lease_ms}.get(verdict)
    if given is not None and not 0 <= given <= LEASE_MS_MAX:
        raise InvalidRequest(f"delay_ms and lease_ms must be from 0 to {LEASE_MS_MAX}")
    if given is None:
        given = -1
        if verdict is Verdict.EXTEND:
            given = node.topics.catalog.work_settings(topic, receipt.group).rules.lease_ms
    return receipt, verdict, given, said.reason


def _states(written: str | None) -> frozenset[str]:
    if not written:
        return ALL_STATES
    try:
        return parse_states(written.split(","))
    except ValueError:
        known = ", ".join(STATES)
        message = f"state must be one or more of {known}, separated by commas"
        raise InvalidRequest(message) from None


def conditions(request: Request) -> Conditions:
    """The conditions that a look names, as a redrive has them."""
    asked = request.query_params
    return Conditions(
        reason=asked.get("reason", ""),
        topic=asked.get("topic", ""),
        key=asked.get("key", ""),
        header=asked.get("header", ""),
        header_value=asked.get("header_value", ""),
        body=asked.get("body", ""),
    )
