"""What tests of the Kafka front-end can ask for."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest
import uvloop

from tests.kafka_broker import ThreadedBroker
from tests.unit.kafka.asking import Asker, asking
from tests.unit.kafka.wire import Connect, Run, WireClient, wire_client

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs a coroutine."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(params=LOOPS)
def run_on_each(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine, on each of the event loops that Penstock runs on."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    """One broker for all tests of a file: each uses topics and groups of its own."""
    with ThreadedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def connect(broker: ThreadedBroker) -> Connect:
    """`async with connect() as client:` is a connection to the broker."""

    def open_client() -> AbstractAsyncContextManager[WireClient]:
        assert broker.broker is not None
        return wire_client(broker.broker.host, broker.broker.port)

    return open_client


@pytest.fixture
def ask(broker: ThreadedBroker) -> Iterator[Asker]:
    """A connection to the broker for tests that are no coroutines: `ask(key, version, fields)`."""
    with asking(broker) as asker:
        yield asker
