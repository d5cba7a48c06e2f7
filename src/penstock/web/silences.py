"""Acknowledging and silencing alerts over HTTP.

    GET     /v1/alerts/silences         those in force
    POST    /v1/alerts/ack              {"key", "for"?, "who"?, "comment"?}: one alert, until it is
                                        over or gets worse; for a day unless said otherwise
    POST    /v1/alerts/silences         {"rule"?, "subject"?, "for", "who"?, "comment"?}: whatever
                                        matches; one of the first two is given
    DELETE  /v1/alerts/silences/{id}    end one before its time

`for` is a duration: "30m", "2h", "7d", up to 30 days. `subject` is a pattern for the name of a
queue, group, topic or node: "shop-*". Any node can be asked.
"""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.durations import read_duration_ms
from penstock.core.errors import InvalidRequest, Unavailable, UnknownAlert
from penstock.watch.rules import RULES
from penstock.watch.silences import AlertSilence, Silences
from penstock.watch.watch import Watch
from penstock.web.answer_types import SilenceList
from penstock.web.answers import json_answer
from penstock.web.api_operation import ApiOperation
from penstock.web.audited_actions import who
from penstock.web.broker import Broker
from penstock.web.requests import bounded, read_body

ACK_FOR = "1d"


class Acknowledge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that acknowledges an alert."""

    key: str
    lasting: str = msgspec.field(name="for", default=ACK_FOR)
    who: str = ""
    comment: str = ""


class BeginSilence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that silences a rule, a subject, or both."""

    lasting: str = msgspec.field(name="for")
    rule: str = ""
    subject: str = ""
    who: str = ""
    comment: str = ""


def silence_routes(broker: Broker) -> Sequence[ApiOperation]:
    orders = _Orders(broker)
    return [
        ApiOperation(
            "POST",
            "/v1/alerts/ack",
            orders.acknowledge,
            "Acknowledge an alert: it is not announced again until it ends or gets worse",
            body=Acknowledge,
            answers={201: AlertSilence},
        ),
        ApiOperation(
            "GET",
            "/v1/alerts/silences",
            orders.list,
            "List the acknowledgements and silences in force",
            answers={200: SilenceList},
        ),
        ApiOperation(
            "POST",
            "/v1/alerts/silences",
            orders.silence,
            "Silence alerts of a rule, about a subject, or both, for some time",
            body=BeginSilence,
            answers={201: AlertSilence},
        ),
        ApiOperation(
            "DELETE",
            "/v1/alerts/silences/{id}",
            orders.end,
            "End an acknowledgement or a silence early",
            answers={200: AlertSilence},
        ),
    ]


class _Orders:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list(self, _request: Request) -> Response:
        return json_answer(SilenceList(self._silences.current()))

    async def acknowledge(self, request: Request) -> Response:
        wanted = await read_body(request, Acknowledge)
        active = self._watch.alerts.active()
        alert = next((one for one in active if one.key == wanted.key), None)
        if alert is None:
            raise UnknownAlert(
                f"no alert {wanted.key[:200]} is active here; see: penstock alert list --json"
            )
        made = await bounded(
            self._silences.add(
                "ack",
                for_ms=_duration(wanted.lasting),
                alert=alert,
                who=wanted.who or who(request.scope),
                comment=wanted.comment,
            )
        )
        return json_answer(made, status=201)

    async def silence(self, request: Request) -> Response:
        wanted = await read_body(request, BeginSilence)
        if not wanted.rule and not wanted.subject:
            raise InvalidRequest('name a rule or a subject; "subject": "*" silences everything')
        if wanted.rule and wanted.rule not in RULES:
            raise InvalidRequest(
                f"there is no rule {wanted.rule[:60]}; there are {', '.join(RULES)}"
            )
        made = await bounded(
            self._silences.add(
                "silence",
                for_ms=_duration(wanted.lasting),
                rule=wanted.rule,
                subject=wanted.subject or "*",
                who=wanted.who or who(request.scope),
                comment=wanted.comment,
            )
        )
        return json_answer(made, status=201)

    async def end(self, request: Request) -> Response:
        return json_answer(await bounded(self._silences.end(request.path_params["id"])))

    @property
    def _watch(self) -> Watch:
        if self._broker.watch is None:
            raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
        return self._broker.watch

    @property
    def _silences(self) -> Silences:
        return self._watch.silences


def _duration(text: str) -> int:
    try:
        return read_duration_ms(text)
    except ValueError as error:
        raise InvalidRequest(
            f'"for" is a duration such as 30m, 2h or 7d, not {text[:60]!r}'
        ) from error
