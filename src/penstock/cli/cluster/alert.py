"""`penstock alert …`: what is wrong with the cluster, and whether the webhook hears of it."""

import time
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.table import format_age, print_table
from penstock.core.decoders import decode_json
from penstock.watch.alert import Alert, AlertState

app = App(name="alert", help="List alerts, and test the webhook.")

States = Literal["firing", "pending", "resolved"]


class _Listed(msgspec.Struct):
    enabled: bool
    webhook: str
    alerts: list[Alert]
    resolved: list[Alert]


class _Tested(msgspec.Struct):
    webhook: str


@app.command(name="list")
def list_alerts(
    *,
    state: Annotated[
        States | None, Parameter(help="Only those; without it, those that fire or are pending.")
    ] = None,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> int:
    """List the alerts, the worst first. The exit code is 1 if one of them fires.

    Examples
    --------
    penstock alert list
    penstock alert list --state resolved
    penstock alert list --json
    """
    path = "/v1/alerts" + (f"?state={state}" if state else "")
    answer = broker.ask("GET", path)
    found = decode_json(answer, _Listed)
    fires = any(one.state is AlertState.FIRING for one in found.alerts)
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
        print_table(
            heads,
            [_row(alert, time.time() * 1_000) for alert in shown],
            tones=[
                alert.level.value if alert.state is AlertState.FIRING else "" for alert in shown
            ],
            spare=("SINCE", "RULE"),
        )
    return int(fires)


@app.command(name="test")
def try_webhook(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Let the broker send a test to its webhook (alerts.webhook), and say how that went.

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


def _row(alert: Alert, now_ms: float) -> tuple[str, ...]:
    age = format_age(max(0, int(now_ms - alert.since_ms)))
    return (
        alert.level.value,
        alert.state.value,
        age,
        alert.rule,
        alert.message,
        alert.runbook,
    )
