"""The facts about a running cluster that the production checklist of `penstock doctor` needs, read
once over HTTP from any node."""

import re

import msgspec

from penstock.cli.admin import ask, ask_for, parse_http
from penstock.engine.cluster.status import ClusterStatus
from penstock.watch.readings import Readings

QUEUES_MAX = 100
"""The number of queues whose settings are read; further queues are not checked."""
PRODUCE_APIS = {
    ("kafka", "Produce"),
    ("native", "Append"),
    ("sqs", "SendMessage"),
    ("sqs", "SendMessageBatch"),
}
REQUESTS_MIN = 100
"""The number of requests below which an average is not meaningful."""

_SAMPLE = re.compile(
    r"^(penstock_messages_produced_total|penstock_request_duration_seconds_count)"
    r"\{(.*)\} (\S+)$",
    re.MULTILINE,
)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')


class QueueSettings(msgspec.Struct, frozen=True):
    """The settings of a queue that the checklist needs."""

    dead_letter_topic: str = ""
    dead_letter_policy: str = "move"
    deliveries_max: int = 0
    lease_ms: int = 0
    retry_policy: str = "none"
    ttl_ms: int = -1
    retention_ms: int = -1
    max_message_bytes: int = 0
    deduplication: str = "off"


class _Queue(msgspec.Struct, frozen=True):
    settings: QueueSettings


class _Setting(msgspec.Struct, frozen=True):
    name: str
    value: str


class _Settings(msgspec.Struct, frozen=True):
    settings: list[_Setting]


class FiringAlert(msgspec.Struct, frozen=True):
    """An alert as `/v1/alerts` returns it."""

    rule: str = ""
    state: str = ""


class _Alerts(msgspec.Struct, frozen=True):
    enabled: bool
    webhook: str = ""
    alerts: list[FiringAlert] = []


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the checklist is held against."""

    cluster: ClusterStatus
    readings: Readings
    settings: dict[str, str]
    """The settings of the node that was asked, as text."""
    queues: dict[str, QueueSettings]
    alerts_enabled: bool
    webhook: str
    firing: int
    batch: float | None = None
    """Messages to a request, of everything that was sent to the node; None: too few to tell."""

    @property
    def working_queues(self) -> dict[str, QueueSettings]:
        """Queues that are not the dead-letter queues of others."""
        letters = {one.dead_letter_topic for one in self.queues.values()}
        return {name: one for name, one in self.queues.items() if name not in letters}


def ask_facts(http: str) -> Facts:
    """Read the facts from a running broker."""
    readings = ask_for(http, "GET", "/v1/readings", Readings)
    names = sorted({one.queue for one in readings.queues})[:QUEUES_MAX]
    settings = ask_for(http, "GET", "/v1/config", _Settings).settings
    alerts = ask_for(http, "GET", "/v1/alerts", _Alerts)
    return Facts(
        cluster=ask_for(http, "GET", "/v1/cluster", ClusterStatus),
        readings=readings,
        settings={one.name: one.value for one in settings},
        queues={
            name: ask_for(http, "GET", f"/v1/queues/{name}", _Queue).settings for name in names
        },
        alerts_enabled=alerts.enabled,
        webhook=alerts.webhook,
        firing=sum(one.state == "firing" for one in alerts.alerts),
        batch=_messages_per_request(ask(parse_http(http), "GET", "/metrics").decode()),
    )


def _messages_per_request(text: str) -> float | None:
    """From the page of metrics; a quote in a topic's name is escaped there."""
    messages = requests = 0.0
    for name, labels, value in _SAMPLE.findall(text):
        found = dict(_LABEL.findall(labels))
        if name == "penstock_messages_produced_total":
            if found.get("protocol") not in ("internal", "http"):
                messages += float(value)
        elif (found.get("protocol", ""), found.get("api", "")) in PRODUCE_APIS:
            requests += float(value)
    return messages / requests if requests >= REQUESTS_MIN else None
