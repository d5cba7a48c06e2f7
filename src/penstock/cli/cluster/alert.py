"""`penstock alert …`: the alerts of the cluster, acknowledgements, silences and the webhook."""

import getpass
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec
from cyclopts import App, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.table import Tone, format_age, print_table
from penstock.core.alert_levels import Level
from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest
from penstock.watch.alert import Alert, AlertState
from penstock.watch.alert_groups import group_alerts
from penstock.watch.rules import RULES
from penstock.watch.runbooks import rule_of, runbook, runbook_path
from penstock.watch.silences import AlertSilence

app = App(name="alert", help="List, acknowledge and silence alerts, and test the webhook.")

States = Literal["firing", "pending", "resolved"]


class _Listed(msgspec.Struct):
    enabled: bool
    webhook: str
    alerts: list[Alert]
    resolved: list[Alert]
    silences: list[AlertSilence] = []


class _Silences(msgspec.Struct):
    silences: list[AlertSilence]


Comment = Annotated[str, Parameter(help="The reason, shown with it.")]
Person = Annotated[
    str | None,
    Parameter(
        name="--by", show_default=False, help="The operator's name; by default your user name."
    ),
]


class _Tested(msgspec.Struct):
    webhook: str


@app.command(name="list")
def list_alerts(
    *,
    state: Annotated[
        States | None,
        Parameter(help="Only alerts in this state; by default those that are firing or pending."),
    ] = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> int:
    """List the alerts, the worst first. The exit code is 1 if one of them fires and is neither
    acknowledged nor silenced.

    More than three of one rule and level are one line; --json has each, with its key.

    Examples
    --------
    penstock alert list
    penstock alert list --state resolved
    penstock alert list --json
    """
    path = "/v1/alerts" + (f"?state={state}" if state else "")
    answer = broker.ask("GET", path)
    found = decode_json(answer, _Listed)
    fires = any(one.state is AlertState.FIRING and not one.silence for one in found.alerts)
    if json:
        print_json(msgspec.json.decode(answer))
        return int(fires)
    shown = found.resolved if state == "resolved" else found.alerts
    if not found.enabled:
        print("alerts are switched off (alerts.enabled)")
    elif not shown:
        print("nothing is wrong" if state is None else f"no alert is {state}")
    else:
        heads = ("LEVEL", "STATE", "SINCE", "RULE", "WHAT", "RUNBOOK")
        base = f"http://{broker.address()}"
        rows = _rows(shown, found.silences, time.time() * 1_000, base)
        levels: dict[str, Tone] = {level.value: level.value for level in Level}
        tones = [levels[row[0]] if row[1] == AlertState.FIRING.value else "" for row in rows]
        print_table(heads, rows, tones=tones, spare=("SINCE", "RULE"))
    return int(fires)


@app.command
def ack(
    key: Annotated[str, Parameter(help="The key of the alert, from `penstock alert list --json`.")],
    /,
    *,
    lasting: Annotated[str, Parameter(name="--for", help="The longest duration.")] = "1d",
    comment: Comment = "",
    by: Person = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Acknowledge an alert: it is not announced again until it ends or gets worse.

    Examples
    --------
    penstock alert ack depth:queue/jobs/queue
    penstock alert ack depth:queue/jobs/queue --for 4h --comment "import is running"
    """
    body = {"key": key, "for": lasting, "comment": comment, "who": _name(by)}
    _print_begun(broker.ask_for("POST", "/v1/alerts/ack", AlertSilence, body), json)


@app.command
def silence(
    *,
    lasting: Annotated[str, Parameter(name="--for", help="The duration, such as 2h.")],
    rule: Annotated[str, Parameter(help="Only this rule, such as no_consumers.")] = "",
    subject: Annotated[
        str, Parameter(help='A pattern for queues, groups, topics or nodes: "shop-*", "*".')
    ] = "",
    comment: Comment = "",
    by: Person = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Silence alerts of a rule, about a subject, or both, for some time.

    Examples
    --------
    penstock alert silence --subject "shop-*" --for 2h --comment "maintenance"
    penstock alert silence --rule no_consumers --for 30m
    """
    body = {
        "rule": rule, "subject": subject, "for": lasting, "comment": comment, "who": _name(by),
    }  # fmt: skip
    _print_begun(broker.ask_for("POST", "/v1/alerts/silences", AlertSilence, body), json)


@app.command
def silences(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """List the active acknowledgements and silences.

    Examples
    --------
    penstock alert silences
    """
    found = broker.ask_for("GET", "/v1/alerts/silences", _Silences).silences
    if json:
        print_json(found)
    elif not found:
        print("nothing is acknowledged or silenced")
    else:
        heads = ("ID", "KIND", "WHAT", "ENDS IN", "BY", "COMMENT")
        now_ms = time.time() * 1_000
        print_table(
            heads,
            [
                (one.id, one.kind, _what(one), _left(one, now_ms), one.who, one.comment or "-")
                for one in found
            ],
        )


@app.command
def unsilence(
    name: Annotated[str, Parameter(help="The id, from `penstock alert silences`.")],
    /,
    *,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """End an acknowledgement or a silence early.

    Examples
    --------
    penstock alert unsilence 5c0a91fe
    """
    ended = broker.ask_for("DELETE", f"/v1/alerts/silences/{quote(name, safe='')}", AlertSilence)
    if json:
        print_json(ended)
    else:
        print(f"{_what(ended)} is announced again")


@app.command(name="runbook")
def print_runbook(
    rule: Annotated[str, Parameter(help="The rule, such as no_consumers.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Print the runbook of an alert. This does not connect to a broker.

    Examples
    --------
    penstock alert runbook no_consumers
    """
    name = rule_of(rule)
    text = None if name is None else runbook(name)
    if text is None:
        raise InvalidRequest(f"there is no runbook {rule}; there are {', '.join(RULES)}")
    if json:
        print_json({"rule": name, "runbook": text})
    else:
        print(text, end="")


@app.command(name="test")
def try_webhook(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Make the broker send a test to its webhook (alerts.webhook), and report the result.

    Examples
    --------
    penstock alert test
    penstock alert test --url penstock://b.example:9092
    """
    found = broker.ask_for("POST", "/v1/alerts/test", _Tested)
    if json:
        print_json({"sent": True, "webhook": found.webhook})
    else:
        print(f"{found.webhook} has taken a test")


def _rows(
    alerts: Iterable[Alert], silences: Sequence[AlertSilence], now_ms: float, base: str
) -> list[tuple[str, ...]]:
    """A line for each group of alerts that are in the same state."""
    kinds: dict[str, list[Alert]] = {}
    covers = {one.id: one for one in silences}
    for alert in alerts:
        kinds.setdefault(_state(alert, covers.get(alert.silence)), []).append(alert)
    return [
        (
            group.level.value,
            state,
            format_age(max(0, int(now_ms - group.alerts[0].since_ms))),
            group.rule,
            group.message,
            _runbook(group.alerts[0], base),
        )
        for state, some in kinds.items()
        for group in group_alerts(some)
    ]


def _runbook(alert: Alert, base: str) -> str:
    """The address of the alert's runbook; a path is completed with the broker's address."""
    if "://" in alert.runbook or rule_of(alert.rule) is None:
        return alert.runbook
    return f"{base}{runbook_path(alert.rule)}"


def _state(alert: Alert, silence: AlertSilence | None) -> str:
    if silence is None:
        return alert.state.value
    return f"acked by {silence.who}" if silence.kind == "ack" else f"silenced by {silence.who}"


def _print_begun(one: AlertSilence, json: bool) -> None:
    if json:
        print_json(one)
        return
    if one.kind == "ack":
        print(f"{one.key} is acknowledged until it is over or gets worse, for {_left(one)} at most")
    else:
        print(f"{_what(one)} is silenced for {_left(one)}; end it with: "
              f"penstock alert unsilence {one.id}")  # fmt: skip


def _what(one: AlertSilence) -> str:
    return one.key or f"{one.rule or 'every rule'} of {one.subject}"


def _left(one: AlertSilence, now_ms: float | None = None) -> str:
    begin = one.at_ms if now_ms is None else now_ms
    return format_age(max(0, int(one.until_ms - begin)))


def _name(given: str | None) -> str:
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container whose user has no name.
        return ""
