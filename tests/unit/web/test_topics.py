"""Topics and their messages over HTTP, on a real broker."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from penstock.core.errors import Overloaded
from penstock.core.types import Offset
from penstock.engine.groups.requests import CommitOffsets, JoinGroup, OffsetToCommit
from penstock.engine.topics.topics import Acks
from penstock.machines.secrets import RECEIPTS
from penstock.web.app import make_app
from penstock.web.topic_messages import LIMIT_MAX, WAITING_MAX, LookWanted, MessageBrowser
from tests.batches import TODAY_MS, build_batch, with_bytes
from tests.unit.engine.nodes import Nodes, until
from tests.unit.web.asgi import JSON, ask
from tests.web_broker import ServingBroker, WebBroker

GZIP = 1
NO_CONFIGS: Mapping[str, str] = {}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("topics")) as broker:
        yield broker


def make(
    web: WebBroker, name: str, partitions: int = 1, configs: Mapping[str, str] = NO_CONFIGS
) -> None:
    web.call(web.node.engine.topics.create_topic(name, partitions, configs))


def produce(web: WebBroker, name: str, batch: bytearray, index: int = 0) -> None:
    async def work() -> None:
        engine = web.node.engine
        await engine.topics.produce(engine.topics.topic(name), index, batch, Acks.ALL)

    web.call(work())


def commit(web: WebBroker, group: str, name: str, *offsets: int) -> None:
    async def work() -> None:
        topic = web.node.engine.topics.topic(name)
        wanted = tuple(
            OffsetToCommit(topic.topic_id, index, Offset(offset))
            for index, offset in enumerate(offsets)
        )
        request = CommitOffsets(group=group, offsets=wanted)
        await web.node.engine.groups.coordinator(group).commit_offsets(request)

    web.call(work())


def look(web: WebBroker, name: str, **asked: object) -> Any:
    query = "&".join(f"{key.rstrip('_')}={quote(str(one))}" for key, one in asked.items())
    return web.expect(200, "GET", f"/v1/topics/{name}/messages?{query}")


def places(page: Any) -> list[tuple[int, int]]:
    return [(one["partition"], one["offset"]) for one in page["messages"]]


def test_topics_are_listed_with_what_is_in_them(web: WebBroker) -> None:
    make(web, "listed-a", 2)
    make(web, "listed-b")
    web.call(web.node.engine.topics.create_topic("__staging", 1, {}, internal=True))
    produce(web, "listed-a", build_batch(3), 0)
    produce(web, "listed-a", build_batch(2), 1)
    found = web.expect(200, "GET", "/v1/topics?prefix=listed")
    first, second = found["topics"]
    assert (first["name"], first["partitions"], first["messages"]) == ("listed-a", 2, 5)
    assert first["size_bytes"] > 0
    assert (second["messages"], second["size_bytes"]) == (0, 0)
    assert found["next"] is None
    found = web.expect(200, "GET", "/v1/topics?prefix=listed&limit=1")
    assert found["next"] == "listed-a"
    found = web.expect(200, "GET", "/v1/topics?prefix=listed&limit=1&after=listed-a")
    assert [one["name"] for one in found["topics"]] == ["listed-b"]
    found = web.expect(200, "GET", "/v1/topics?contains=sted-b")
    assert [one["name"] for one in found["topics"]] == ["listed-b"]
    assert not web.expect(200, "GET", "/v1/topics?prefix=__s")["topics"]
    assert web.expect(200, "GET", "/v1/topics?prefix=__s&internal=true")["topics"]


def test_a_topic_tells_its_partitions_and_readers(web: WebBroker) -> None:
    make(web, "told", 2)
    produce(web, "told", build_batch(4), 0)
    produce(web, "told", build_batch(2), 1)
    commit(web, "told-readers", "told", 1, 2)
    found = web.expect(200, "GET", "/v1/topics/told")
    assert [(one["log_start"], one["end"]) for one in found["rows"]] == [(0, 4), (0, 2)]
    assert all(one["leader"] == 1 and one["size_bytes"] > 0 for one in found["rows"])
    (reader,) = found["readers"]
    assert (reader["group"], reader["lag"]) == ("told-readers", 3)
    assert reader["committed"] == {"0": 1, "1": 2}
    assert found["next_partition"] is None
    assert web.expect(404, "GET", "/v1/topics/nowhere")["error"] == "UnknownTopic"
    rest = web.expect(200, "GET", "/v1/topics/told?after_partition=0")
    assert [one["partition"] for one in rest["rows"]] == [1]


def test_messages_are_seen_newest_first_and_page_by_page(web: WebBroker) -> None:
    make(web, "paged", 2)
    produce(web, "paged", build_batch(3, timestamp=TODAY_MS), 0)
    produce(web, "paged", build_batch(3, timestamp=TODAY_MS + 10), 1)
    first = look(web, "paged", limit=2)
    assert places(first) == [(1, 2), (1, 1)]
    second = look(web, "paged", limit=2, from_=first["next"])
    assert places(second) == [(1, 0), (0, 2)]
    third = look(web, "paged", limit=5, from_=second["next"])
    assert places(third) == [(0, 1), (0, 0)]
    assert third["next"] is None
    assert first["newer"] == "3,3"


def test_messages_are_seen_oldest_first_and_page_by_page(web: WebBroker) -> None:
    make(web, "onwards", 2)
    produce(web, "onwards", build_batch(3, timestamp=TODAY_MS + 10), 0)
    produce(web, "onwards", build_batch(3, timestamp=TODAY_MS), 1)
    first = look(web, "onwards", limit=4, order="oldest")
    assert places(first) == [(1, 0), (1, 1), (1, 2), (0, 0)]
    second = look(web, "onwards", limit=4, order="oldest", from_=first["next"])
    assert places(second) == [(0, 1), (0, 2)]
    assert places(look(web, "onwards", order="oldest", from_=second["next"])) == []


def test_one_partition_from_an_offset_a_time_and_the_end(web: WebBroker) -> None:
    make(web, "placed", 2)
    for number in range(5):
        produce(web, "placed", build_batch(1, timestamp=TODAY_MS + number), 1)
    assert places(look(web, "placed", partition=1, from_=3, order="oldest")) == [(1, 3), (1, 4)]
    assert places(look(web, "placed", partition=1, from_=2)) == [(1, 1), (1, 0)]
    assert places(look(web, "placed", partition=1, from_=-2, order="oldest")) == [(1, 3), (1, 4)]
    at = f"@{TODAY_MS + 2}"
    assert places(look(web, "placed", from_=at, order="oldest")) == [(1, 2), (1, 3), (1, 4)]
    assert places(look(web, "placed", from_=at)) == [(1, 1), (1, 0)]
    assert look(web, "placed", from_="end", order="oldest")["messages"] == []
    page = look(web, "placed", partition=1, limit=2)
    assert page["next"] == "3,"
    assert places(look(web, "placed", partition=1, limit=2, from_=page["next"])) == [(1, 2), (1, 1)]


@pytest.mark.parametrize("compression", [0, GZIP])
def test_messages_are_filtered(web: WebBroker, compression: int) -> None:
    name = f"filtered-{compression}"
    make(web, name)
    for value, key in ((b"plain", None), (b"an apple", b"k1"), (b"a pear", b"apple-key")):
        produce(web, name, build_batch(1, value=value, key=key, compression=compression))
    sent = [{"body": "none", "headers": {"fruit": "apple pie"}}]
    web.expect(201, "POST", f"/v1/queues/{name}/messages", {"messages": sent})
    assert places(look(web, name, text="apple", order="oldest")) == [(0, 1), (0, 2), (0, 3)]
    assert places(look(web, name, text="apple")) == [(0, 3), (0, 2), (0, 1)]
    assert places(look(web, name, body="apple")) == [(0, 1)]
    assert places(look(web, name, key="apple")) == [(0, 2)]
    assert places(look(web, name, header="fruit")) == [(0, 3)]
    assert places(look(web, name, header="fruit=pie")) == [(0, 3)]
    assert places(look(web, name, header="fruit=cake")) == []
    assert places(look(web, name, text="Apple")) == []


def test_long_bodies_are_cut_between_characters_and_say_so(web: WebBroker) -> None:
    make(web, "long")
    produce(web, "long", build_batch(1, value=("ä" * 1_000).encode()))
    produce(web, "long", build_batch(1, value=b"\xff\xfe"))
    (raw,) = look(web, "long", from_=1, order="oldest", body_bytes=101)["messages"]
    (cut,) = look(web, "long", from_=1, body_bytes=101)["messages"]
    assert raw["body"] == {"base64": "//4="}
    assert (cut["body"], cut["body_bytes"], cut["is_cut"]) == ("ä" * 50, 2_000, True)
    (whole,) = look(web, "long", from_=1)["messages"]
    assert (whole["body"], whole["is_cut"]) == ("ä" * 1_000, False)


def test_an_answer_is_bounded_in_bytes_and_goes_on(web: WebBroker) -> None:
    make(web, "heavy")
    for _ in range(24):
        produce(web, "heavy", build_batch(1, value=bytes(900_000)))
    for order in ("oldest", "newest"):
        seen: list[tuple[int, int]] = []
        place = "start" if order == "oldest" else "end"
        for _ in range(24):
            page = look(web, "heavy", order=order, from_=place, body_bytes=1_000_000)
            assert len(page["messages"]) < 15
            seen += places(page)
            if page["next"] is None or not page["messages"]:
                break
            place = page["next"]
        assert sorted(seen) == [(0, offset) for offset in range(24)]


def test_a_search_back_reaches_what_is_far(web: WebBroker) -> None:
    make(web, "far")
    produce(web, "far", build_batch(1, value=b"the needle"))
    for _ in range(20):
        produce(web, "far", build_batch(1_000, value=b"hay" * 10))
    assert places(look(web, "far", text="needle")) == [(0, 0)]
    page = look(web, "far", text="hay", limit=3)
    assert places(page) == [(0, 20_000), (0, 19_999), (0, 19_998)]
    page = look(web, "far", text="hay", limit=2, from_=page["next"])
    assert places(page) == [(0, 19_997), (0, 19_996)]


def test_a_batch_that_cannot_be_opened_is_shown_as_such(web: WebBroker) -> None:
    make(web, "broken", configs={"penstock.validate.records": "false"})
    produce(web, "broken", with_bytes(build_batch(2), 61, b"\x01"))
    produce(web, "broken", build_batch(1))
    page = look(web, "broken", order="oldest")
    assert places(page) == [(0, 0), (0, 2)]
    assert page["messages"][0]["headers"] == {"penstock-unreadable": "1"}


def test_a_tail_waits_for_what_comes(web: WebBroker) -> None:
    make(web, "tailed")
    produce(web, "tailed", build_batch(2))
    place = look(web, "tailed")["newer"]
    later = threading.Thread(target=lambda: produce(web, "tailed", build_batch(1, value=b"now")))
    later.start()
    page = look(web, "tailed", order="oldest", from_=place, wait_ms=30_000)
    later.join()
    assert [one["body"] for one in page["messages"]] == ["now"]
    page = look(web, "tailed", order="oldest", from_=page["next"], wait_ms=1)
    assert page["messages"] == []
    assert page["next"] == "3,"


def test_only_so_many_tails_wait(web: WebBroker) -> None:
    make(web, "crowded")
    browser = MessageBrowser(ServingBroker(web.node))
    browser._waiting = WAITING_MAX
    wanted = LookWanted(order="oldest", written="end", wait_ms=100)
    with pytest.raises(Overloaded):
        web.call(browser.look(web.node, web.node.engine.topics.topic("crowded"), wanted))


@pytest.mark.parametrize(
    "query",
    [
        "from=soon", "from=1,2,3", "from=1,x", "order=best", "limit=0", f"limit={LIMIT_MAX + 1}",
        "partition=x", f"text={'x' * 1_001}", "wait_ms=99999999", "from=@9999999999999999999999",
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(web: WebBroker, query: str) -> None:
    if web.node.engine.topics.catalog.topic("refused") is None:
        make(web, "refused")
    web.expect(400, "GET", f"/v1/topics/refused/messages?{query}")
    web.expect(404, "GET", "/v1/topics/refused/messages?partition=7")


def test_a_group_goes_on_elsewhere_after_a_preview(web: WebBroker) -> None:
    make(web, "reset-me", 2)
    for number in range(4):
        produce(web, "reset-me", build_batch(1, timestamp=TODAY_MS + number), 0)
    commit(web, "resetting", "reset-me", 4, 0)
    path = "/v1/groups/resetting/reset"
    planned = web.expect(200, "POST", path, {"to": "earliest", "dry_run": True})
    assert planned["dry_run"] is True
    assert planned["lag"] == 4
    first = planned["changes"][0]
    assert (first["topic"], first["partition"], first["before"], first["after"]) == (
        "reset-me", 0, 4, 0)  # fmt: skip
    assert web.expect(200, "GET", "/v1/groups/resetting")["lag"] == 0
    web.expect(200, "POST", path, {"to": "-1", "topic": "reset-me", "partitions": [0]})
    assert web.expect(200, "GET", "/v1/groups/resetting")["lag"] == 1
    web.expect(200, "POST", path, {"to": f"@{TODAY_MS + 1}"})
    assert web.expect(200, "GET", "/v1/groups/resetting")["lag"] == 3
    web.expect(200, "POST", path, {"to": 2, "topic": "reset-me"})
    assert web.expect(200, "GET", "/v1/groups/resetting")["lag"] == 2
    web.expect(404, "POST", path, {"to": "latest", "topic": "reset-me", "partitions": [5]})
    web.expect(400, "POST", path, {"to": "yesterday"})
    web.expect(400, "POST", "/v1/groups/unheard-of/reset", {"to": "latest"})
    web.expect(200, "POST", "/v1/groups/new%2Fone/reset", {"to": "latest", "topic": "reset-me"})
    assert web.expect(200, "GET", "/v1/groups/new%2Fone")["lag"] == 0
    web.expect(200, "DELETE", "/v1/groups/new%2Fone")
    assert web.expect(200, "GET", "/v1/groups/new%2Fone")["state"] == "Dead"


def test_a_group_with_members_is_not_reset(web: WebBroker) -> None:
    make(web, "busy")
    commit(web, "busy-group", "busy", 0)
    joining = JoinGroup(
        group="busy-group",
        client_id="tester",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=(("range", b""),),
    )
    web.call(web.node.engine.groups.coordinator("busy-group").join(joining))
    for dry_run in (True, False):
        body = {"to": "latest", "dry_run": dry_run}
        refused = web.expect(409, "POST", "/v1/groups/busy-group/reset", body)
        assert refused["error"] == "GroupNotEmpty"
    refused = web.expect(409, "DELETE", "/v1/groups/busy-group")
    assert refused["error"] == "GroupNotEmpty"


@pytest.mark.slow
def test_any_node_can_look_and_reset(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        await until(lambda: all(RECEIPTS in node.engine.topics.catalog.secrets
                                for node in nodes.running.values()))  # fmt: skip
        topic = await nodes[1].engine.topics.create_topic("spread", 4, {})
        await until(lambda: all(node.engine.topics.catalog.topic("spread") == topic
                                for node in nodes.running.values()))  # fmt: skip
        for index in range(4):
            for number in range(3):
                await nodes.produce(topic, index, b"%d of %d" % (number, index))
        apps = {number: make_app(ServingBroker(nodes[number])) for number in (1, 2, 3)}

        async def expect(number: int, method: str, path: str, body: object = None) -> Any:
            data = b"" if body is None else msgspec.json.encode(body)
            answer = await ask(apps[number], method, path, headers=JSON, parts=[data])
            assert answer.status < 300, answer.body
            return answer.json()

        for number in (1, 2, 3):
            page = await expect(number, "GET", "/v1/topics/spread/messages")
            assert len(page["messages"]) == 12
            assert page["unreachable"] == []
            page = await expect(number, "GET", "/v1/topics/spread/messages?text=1+of")
            assert sorted(one["body"] for one in page["messages"]) == [
                f"1 of {index}" for index in range(4)
            ]
            found = await expect(number, "GET", "/v1/topics/spread")
            assert [one["end"] for one in found["rows"]] == [3] * 4
            for path in ("/topics/spread", "/topics", "/queues/spread?tab=dead"):
                await expect(number, "GET", f"{path}{'&' if '?' in path else '?'}format=json")
            body = {"to": number, "topic": "spread"}
            await expect(number, "POST", "/v1/groups/readers/reset", body)
            await expect(number, "GET", "/groups/readers?format=json")
            other = await expect(number % 3 + 1, "GET", "/v1/groups/readers")
            assert [one["committed"] for one in other["partitions"]] == [number] * 4
            found = await expect(number % 3 + 1, "GET", "/v1/topics/spread")
            assert [one["group"] for one in found["readers"]] == ["readers"]
        # A message that comes to a partition led elsewhere reaches a tail here.
        asked = "/v1/topics/spread/messages?order=oldest&from=end&wait_ms=30000"
        tails = [asyncio.create_task(expect(number, "GET", asked)) for number in (1, 2, 3)]
        await until(lambda: all(not one.done() for one in tails))
        sent = 0
        while not all(one.done() for one in tails):
            await nodes.produce(topic, sent % 4, b"new")
            sent += 1
        for one in tails:
            assert {line["body"] for line in one.result()["messages"]} == {"new"}
        await nodes.stop()

    asyncio.run(story())
