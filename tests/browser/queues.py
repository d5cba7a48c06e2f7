"""What a test does to queues behind the back of a page."""

from typing import Any

from penstock.testing import PenstockServer
from tests.web_broker import ask


def change(broker: PenstockServer, method: str, path: str, body: object = None) -> dict[str, Any]:
    """One request below `/v1/queues` that is done."""
    status, document = ask(broker.places.http, method, f"/v1/queues{path}", body)
    assert status < 300, document
    assert isinstance(document, dict)
    return document


def make(broker: PenstockServer, name: str, **settings: object) -> None:
    """A queue, and no dead-letter queue beside it unless it is named."""
    body = {"name": name, "settings": {"dead_letter_topic": "", **settings}}
    change(broker, "POST", "", body)


def send(broker: PenstockServer, name: str, *bodies: str, **said: object) -> None:
    """One message for each body."""
    messages = [{"body": body, **said} for body in bodies]
    change(broker, "POST", f"/{name}/messages", {"messages": messages})


def work(broker: PenstockServer, name: str, verdict: str, **said: object) -> list[object]:
    """Receive what there is, and say the same of all of it; the bodies."""
    bodies: list[object] = []
    while True:
        got = change(broker, "POST", f"/{name}/receive", {"max": 100, "wait_ms": 0})["messages"]
        if not got:
            return bodies
        bodies += [one["body"] for one in got]
        verdicts = [{"receipt": one["receipt"], "verdict": verdict, **said} for one in got]
        change(broker, "POST", f"/{name}/settle", {"verdicts": verdicts})
