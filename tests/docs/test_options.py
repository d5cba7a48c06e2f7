"""The guides name every option there is: one that is added is explained, or this fails."""

import dataclasses
import inspect
import re
from collections.abc import Iterable

import pytest

from penstock.client.producer.compression import Compression
from penstock.client.queue import Queue
from penstock.client.queue_admin import QueueOptions
from penstock.client.settings import Batching, ClientSettings
from penstock.client.subscription_options import SubscriptionOptions
from penstock.workers.app import App
from tests.house.sources import ROOT

CLIENT_PAGE = "docs/guides/python-client.md"
WORKERS_PAGE = "docs/guides/workers.md"


def parameters(function: object) -> list[str]:
    assert callable(function)
    return [name for name in inspect.signature(function).parameters if name != "self"]


def fields(kind: type) -> list[str]:
    return [one.name for one in dataclasses.fields(kind)]


OPTIONS: dict[str, tuple[str, list[str]]] = {
    "settings": (CLIENT_PAGE, fields(ClientSettings)),
    "batching": (CLIENT_PAGE, fields(Batching)),
    "compression": (CLIENT_PAGE, fields(Compression)),
    "send": (CLIENT_PAGE, parameters(Queue.send)),
    "consume": (CLIENT_PAGE, parameters(Queue.consume)),
    "subscribe": (CLIENT_PAGE, fields(SubscriptionOptions)),
    "create_queue": (CLIENT_PAGE, sorted(QueueOptions.__annotations__)),
    "worker": (WORKERS_PAGE, parameters(App.worker)),
    "App": (WORKERS_PAGE, parameters(App.__init__)),
}


def unnamed(options: Iterable[str], text: str) -> list[str]:
    return [name for name in options if not re.search(rf"\b{name}\b", text)]


@pytest.mark.parametrize("what", OPTIONS)
def test_every_option_is_named(what: str) -> None:
    page, options = OPTIONS[what]
    assert unnamed(options, (ROOT / page).read_text("utf-8")) == []


def test_an_option_that_is_not_named_is_found() -> None:
    assert unnamed(["lease", "delay"], "`lease=` is told of, `delayed` is not") == ["delay"]
