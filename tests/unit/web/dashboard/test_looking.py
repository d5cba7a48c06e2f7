"""The pages of queues, topics, groups and messages, on a real broker, without a browser."""

import asyncio
import http.client
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from penstock.core.message import NewMessage
from penstock.core.types import Offset
from penstock.engine.groups.requests import CommitOffsets, OffsetToCommit
from penstock.engine.topics.topics import Acks
from penstock.machines.secrets import RECEIPTS
from penstock.web.app import make_app
from tests.batches import build_batch
from tests.unit.engine.nodes import Nodes, until
from tests.unit.web.asgi import ask
from tests.web_broker import ServingBroker, WebBroker

BAD = "<script>alert(1)</script>"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("pages")) as broker:
        for name, settings in (
            ("work", {"dead_letter_topic": "work-dead"}),
            ("kept", {"dead_letter_policy": "archive"}),
            ("else", {"dead_letter_topic": "work-dead"}),
        ):
            broker.expect(201, "POST", "/v1/queues", {"name": name, "settings": settings})
        fail(broker, "work", BAD, reason=f"{BAD} timeout")
        fail(broker, "work", "another", reason="ValueError")
        fail(broker, "else", "elsewhere", reason="timeout")
        fail(broker, "kept", "stayed", reason="no")
        send(broker, "work", f"waits {BAD}", key=BAD, headers={BAD: BAD})
        broker.call(broker.node.engine.topics.create_topic("log", 2, {}))
        produce(broker, BAD.encode())
        commit(broker, f"{BAD}/readers", 0)
        broker.call(until_dead_letters(broker, 3))
        broker.call(look(broker))
        yield broker


async def until_dead_letters(broker: WebBroker, count: int) -> None:
    """Dead letters are moved a moment after their messages have died."""
    async with asyncio.timeout(60):
        while True:
            topic = broker.node.engine.topics.topic("work-dead")
            if (await broker.node.delivery.counts(topic)).ready == count:
                return
            await asyncio.sleep(0)


async def look(broker: WebBroker) -> None:
    assert broker.process is not None
    await broker.process.watch.look()


def send(web: WebBroker, name: str, body: str, **said: object) -> None:
    web.expect(201, "POST", f"/v1/queues/{name}/messages", {"body": body, **said})


def fail(web: WebBroker, name: str, body: str, reason: str) -> None:
    send(web, name, body)
    (got,) = web.expect(200, "POST", f"/v1/queues/{name}/receive", {"wait_ms": 1_000})["messages"]
    verdict = {"receipt": got["receipt"], "verdict": "reject", "reason": reason}
    web.expect(200, "POST", f"/v1/queues/{name}/settle", {"verdicts": [verdict]})


def produce(web: WebBroker, value: bytes) -> None:
    async def work() -> None:
        engine = web.node.engine
        await engine.topics.produce(
            engine.topics.topic("log"), 0, build_batch(3, value=value), Acks.ALL
        )

    web.call(work())


def commit(web: WebBroker, group: str, offset: int) -> None:
    async def work() -> None:
        topic = web.node.engine.topics.topic("log")
        offsets = (OffsetToCommit(topic.topic_id, 0, Offset(offset)),)
        request = CommitOffsets(group=group, offsets=offsets)
        await web.node.engine.groups.coordinator(group).commit_offsets(request)

    web.call(work())


def page(web: WebBroker, path: str, status: int = 200) -> str:
    host, _, port = web.http.rpartition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == status, text
        policy = response.getheader("content-security-policy") or ""
        assert "script-src 'self'" in policy
    assert BAD not in text
    return text


@pytest.mark.parametrize(
    "path",
    [
        "/queues", "/queues?q=wor&sort=-dead&page=7", "/queues/work", "/queues/work?tab=messages",
        "/queues/work?tab=messages&state=ready&message=0:2&view=hex", "/queues/work?tab=dead",
        "/queues/work?tab=dead&reason=timeout&message=0:0", "/queues/work?tab=send",
        "/queues/work?tab=workers",
        "/queues/work?tab=settings", "/queues/work-dead", "/queues/kept?tab=dead&message=0:0",
        "/queues/work?tab=dead&box=here", "/queues/work?group=nobody", "/queues/log", "/topics",
        "/topics?internal=1&sort=size", "/topics/log", "/topics/log?tab=tail",
        "/topics/log?tab=partitions", "/topics/log?tab=groups", "/topics/log?tab=configs",
        "/topics/log?message=0:1&view=text", "/topics/log?order=oldest&partition=0&text=script",
        "/alerts", "/runbooks", "/runbooks/no-consumers", "/runbooks/state",
        "/groups", "/trace", "/trace?message=work:0:0", "/trace?message=nonsense",
        "/queues/work?message=x&from=y&view=z&tab=w", "/topics/log?message=99:99&from=soon",
    ],
)  # fmt: skip
def test_every_page_is_there_as_a_page_and_as_json(web: WebBroker, path: str) -> None:
    page(web, path)
    joint = "&" if "?" in path else "?"
    assert isinstance(web.expect(200, "GET", f"{path}{joint}format=json"), dict)


def test_names_and_payloads_are_text(web: WebBroker) -> None:
    chosen = page(web, "/queues/work?message=0:2")
    assert chosen.count(SHOWN) >= 4
    assert SHOWN in page(web, "/queues/work?tab=dead")
    assert SHOWN in page(web, "/topics/log")
    group = quote(f"{BAD}/readers", safe="")
    assert SHOWN in page(web, f"/groups/{group}?to=latest")
    assert f"/groups/{group}" in page(web, "/groups")
    page(web, f"/queues/work?tab={quote(BAD)}&reason={quote(BAD)}&message={quote(BAD)}")
    page(web, f"/trace?message={quote(BAD)}")


def test_what_is_not_there_has_a_page_that_says_so(web: WebBroker) -> None:
    for path in ("/queues/nowhere", "/topics/nowhere", "/groups/nobody", "/runbooks/none"):
        assert "there is no" in page(web, path, status=404)


def test_dead_letters_of_one_queue_are_told_from_others(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/queues/work?tab=dead&format=json")
    box = found["letter_box"]
    assert (box["box"], box["queue"], box["total"]) == ("letters", "work-dead", 3)
    assert sorted(row["reason"] for row in box["rows"]) == sorted([f"{BAD} timeout", "ValueError"])
    assert box["body"] == {"filter": {"topic": "work"}}
    found = web.expect(200, "GET", "/queues/work?tab=dead&reason=timeout&format=json")
    box = found["letter_box"]
    assert [row["died_in"] for row in box["rows"]] == ["work"]
    assert box["body"] == {"filter": {"reason": "timeout", "topic": "work"}}
    body = {**box["body"], "dry_run": True}
    assert web.expect(200, "POST", box["action"], body) == {"matching": 1}
    box = web.expect(200, "GET", "/queues/work-dead?format=json")["letter_box"]
    assert (box["box"], len(box["rows"])) == ("own", 3)


def test_dead_messages_that_stayed_are_shown_like_letters(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/queues/kept?tab=dead&message=0:0&format=json")
    box = found["letter_box"]
    assert (box["box"], box["action"]) == ("here", "/v1/queues/kept/dead/revive")
    assert [(row["reason"], row["died_in"]) for row in box["rows"]] == [("no", "kept")]
    assert found["chosen"]["reason"] == "no"
    assert found["chosen"]["payload"]["text"] == "stayed"
    counted = web.expect(200, "POST", box["action"], {**found["one"]["body"], "dry_run": True})
    assert counted == {"matching": 1}


def test_a_copy_of_a_letter_may_be_mended(web: WebBroker) -> None:
    def draft(copy: str) -> dict[str, str]:
        found = web.expect(200, "GET", f"/queues/work?tab=send&copy={quote(copy)}&format=json")
        made: dict[str, str] = found["draft"]
        return made

    letter = draft("work:0:2")
    assert (letter["body"], letter["key"], letter["problem"]) == (f"waits {BAD}", BAD, "")
    assert msgspec.json.decode(letter["headers"]) == {BAD: BAD}
    assert "penstock-" not in draft("work-dead:0:0")["headers"]
    page(web, "/queues/work?tab=send&copy=work:0:2")
    send(web, "kept", "", key=None)
    web.expect(201, "POST", "/v1/queues/kept/messages", {"body": {"base64": "/w=="}})
    assert "no text" in draft("kept:0:2")["problem"]
    assert "not there" in draft("kept:0:99")["problem"]
    for nonsense in ("", "x", BAD, "nowhere:0:1", "kept:9:1", "kept:0:x"):
        assert draft(nonsense)["body"] == ""


def test_a_look_at_a_queue_may_be_narrowed_down(web: WebBroker) -> None:
    def bodies(query: str) -> list[str]:
        found = web.expect(200, "GET", f"/v1/queues/work-dead/messages?{query}")
        return sorted(one["body"] for one in found["messages"])

    assert bodies("reason=timeout") == sorted([BAD, "elsewhere"])
    assert bodies("reason=timeout&topic=else") == ["elsewhere"]
    assert bodies("body=anoth") == ["another"]
    assert bodies("header=penstock-dead-topic&header_value=work") == sorted([BAD, "another"])
    assert bodies("key=none") == []
    found = web.expect(200, "GET", "/v1/queues/work-dead/messages?reason=timeout&limit=1")
    assert len(found["messages"]) == 1
    rest = web.expect(
        200, "GET", f"/v1/queues/work-dead/messages?reason=timeout&from={found['next']}"
    )
    assert len(rest["messages"]) == 1


def test_a_reset_is_previewed_on_the_page(web: WebBroker) -> None:
    commit(web, "readers", 1)
    found = web.expect(200, "GET", "/groups/readers?to=latest&format=json")
    assert (found["skipped"], found["again"], found["lag_before"], found["lag_after"]) == (
        2,
        0,
        2,
        0,
    )
    assert found["reset_body"] == {"to": "latest"}
    found = web.expect(200, "GET", "/groups/readers?to=whenever&format=json")
    assert "is not a place" in found["problem"]
    assert web.expect(200, "GET", "/v1/groups/readers")["lag"] == 2


@pytest.mark.slow
def test_a_queue_whose_leader_dies_is_shown_as_it_was_and_then_as_it_is(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        await until(lambda: all(RECEIPTS in node.engine.topics.catalog.secrets
                                for node in nodes.running.values()))  # fmt: skip
        engine = nodes[1].engine
        topic = await engine.topics.create_topic("jobs", 2, {"queue.message.headers": "true"})
        await nodes[1].delivery.send(topic, [NewMessage(b"x")] * 10)
        leader = engine.topics.leader(engine.topics.shard_of(topic.partitions[0])).node
        other = next(number for number in nodes.running if number != leader)
        broker = ServingBroker(nodes[other])
        app = make_app(broker)

        async def ready() -> tuple[int, str]:
            answer = await ask(app, "GET", "/queues/jobs?format=json")
            assert answer.status == 200, answer.body
            return answer.json()["ready"], answer.json()["problem"]

        await until(lambda: nodes[other].engine.topics.catalog.topic("jobs") == topic)
        await broker.watch.look()
        assert await ready() == (10, "")
        await nodes.stop(leader)
        async with asyncio.timeout(60):
            while True:
                count, problem = await ready()
                assert count == 10
                if not problem:
                    break
        await nodes.stop()

    asyncio.run(story())


def test_the_settings_of_a_work_group_say_what_is_inherited(web: WebBroker) -> None:
    web.expect(201, "POST", "/v1/queues", {"name": "grouped", "settings": {"lease_ms": 7_000}})
    web.expect(200, "POST", "/v1/queues/grouped/receive", {"group": "emails"})
    body = {"settings": {"deliveries_max": 4}, "group": "emails"}
    web.expect(200, "PATCH", "/v1/queues/grouped", body)
    own = page(web, "/queues/grouped?group=emails&tab=settings")
    assert "Work group emails" in own
    assert 'data-group="emails"' in own
    rows = dict(re.findall(r'<tr id="group-setting-(\w+)">(.*?)</tr>', own, re.DOTALL))
    assert "inherited from the queue" in rows["lease_ms"]
    assert "7 s" in rows["lease_ms"]
    assert 'value="7s"' in rows["lease_ms"]
    assert "set for this group" in rows["deliveries_max"]
    assert "data-reset" in rows["deliveries_max"]
    assert "data-reset" not in rows["lease_ms"]
    assert "group-setting-" not in page(web, "/queues/grouped?tab=settings")


def test_a_message_that_was_redriven_is_marked(web: WebBroker) -> None:
    web.expect(
        201, "POST", "/v1/queues", {"name": "again", "settings": {"dead_letter_topic": "again-dlq"}}
    )
    fail(web, "again", "bad", reason="no")
    while (
        web.expect(200, "POST", "/v1/queues/again-dlq/redrive", {"dry_run": True})["matching"] < 1
    ):
        pass
    web.expect(202, "POST", "/v1/queues/again-dlq/redrive", {})
    while not (rows := web.expect(200, "GET", "/queues/again?format=json")["rows"]):
        pass
    assert [row["is_redriven"] for row in rows] == [True]
    assert "redriven" in page(web, "/queues/again")
