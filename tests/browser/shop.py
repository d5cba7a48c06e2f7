"""A shop at work on a cluster, for pictures: orders come in, mails go out, and not all is well.

    payments         busy, and worked off as it comes
    confirmation-mails   some addresses are wrong: they die, with a reason
    invoices         one invoice in nine cannot be written
    thumbnails       more than its one worker can do: it falls behind
    stock-updates    paused by hand
    reminders        delayed
    returns          nobody works on it

Three Kafka groups read `page-views`: one keeps up, one is behind, one has gone home. A pipeline
reports.
"""

import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer

from penstock import blocking
from penstock.client.settings import ClientSettings
from penstock.core.pipeline_report import CONFIGS, TOPIC, PipelineReport, StageReport
from penstock.testing import LocalCluster
from tests.web_broker import ask

QUEUES: Mapping[str, Mapping[str, object]] = {
    "payments": {"dead_letter_topic": "payments-dead", "deliveries_max": 5},
    "confirmation-mails": {
        "dead_letter_topic": "confirmation-mails-dead", "deliveries_max": 2, "retry_delay_ms": 200,
    },
    "invoices": {"dead_letter_policy": "archive", "deliveries_max": 3},
    "thumbnails": {},
    "stock-updates": {},
    "reminders": {},
    "returns": {},
}  # fmt: skip
NAMES = ("Ada", "Noor", "Jürgen", "Mei", "Łucja", "Tomás", "Aroha", "Ngozi", "Ravi", "Ingrid")
TOWNS = ("Łódź", "Gent", "Porto", "Kyōto", "Nairobi", "Córdoba", "Bergen", "Tartu")
GOODS = ("teapot", "lamp", "notebook", "umbrella", "chair", "kettle", "rug")
PAGES = ("/", "/sale", "/teapots", "/basket", "/pay", "/thanks")


def order(number: int) -> dict[str, Any]:
    """One of many, and always the same."""
    name = NAMES[number % len(NAMES)]
    return {
        "order": 10_000 + number,
        "customer": {"name": name, "mail": f"{name.lower()}@example.org"},
        "ship_to": TOWNS[number * 7 % len(TOWNS)],
        "lines": [
            {"sku": GOODS[(number + one) % len(GOODS)], "count": 1 + (number + one) % 3}
            for one in range(1 + number % 3)
        ],
        "total": f"{12 + number % 90}.{number % 10}0 EUR",
    }


def fault(queue: str, number: int) -> str:
    """Why a message fails; nothing if it does not."""
    if queue == "confirmation-mails" and number % 11 == 0:
        return "SMTPRecipientsRefused: 550 5.1.1 no such mailbox"
    if queue == "confirmation-mails" and number % 37 == 0:
        return "TimeoutError: mail.example.org did not answer within 10 s"
    if queue == "invoices" and number % 9 == 0:
        return "KeyError: 'vat_number'"
    return ""


class Shop:
    """Everybody who works there, from `with` to the end of its block."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._http = cluster.http_url.removeprefix("http://")
        self._url = cluster.url
        self._kafka = cluster.kafka
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Shop":
        for name, settings in QUEUES.items():
            self._order(
                "",
                {"name": name, "partitions": 1, "settings": {"dead_letter_topic": "", **settings}},
            )
        self._order("/stock-updates/pause", {})
        self._begin(self._report)
        for name, pace in (
            ("payments", 24), ("confirmation-mails", 12), ("invoices", 6), ("thumbnails", 30),
            ("stock-updates", 4), ("reminders", 2), ("returns", 1),
        ):  # fmt: skip
            self._begin(partial(self._send, name, pace))
        for name, workers in (("payments", 2), ("confirmation-mails", 1), ("invoices", 1)):
            for number in range(1, workers + 1):
                self._begin(partial(self._work, name, f"{name}-{number}", 50))
        self._begin(partial(self._work, "thumbnails", "thumbnails-1", 6))
        self._begin(self._view)
        self._begin(partial(self._read, "recommendations", 200))
        self._begin(partial(self._read, "visitor-statistics", 4))
        self._begin(self._export)
        return self

    def __exit__(self, *exc: object) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _order(self, path: str, body: object) -> None:
        status, document = ask(self._http, "POST", f"/v1/queues{path}", body)
        assert status < 300, document

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        self._threads.append(thread)

    def _send(self, name: str, pace: int) -> None:
        """So many orders a second."""
        delay = 3_600 if name == "reminders" else None
        with blocking.connect(self._url) as client:
            queue = client.queue(name)
            for number in itertools.count():
                one = order(number)
                queue.send(one, key=one["customer"]["mail"], headers={"kind": "order"}, delay=delay)
                if self._closing.wait(1 / pace):
                    return

    def _work(self, name: str, worker: str, at_once: int) -> None:
        with blocking.connect(self._url, settings=ClientSettings(client_id=worker)) as client:
            queue = client.queue(name)
            while not self._closing.wait(0.5):
                for message in queue.receive(at_once, wait=0.5):
                    reason = fault(name, message.body["order"])
                    if reason and message.deliveries > 1:
                        message.reject(reason)
                    elif reason:
                        message.release()
                    else:
                        message.ack()

    def _view(self) -> None:
        producer = Producer({"bootstrap.servers": self._kafka, "client.id": "web-shop"})
        for number in itertools.count():
            seen = {"page": PAGES[number % len(PAGES)], "visitor": number % 97, "ms": number % 350}
            producer.produce("page-views", json.dumps(seen), key=str(number % 97))
            if number % 40 == 0:
                producer.flush()
                if self._closing.wait(0.5):
                    return

    def _read(self, group: str, at_once: int) -> None:
        settings = {
            "bootstrap.servers": self._kafka, "group.id": group, "client.id": f"{group}-1",
            "auto.offset.reset": "earliest", "auto.commit.interval.ms": 1_000,
        }  # fmt: skip
        reader = Consumer(settings)
        reader.subscribe(["page-views"])
        while not self._closing.wait(0.2):
            reader.consume(at_once, 0.2)
        reader.close()

    def _export(self) -> None:
        """A group that reads once and goes home."""
        settings = {
            "bootstrap.servers": self._kafka, "group.id": "nightly-export",
            "auto.offset.reset": "earliest",
        }  # fmt: skip
        reader = Consumer(settings)
        reader.subscribe(["page-views"])
        while not reader.consume(200, 2) and not self._closing.is_set():
            pass
        reader.close()

    def _report(self) -> None:
        with blocking.connect(self._url) as client:
            client.create_topic(TOPIC, partitions=1, exist_ok=True, configs=CONFIGS)
            topic = client.topic(TOPIC, codec=bytes)
            while not self._closing.is_set():
                topic.send(msgspec.json.encode(report(time.time_ns() // 1_000_000)), key="visits")
                self._closing.wait(5)


def report(now_ms: int) -> PipelineReport:
    """What a pipeline says of itself."""
    stages = (
        StageReport(
            stage="clean", state="running", source="page-views", target="lake.views",
            rows_in=182_400, rows_out=182_386, rows_dead=14, rate=412.0, lag=96, batches=61,
            batch_ms=840,
        ),
        StageReport(
            stage="sessions", state="running", source="lake.views", target="lake.sessions",
            rows_in=182_386, rows_out=9_120, rate=398.0, lag=0, batches=60, batch_ms=1_310,
        ),
        StageReport(
            stage="score", state="restarting", source="lake.sessions", target="offers",
            rows_in=8_800, rows_out=8_800, rate=0.0, lag=320, batches=44, batch_ms=2_050,
            restarts=2, error="IOError: the model's file is being replaced",
        ),
    )  # fmt: skip
    return PipelineReport(
        pipeline="visits", state="running", host="etl-1", started_ms=now_ms - 1_200_000,
        reported_ms=now_ms, stages=stages,
    )  # fmt: skip
