"""Queues over HTTP, on a real broker."""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.core.memory_budget import ANSWERS, MemoryAccount
from penstock.core.types import Offset
from penstock.engine.topics.topics import Acks
from penstock.machines.secrets import RECEIPTS
from penstock.web.app import make_app
from penstock.web.queue_lines import GroupCounts
from penstock.web.queues import LIST_MAX
from tests.batches import TODAY_MS, build_batch
from tests.idle_connection import IdleConnection
from tests.unit.engine.nodes import Nodes, until
from tests.unit.web.asgi import JSON, ask
from tests.web_broker import ServingBroker, WebBroker

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("queues")) as broker:
        yield broker


def make(web: WebBroker, name: str, **settings: object) -> None:
    web.expect(201, "POST", "/v1/queues", {"name": name, "settings": settings})


def send(web: WebBroker, name: str, *bodies: str, **said: object) -> list[tuple[int, int]]:
    messages = [{"body": body, **said} for body in bodies]
    sent = web.expect(201, "POST", f"/v1/queues/{name}/messages", {"messages": messages})
    return [(one["partition"], one["offset"]) for one in sent["messages"]]


def counts(web: WebBroker, name: str, group: str = "queue") -> dict[str, int]:
    found = web.expect(200, "GET", f"/v1/queues/{name}")
    (one,) = (one for one in found["groups"] if one["group"] == group)
    assert one["accounted"] == one["sent"]
    return {
        state: one[state]
        for state in ("ready", "leased", "delayed", "dead", "acked", "purged", "duplicates")
        if one[state]
    }


def test_a_queue_is_made_listed_and_deleted(web: WebBroker) -> None:
    made = web.expect(
        201,
        "POST",
        "/v1/queues",
        {
            "name": "made",
            "partitions": 2,
            "settings": {
                "order": "fifo",
                "queue.lease.ms": 60_000,
                "dead_letter_topic": "made-dlq",
                "retention_ms": "3600000",
                "delete_acked": False,
            },
        },
    )
    assert made["created"] == ["made", "made-dlq"]
    assert made["settings"]["lease_ms"] == 60_000
    assert made["settings"]["retention_ms"] == 3_600_000
    assert made["settings"]["delete_acked"] is False
    assert made["settings"]["message_headers"] is True
    listed = web.expect(200, "GET", "/v1/queues?prefix=made")
    first, second = listed["queues"]
    assert (first["name"], first["kind"], first["partitions"]) == ("made", "fifo", 2)
    assert first["dead_letter_topic"] == "made-dlq"
    assert [one["group"] for one in first["groups"]] == ["queue"]
    assert (second["name"], second["kind"]) == ("made-dlq", "fifo")
    assert listed["next"] is None
    assert web.expect(200, "GET", "/v1/queues?prefix=made&limit=1")["next"] == "made"
    rest = web.expect(200, "GET", "/v1/queues?prefix=made&after=made")["queues"]
    assert [one["name"] for one in rest] == ["made-dlq"]
    web.expect(409, "POST", "/v1/queues", {"name": "made"})
    web.expect(200, "DELETE", "/v1/queues/made")
    assert web.expect(404, "GET", "/v1/queues/made")["error"] == "UnknownTopic"
    web.expect(404, "DELETE", "/v1/queues/made")


def test_a_topic_is_a_queue_when_it_has_a_work_group(web: WebBroker) -> None:
    web.call(web.node.engine.topics.create_topic("plain", 1, {}))
    names = [one["name"] for one in web.expect(200, "GET", "/v1/queues?prefix=plain")["queues"]]
    assert names == []
    web.expect(200, "POST", "/v1/queues/plain/receive", {"group": "workers"})
    (line,) = web.expect(200, "GET", "/v1/queues?prefix=plain")["queues"]
    assert [one["group"] for one in line["groups"]] == ["workers"]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, "standard"),
        ({"priority": "weighted"}, "priority"),
        ({"delay_ms": 1_000}, "delay"),
        ({"delay_ms": 1_000, "order": "fifo"}, "hybrid"),
    ],
)
def test_kinds(web: WebBroker, settings: dict[str, object], kind: str) -> None:
    name = f"kind-{kind}"
    make(web, name, **settings)
    assert web.expect(200, "GET", f"/v1/queues/{name}")["kind"] == kind


def test_settings_change(web: WebBroker) -> None:
    make(web, "changing", lease_ms=1_000)
    changed = web.expect(
        200, "PATCH", "/v1/queues/changing", {"settings": {"lease_ms": None, "ttl_ms": 5_000}}
    )
    assert changed["settings"]["lease_ms"] == 30_000
    assert changed["settings"]["ttl_ms"] == 5_000
    for settings, words in (
        ({"leese_ms": 1}, "did you mean lease_ms?"),
        ({"lease_ms": -5}, "queue.lease.ms"),
        ({"lease_ms": 1, "queue.lease.ms": 2}, "twice"),
    ):
        refused = web.expect(400, "PATCH", "/v1/queues/changing", {"settings": settings})
        assert refused["error"] == "InvalidConfig"
        assert words in refused["message"]
    web.expect(404, "PATCH", "/v1/queues/nowhere", {"settings": {"lease_ms": 1}})


def test_send_receive_and_settle(web: WebBroker) -> None:
    make(web, "errands", dead_letter_topic="")
    body = {
        "body": "first",
        "key": {"base64": "/w=="},
        "headers": {"a": "1", "b": {"base64": "/w=="}, "c": ["x", None]},
    }
    sent = web.expect(201, "POST", "/v1/queues/errands/messages", body)
    assert sent == {"messages": [{"partition": 0, "offset": 0, "duplicate": False}]}
    send(web, "errands", "second", "third", "fourth")
    received = web.expect(200, "POST", "/v1/queues/errands/receive", {"max": 4})["messages"]
    assert [one["body"] for one in received] == ["first", "second", "third", "fourth"]
    first = received[0]
    assert first["key"] == body["key"]
    assert first["headers"] == body["headers"]
    assert (first["state"], first["deliveries"]) == ("leased", 1)
    assert first["until_ms"] > first["timestamp_ms"]
    assert counts(web, "errands") == {"leased": 4}
    verdicts = [
        {"receipt": received[0]["receipt"], "verdict": "ack"},
        {"receipt": received[1]["receipt"], "verdict": "release", "delay_ms": 0},
        {"receipt": received[2]["receipt"], "verdict": "reject", "reason": "broken"},
        {"receipt": received[3]["receipt"], "verdict": "extend", "lease_ms": 600_000},
    ]
    settled = web.expect(200, "POST", "/v1/queues/errands/settle", {"verdicts": verdicts})
    assert settled == {"outcomes": ["done"] * 4}
    assert counts(web, "errands") == {"acked": 1, "ready": 1, "dead": 1, "leased": 1}
    again = web.expect(200, "POST", "/v1/queues/errands/receive")["messages"]
    assert [(one["body"], one["deliveries"]) for one in again] == [("second", 2)]
    late = web.expect(200, "POST", "/v1/queues/errands/settle", {"verdicts": verdicts})
    assert late == {"outcomes": ["gone", "stale", "gone", "done"]}
    (dead,) = web.expect(200, "GET", "/v1/queues/errands/messages?state=dead")["messages"]
    assert (dead["body"], dead["reason"], dead["state"]) == ("third", "broken", "dead")


def test_receipts_are_checked(web: WebBroker) -> None:
    make(web, "mine")
    make(web, "theirs")
    send(web, "mine", "x")
    (one,) = web.expect(200, "POST", "/v1/queues/mine/receive")["messages"]
    for name, receipt in (("mine", "nonsense"), ("theirs", one["receipt"])):
        verdict = {"receipt": receipt, "verdict": "ack"}
        refused = web.expect(400, "POST", f"/v1/queues/{name}/settle", {"verdicts": [verdict]})
        assert refused["error"] == "InvalidReceipt"
    assert counts(web, "mine") == {"leased": 1}


def test_a_receive_leases_nothing_that_there_is_no_memory_for(web: WebBroker) -> None:
    make(web, "tight")
    send(web, "tight", "one")
    memory = web.node.memory

    async def fill() -> MemoryAccount:
        account = memory.open("kafka", "host-1", IdleConnection())
        account.take(ANSWERS, memory.fetch_max)
        return account

    async def empty(account: MemoryAccount) -> None:
        account.close()

    others = web.call(fill())
    try:
        assert web.expect(200, "POST", "/v1/queues/tight/receive") == {"messages": []}
        assert counts(web, "tight") == {"ready": 1}
    finally:
        web.call(empty(others))
    (got,) = web.expect(200, "POST", "/v1/queues/tight/receive")["messages"]
    assert got["deliveries"] == 1


def test_looking_touches_nothing(web: WebBroker) -> None:
    make(web, "seen")
    send(web, "seen", *(f"{number}" for number in range(7)))
    send(web, "seen", "later", delay_ms=600_000)
    web.expect(200, "POST", "/v1/queues/seen/receive")
    before = counts(web, "seen")
    assert before == {"ready": 6, "leased": 1, "delayed": 1}
    page = web.expect(200, "GET", "/v1/queues/seen/messages?limit=3")
    assert [one["state"] for one in page["messages"]] == ["leased", "ready", "ready"]
    assert page["next"] == "0:3"
    rest = web.expect(200, "GET", "/v1/queues/seen/messages?from=0:3")
    assert [one["offset"] for one in rest["messages"]] == [3, 4, 5, 6, 7]
    assert rest["next"] is None
    chosen = web.expect(200, "GET", "/v1/queues/seen/messages?state=leased,delayed&partition=0")
    old_words = "/v1/queues/seen/messages?state=in-flight,delayed&partition=0"
    assert web.expect(200, "GET", old_words) == chosen
    assert [one["body"] for one in chosen["messages"]] == ["0", "later"]
    assert chosen["messages"][1]["until_ms"] > chosen["messages"][1]["timestamp_ms"] + 500_000
    assert counts(web, "seen") == before
    for query in ("state=asleep", "limit=0", "from=x", "partition=9", "partition=0&from=1:0"):
        web.expect(400, "GET", f"/v1/queues/seen/messages?{query}")


def test_old_names_of_counts_are_aliases(web: WebBroker) -> None:
    make(web, "older")
    send(web, "older", "a", "b", "c")
    web.expect(200, "POST", "/v1/queues/older/receive")
    (group,) = web.expect(200, "GET", "/v1/queues/older")["groups"]
    assert (group["visible"], group["in_flight"]) == (group["ready"], group["leased"]) == (2, 1)


def test_counts_of_a_broker_that_knows_only_the_old_names_are_read() -> None:
    names = ("sent", "delayed", "dead", "acked", "moved", "expired", "purged", "dropped")
    sent: dict[str, object] = dict.fromkeys((*names, "duplicates", "accounted"), 0)
    sent |= {"group": "queue", "oldest_age_ms": None, "visible": 4, "in_flight": 2}
    counts = msgspec.convert(sent, GroupCounts)
    assert (counts.ready, counts.leased) == (4, 2)


def test_what_a_message_says(web: WebBroker) -> None:
    make(web, "said", order="fifo", deduplication="id", priority="strict")
    send(web, "said", "a", message_group="g", deduplication_id="1", priority=9, ttl_ms=600_000)
    sent = web.expect(
        201,
        "POST",
        "/v1/queues/said/messages",
        {"body": "a", "message_group": "g", "deduplication_id": "1"},
    )
    assert sent["messages"] == [{"partition": 0, "offset": 0, "duplicate": True}]
    assert counts(web, "said") == {"ready": 1}
    (one,) = web.expect(200, "GET", "/v1/queues/said/messages")["messages"]
    assert one["key"] == "g"
    assert one["headers"]["penstock-priority"] == "9"


def test_what_would_be_ignored_is_refused(web: WebBroker) -> None:
    make(web, "deaf", message_headers=False)
    for said, cure in (
        ({"priority": 3}, "queue.priority"),
        ({"deduplication_id": "1"}, "queue.deduplication"),
        ({"delay_ms": 3}, "queue.message.headers"),
        ({"message_group": "g"}, "queue.message.headers"),
    ):
        refused = web.expect(400, "POST", "/v1/queues/deaf/messages", {"body": "x", **said})
        assert cure in refused["message"]
    make(web, "hearing", priority="strict")
    refused = web.expect(400, "POST", "/v1/queues/hearing/messages", {"body": "x", "priority": 10})
    assert "from 0 to 9" in refused["message"]


def test_a_message_is_called_off(web: WebBroker) -> None:
    make(web, "scheduled")
    send(web, "scheduled", "one", delay_ms=600_000)
    web.expect(200, "DELETE", "/v1/queues/scheduled/messages/0/0")
    assert counts(web, "scheduled") == {"purged": 1}
    refused = web.expect(409, "DELETE", "/v1/queues/scheduled/messages/0/0")
    assert refused["error"] == "MessageNotWaiting"
    web.expect(400, "DELETE", "/v1/queues/scheduled/messages/7/0")


def test_pause_and_purge(web: WebBroker) -> None:
    make(web, "held")
    send(web, "held", "a", "b")
    web.expect(200, "POST", "/v1/queues/held/pause")
    assert web.expect(200, "GET", "/v1/queues/held")["paused"] is True
    assert web.expect(200, "POST", "/v1/queues/held/receive")["messages"] == []
    web.expect(200, "POST", "/v1/queues/held/resume")
    assert len(web.expect(200, "POST", "/v1/queues/held/receive")["messages"]) == 1
    web.expect(200, "POST", "/v1/queues/held/purge")
    assert counts(web, "held") == {"purged": 2}
    web.expect(404, "POST", "/v1/queues/held/purge", {"group": "nobody"})


def test_a_group_goes_on_from_elsewhere(web: WebBroker) -> None:
    make(web, "again", delete_acked=False)
    send(web, "again", "a", "b", "c")
    received = web.expect(200, "POST", "/v1/queues/again/receive", {"max": 3})["messages"]
    verdicts = [{"receipt": one["receipt"], "verdict": "ack"} for one in received]
    web.expect(200, "POST", "/v1/queues/again/settle", {"verdicts": verdicts})
    planned = web.expect(
        200, "POST", "/v1/queues/again/reset", {"start": "earliest", "dry_run": True}
    )
    assert planned["partitions"] == [{"partition": 0, "was": 3, "start": 0, "end": 3}]
    assert planned["messages"] == 3
    assert counts(web, "again") == {"acked": 3}
    web.expect(200, "POST", "/v1/queues/again/reset", {"start": "earliest"})
    assert counts(web, "again") == {"ready": 3}
    web.expect(200, "POST", "/v1/queues/again/reset", {"start": 2, "partition": 0})
    assert counts(web, "again") == {"ready": 1}
    web.expect(200, "POST", "/v1/queues/again/reset", {"start": "latest"})
    assert counts(web, "again") == {}
    web.expect(200, "POST", "/v1/queues/again/reset", {"time_ms": 0})
    assert counts(web, "again") == {"ready": 3}
    later = received[2]["timestamp_ms"] + 60_000
    planned = web.expect(200, "POST", "/v1/queues/again/reset", {"time_ms": later, "dry_run": True})
    assert planned["messages"] == 0
    for body in ({}, {"start": "soon"}, {"start": -7}, {"start": 1, "time_ms": 1},
                 {"start": 0, "partition": 4}):  # fmt: skip
        web.expect(400, "POST", "/v1/queues/again/reset", body)
    web.expect(404, "POST", "/v1/queues/again/reset", {"start": 0, "group": "nobody"})


def test_a_time_is_found_inside_a_batch(web: WebBroker) -> None:
    make(web, "timed")
    engine = web.node.engine

    async def produce() -> None:
        batch = build_batch(5, timestamp=TODAY_MS)
        await engine.topics.produce(engine.topics.topic("timed"), 0, batch, Acks.ALL)

    web.call(produce())
    planned = web.expect(
        200, "POST", "/v1/queues/timed/reset", {"time_ms": TODAY_MS + 3, "dry_run": True}
    )
    assert planned["partitions"] == [{"partition": 0, "was": 0, "start": 3, "end": 5}]


def test_a_long_poll_is_answered_when_something_comes(web: WebBroker) -> None:
    make(web, "awaited")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            web.expect, 200, "POST", "/v1/queues/awaited/receive", {"wait_ms": 20_000}
        )
        send(web, "awaited", "here")
        assert [one["body"] for one in waiting.result()["messages"]] == ["here"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("receive", {"max": 0}),
        ("receive", {"max": 101}),
        ("receive", {"wait_ms": 20_001}),
        ("receive", {"lease_ms": -1}),
        ("receive", {"what": 1}),
        ("messages", {"messages": []}),
        ("messages", {"key": "without a body"}),
        ("messages", []),
        ("settle", {"verdicts": [{"receipt": "x", "verdict": "eat"}]}),
    ],
)
def test_bad_requests(web: WebBroker, path: str, body: object) -> None:
    if web.node.engine.topics.catalog.topic("bad") is None:
        make(web, "bad")
    refused = web.expect(400, "POST", f"/v1/queues/bad/{path}", body)
    assert refused["error"] == "InvalidRequest"


def test_an_unknown_queue(web: WebBroker) -> None:
    for method, path in (
        ("POST", "receive"), ("GET", "messages"), ("POST", "purge"), ("POST", "pause"),
    ):  # fmt: skip
        assert web.expect(404, method, f"/v1/queues/nowhere/{path}")["error"] == "UnknownTopic"
    web.expect(400, "GET", f"/v1/queues?limit={LIST_MAX + 1}")


def bury(web: WebBroker, name: str, *bodies: str, reason: str = "broken") -> None:
    """Send messages and have them rejected."""
    send(web, name, *bodies)
    received = web.expect(200, "POST", f"/v1/queues/{name}/receive", {"max": 100})["messages"]
    verdicts = [
        {"receipt": one["receipt"], "verdict": "reject", "reason": reason} for one in received
    ]
    web.expect(200, "POST", f"/v1/queues/{name}/settle", {"verdicts": verdicts})


def test_what_the_dead_letter_queue_holds_is_dead_for_its_queues(web: WebBroker) -> None:
    make(web, "source", dead_letter_topic="shared-dlq")
    make(web, "second", dead_letter_topic="shared-dlq")
    bury(web, "source", "a", "b")

    def listed() -> list[int]:
        (line,) = web.expect(200, "GET", "/v1/queues?prefix=source")["queues"]
        (group,) = line["groups"]
        return [group[name] for name in ("dead", "dead_lettered", "moved")]

    wait_until(lambda: listed() == [2, 2, 2])
    assert counts(web, "second") == {"dead": 2}, "as on the dashboard, all of it counts"
    (letter,) = web.expect(200, "POST", "/v1/queues/shared-dlq/receive")["messages"]
    assert counts(web, "source") == {"dead": 2}, "it is only leased"
    verdict = {"receipt": letter["receipt"], "verdict": "ack"}
    web.expect(200, "POST", "/v1/queues/shared-dlq/settle", {"verdicts": [verdict]})
    assert counts(web, "source") == {"dead": 1}


def test_dead_messages_that_stayed(web: WebBroker) -> None:
    make(web, "grave", dead_letter_topic="")
    bury(web, "grave", "a", "b", "c")
    bury(web, "grave", "d", reason="timeout")
    assert counts(web, "grave") == {"dead": 4}
    revived = web.expect(
        200, "POST", "/v1/queues/grave/dead/revive", {"filter": {"places": [[0, 1]]}}
    )
    assert revived == {"messages": 1}
    assert counts(web, "grave") == {"dead": 3, "ready": 1}
    dropped = web.expect(
        200, "POST", "/v1/queues/grave/dead/discard", {"filter": {"reason": "timeout"}}
    )
    assert dropped == {"messages": 1}
    assert web.expect(200, "POST", "/v1/queues/grave/dead/archive") == {"messages": 2}
    assert web.expect(200, "POST", "/v1/queues/grave/dead/revive") == {"messages": 2}
    assert counts(web, "grave") == {"ready": 3, "purged": 1}
    for verb in ("revive", "discard"):
        web.expect(404, "POST", f"/v1/queues/grave/dead/{verb}", {"group": "nobody"})


def wait_until(holds: Callable[[], bool]) -> None:
    """The broker brings it about by itself; how soon is its business."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline


def test_dead_letters_go_back(web: WebBroker) -> None:
    make(web, "mortal", dead_letter_topic="mortal-dlq")
    bury(web, "mortal", "a", "b")
    bury(web, "mortal", "c", reason="timeout")
    wait_until(lambda: counts(web, "mortal-dlq").get("ready") == 3)
    letters = web.expect(200, "GET", "/v1/queues/mortal-dlq/messages")["messages"]
    assert sorted(one["headers"]["penstock-dead-reason"] for one in letters) == [
        "broken", "broken", "timeout",
    ]  # fmt: skip
    path = "/v1/queues/mortal-dlq/redrive"
    chosen = {"reason": "timeout"}
    assert web.expect(200, "POST", path, {"dry_run": True}) == {"matching": 3}
    assert web.expect(200, "POST", path, {"dry_run": True, "filter": chosen}) == {"matching": 1}
    web.expect(404, "POST", path, {"to": "nowhere"})
    web.expect(400, "POST", path, {"rate": 0})
    begun = web.expect(202, "POST", path, {"filter": chosen, "rate": 1_000})
    assert begun["to"] == ""

    def state() -> str:
        (move,) = web.expect(200, "GET", "/v1/queues/mortal-dlq/moves")["moves"]
        assert move["id"] == begun["id"]
        return str(move["state"])

    wait_until(lambda: state() == "completed")
    assert counts(web, "mortal")["ready"] == 1
    (back,) = web.expect(200, "POST", "/v1/queues/mortal/receive")["messages"]
    assert (back["body"], back["deliveries"]) == ("c", 1)
    assert web.expect(200, "GET", "/v1/queues/mortal-dlq")["moves"][0]["moved"] == 1
    over = web.expect(404, "DELETE", f"/v1/queues/mortal-dlq/moves/{begun['id']}")
    assert over["error"] == "UnknownMove"
    make(web, "other")
    slow = web.expect(202, "POST", path, {"to": "other", "rate": 1})
    assert slow["to"] == "other"
    assert web.expect(409, "POST", path)["error"] == "MoveRunning"
    stopped = web.expect(200, "DELETE", f"/v1/queues/mortal-dlq/moves/{slow['id']}")
    assert stopped["state"] == "cancelling"


@pytest.mark.slow
def test_any_node_can_be_asked(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        await until(lambda: all(RECEIPTS in node.engine.topics.catalog.secrets
                                for node in nodes.running.values()))  # fmt: skip
        apps = [make_app(ServingBroker(nodes[number])) for number in (1, 2, 3)]

        async def expect(number: int, method: str, path: str, body: object = None) -> Any:
            answer = await ask(
                apps[number - 1],
                method,
                f"/v1/queues{path}",
                headers=JSON,
                parts=[b"" if body is None else msgspec.json.encode(body)],
            )
            assert answer.status < 300, answer.body
            return answer.json()

        settings = {"dead_letter_topic": ""}
        await expect(1, "POST", "", {"name": "spread", "partitions": 3, "settings": settings})
        await until(lambda: all(node.engine.topics.catalog.topic("spread") is not None
                                for node in nodes.running.values()))  # fmt: skip
        for number in (1, 2, 3):
            messages = [{"body": f"{number}"}] * 3
            await expect(number, "POST", "/spread/messages", {"messages": messages})
        for number in (1, 2, 3):
            (line,) = (await expect(number, "GET", ""))["queues"]
            assert line["groups"][0]["ready"] == 9
            seen = await expect(number, "GET", "/spread/messages")
            assert len(seen["messages"]) == 9
        received = await expect(2, "POST", "/spread/receive", {"max": 9})
        assert sorted(one["body"] for one in received["messages"]) == sorted("123" * 3)
        verdicts = [{"receipt": one["receipt"], "verdict": "ack"} for one in received["messages"]]
        settled = await expect(3, "POST", "/spread/settle", {"verdicts": verdicts})
        assert settled == {"outcomes": ["done"] * 9}
        planned = await expect(1, "POST", "/spread/reset", {"start": "latest", "dry_run": True})
        assert [one["was"] == one["end"] for one in planned["partitions"]] == [True] * 3
        await expect(3, "DELETE", "/spread")
        await nodes.stop()

    asyncio.run(story())


def test_nothing_is_leased_for_somebody_who_has_gone(web: WebBroker) -> None:
    make(web, "deserted")

    async def hang_up() -> None:
        host, _, port = web.http.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        body = b'{"wait_ms": 20000}'
        writer.write(
            b"POST /v1/queues/deserted/receive HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        await writer.drain()
        polls = web.node.engine.topics.waiting
        partition = web.node.engine.topics.topic("deserted").partitions[0]
        await until(lambda: bool(polls.watches(partition)))
        writer.close()
        await writer.wait_closed()
        await until(lambda: not polls.watches(partition))

    asyncio.run(hang_up())
    send(web, "deserted", "x")
    assert counts(web, "deserted") == {"ready": 1}


def test_a_work_group_has_settings_of_its_own(web: WebBroker) -> None:
    make(web, "grouped", lease_ms=7_000, deliveries_max=3)
    web.expect(200, "POST", "/v1/queues/grouped/receive", {"group": "emails"})
    path = "/v1/queues/grouped"
    inherited = web.expect(200, "GET", path)["group_settings"]["emails"]
    assert inherited["lease_ms"] == {"value": 7_000, "source": "queue"}
    changes = {"lease_ms": 9_000, "dead_letter_topic": "emails-dead"}
    changed = web.expect(200, "PATCH", path, {"settings": changes, "group": "emails"})
    assert (changed["name"], changed["group"]) == ("grouped", "emails")
    assert changed["settings"]["lease_ms"] == {"value": 9_000, "source": "own"}
    assert changed["settings"]["deliveries_max"] == {"value": 3, "source": "queue"}
    found = web.expect(200, "GET", path)
    assert found["settings"]["lease_ms"] == 7_000
    assert found["group_settings"]["emails"] == changed["settings"]
    assert found["group_settings"]["queue"]["lease_ms"] == {"value": 7_000, "source": "queue"}
    web.expect(200, "PATCH", path, {"settings": {"lease_ms": None}, "group": "emails"})
    assert web.expect(200, "GET", path)["group_settings"]["emails"]["lease_ms"]["value"] == 7_000
    refused = web.expect(400, "PATCH", path, {"settings": {"ttl_ms": 5}, "group": "emails"})
    assert "no work group setting 'queue.ttl.ms'" in refused["message"]
    web.expect(404, "PATCH", "/v1/queues/nowhere", {"settings": changes, "group": "emails"})


def test_an_extension_is_as_long_as_the_lease_of_the_group(web: WebBroker) -> None:
    make(web, "extended", lease_ms=1_000)
    body = {"settings": {"lease_ms": 3_600_000}, "group": "slow"}
    web.expect(200, "PATCH", "/v1/queues/extended", body)
    web.expect(201, "POST", "/v1/queues/extended/messages", {"body": "x"})
    asked = {"group": "slow", "wait_ms": 10_000}
    (message,) = web.expect(200, "POST", "/v1/queues/extended/receive", asked)["messages"]
    verdict = {"receipt": message["receipt"], "verdict": "extend"}
    web.expect(200, "POST", "/v1/queues/extended/settle", {"verdicts": [verdict]})
    work = web.node.delivery.work(web.node.engine.topics.topic("extended"), 0, "slow")
    assert work is not None
    (run,) = work.runs_from(Offset(0))
    assert run.at_ms - web.node.engine.topics.clock.wall_ms() > 3_000_000
