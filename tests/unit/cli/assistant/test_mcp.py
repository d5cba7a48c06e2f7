"""`penstock mcp`: the library's own client, over the pipes of a real process, to a real broker."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client, StdioServerParameters

from penstock.cli.main import run
from tests.web_broker import WebBroker

pytestmark = pytest.mark.slow

READ_ONLY_TOOLS = {
    "list_queues", "describe_queue", "peek_messages", "trace_message", "list_alerts",
    "list_dead_letters", "explain_queue", "propose_redrive",
}  # fmt: skip
CHANGING_TOOLS = {"redrive", "stop_redrive", "pause_queue", "resume_queue"}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("mcp")) as broker:
        settings = {"dead_letter_topic": "orders-dead", "deliveries_max": 3}
        broker.expect(201, "POST", "/v1/queues", {"name": "orders", "settings": settings})
        messages = {"messages": [{"body": f"order {number}"} for number in range(3)]}
        broker.expect(201, "POST", "/v1/queues/orders/messages", messages)
        yield broker


@asynccontextmanager
async def assistant(web: WebBroker, *flags: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "penstock.cli.main", "mcp", "--url", f"penstock://{web.address}", *flags],
        env={"PYTHONPATH": str(Path(__file__).parents[4] / "src")},
    )
    async with Client(server) as client:
        yield client


async def call(client: Client, tool: str, **arguments: object) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    (part,) = answer.content
    assert part.type == "text"
    return part.text


def reject_first(web: WebBroker) -> str:
    """Let a message die; the place it had."""
    found = web.expect(200, "POST", "/v1/queues/orders/receive", {"max": 1, "wait_ms": 0})
    (message,) = found["messages"]
    verdict = {"receipt": message["receipt"], "verdict": "reject", "reason": "no such product"}
    web.expect(200, "POST", "/v1/queues/orders/settle", {"verdicts": [verdict]})
    while not web.expect(200, "GET", "/v1/queues/orders-dead/messages")["messages"]:
        pass
    return f"orders:{message['partition']}:{message['offset']}"


def test_an_assistant_looks(web: WebBroker) -> None:
    place = reject_first(web)
    web.look()

    async def story() -> None:
        async with assistant(web) as client:
            assert client.instructions is not None
            assert "read-only" in client.instructions
            tools = (await client.list_tools()).tools
            assert {one.name for one in tools} == READ_ONLY_TOOLS
            assert all(one.description for one in tools)
            assert all(one.annotations and one.annotations.read_only_hint for one in tools)

            listed = await call(client, "list_queues", prefix="orders")
            assert [one["name"] for one in listed["queues"]] == ["orders", "orders-dead"]
            assert listed["queues"][0]["groups"][0]["ready"] == 2
            described = await call(client, "describe_queue", queue="orders")
            assert described["settings"]["deliveries_max"] == 3
            page = await call(client, "peek_messages", queue="orders", limit=1)
            assert [one["body"] for one in page["messages"]] == ["order 1"]
            page = await call(client, "peek_messages", queue="orders", start=page["next"])
            assert [one["body"] for one in page["messages"]] == ["order 2"]

            traced = await call(client, "trace_message", message=place)
            assert [one["place"]["topic"] for one in traced["sightings"]] == [
                "orders",
                "orders-dead",
            ]
            # A busy machine may raise others beside it.
            alerts = (await call(client, "list_alerts"))["alerts"]
            levels = {one["rule"]: one["level"] for one in alerts}
            assert levels["dead_letters"] == "attention"
            letters = await call(client, "list_dead_letters", queue="orders")
            assert letters["reasons"] == {"no such product": 1}
            assert letters["messages"][0]["body"] == "order 0"
            itself = await call(client, "list_dead_letters", queue="orders-dead")
            assert itself["reasons"] == letters["reasons"]

            why = await call(client, "explain_queue", queue="orders")
            assert why["counts"]["ready"] == 2
            problems = [one["problem"] for one in why["findings"]]
            assert "There are dead letters." in problems
            proposed = await call(
                client, "propose_redrive", dead_letter_queue="orders-dead", reason="no such"
            )
            assert proposed["matching"] == 1
            assert proposed["command"] == "penstock redrive orders-dead --reason 'no such'"

            wrong = await refusal(client, "describe_queue", queue="order")
            assert "order" in wrong
            wrong = await refusal(client, "peek_messages", queue="orders", limit=1_000)
            assert "1 to 50" in wrong
            assert await refusal(client, "pause_queue", queue="orders")

    asyncio.run(story())
    assert web.expect(200, "GET", "/v1/queues/orders")["paused"] is False


def test_the_tools_are_described_in_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--json"]) == 0
    tools = {one["name"]: one for one in msgspec.json.decode(capsys.readouterr().out)}
    assert tools.keys() == READ_ONLY_TOOLS
    assert tools["peek_messages"]["inputSchema"]["required"] == ["queue"]


def test_an_assistant_that_may_changes_queues(web: WebBroker) -> None:
    async def story() -> None:
        async with assistant(web, "--allow-changes") as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            assert tools.keys() == READ_ONLY_TOOLS | CHANGING_TOOLS
            for name in CHANGING_TOOLS:
                hints = tools[name].annotations
                assert hints is not None
                assert hints.read_only_hint is False
            paused = await call(client, "pause_queue", queue="orders")
            assert paused == {"queue": "orders", "paused": True}
            why = await call(client, "explain_queue", queue="orders")
            assert why["summary"] == "The queue is paused: nothing is delivered."
            resumed = await call(client, "resume_queue", queue="orders")
            assert resumed == {"queue": "orders", "paused": False}
            move = await call(client, "redrive", dead_letter_queue="orders-dead", rate=100)
            assert move["rate"] == 100
            wrong = await refusal(
                client, "stop_redrive", dead_letter_queue="orders-dead", move="none"
            )
            assert "none" in wrong

    asyncio.run(story())
