"""The pytest plugin: brokers, clients and a clock, as fixtures of a user's tests.

It is found by itself where Penstock is installed; `pytest --fixtures` shows what there is. Every
fixture is new for each test, so that no test sees what another one left.

**Async tests.** The plugin runs no coroutines and does not care who does: pytest-asyncio, anyio's
plugin, or `asyncio.run` in a plain test. `penstock_client` is made without a loop. When the test is
a coroutine function, it is wrapped: the client is opened on the very loop the test runs on, before
its first line, and closed there after its last. A plain test opens it with `async with`.

**Time.** A test that asks for `penstock_clock` has its engine, or its broker, run by that clock.

Everything is imported when a fixture is first used: a test run that needs none of them should not
wait for a broker's code to be read.
"""

import functools
import inspect
import uuid
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.client.blocking.client import BlockingClient
    from penstock.client.client import Client
    from penstock.core.clock import Clock
    from penstock.testing.clock import ManualClock
    from penstock.testing.local_cluster import LocalCluster
    from penstock.testing.server import PenstockServer

CLIENT = "penstock_client"
CLOCK = "penstock_clock"
_TEST = pytest.StashKey[Callable[..., Awaitable[object]]]()


@pytest.fixture
def penstock_clock() -> "ManualClock":
    """A clock that stands still until the test says `penstock_clock.advance(seconds=30)`. The
    engine behind penstock_client, penstock_blocking_client and penstock_broker follows it: delays,
    leases, lifetimes and waits end when it is moved, and no real time passes."""
    from penstock.testing.clock import ManualClock  # noqa: PLC0415

    return ManualClock()


@pytest.fixture
def penstock_client(request: pytest.FixtureRequest) -> "Iterator[Client]":
    """A client of an engine of its own, in memory. In an async test it is open; in a plain one,
    open it on a loop: `async with penstock_client as client`."""
    from penstock.embedded.connector import connect  # noqa: PLC0415
    from penstock.embedded.open_engines import OPEN_ENGINES  # noqa: PLC0415

    yield connect(f"memory:test-{uuid.uuid4().hex}", clock=_clock(request))
    # A plain test may have left it open on a loop that has ended.
    OPEN_ENGINES.let_go_of_ended()


@pytest.fixture
def penstock_blocking_client(request: pytest.FixtureRequest) -> "Iterator[BlockingClient]":
    """A client for plain code without a loop, open, of an engine of its own, in memory."""
    from penstock.client.blocking.client import BlockingClient  # noqa: PLC0415
    from penstock.embedded.connector import connect  # noqa: PLC0415

    with BlockingClient(connect("memory:", clock=_clock(request))) as client:
        yield client


@pytest.fixture
def penstock_broker(request: pytest.FixtureRequest) -> "Iterator[PenstockServer]":
    """A real broker in this process, on a thread and free ports, with its data in memory. It has
    `.kafka`, `.sqs_url`, `.http_url` and `.url`. Starting takes about a tenth of a second."""
    from penstock.testing.server import PenstockServer  # noqa: PLC0415

    with PenstockServer(clock=_clock(request)) as broker:
        yield broker


@pytest.fixture
def penstock_url(penstock_broker: "PenstockServer") -> str:
    """The address of penstock_broker for `penstock.connect`, `penstock://127.0.0.1:…`."""
    return penstock_broker.url


@pytest.fixture
def penstock_kafka_bootstrap(penstock_broker: "PenstockServer") -> str:
    """The bootstrap address of penstock_broker for Kafka clients, `127.0.0.1:…`."""
    return penstock_broker.kafka


@pytest.fixture
def penstock_sqs_url(penstock_broker: "PenstockServer") -> str:
    """The endpoint URL of penstock_broker for SQS clients, `http://127.0.0.1:…`. Any credentials
    and any region will do."""
    return penstock_broker.sqs_url


@pytest.fixture
def penstock_cluster() -> "Iterator[LocalCluster]":
    """Three real brokers, each a process with its own directory, to `.kill(1)` and `.restart(1)`.
    It has `.kafka`, `.sqs_url` and `.url`. Slow: starting takes some three seconds."""
    from penstock.testing.local_cluster import LocalCluster  # noqa: PLC0415

    with LocalCluster() as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Prepare the client of a test after its fixtures are set up and before it is called."""
    yield
    if isinstance(item, pytest.Function) and CLIENT in item.funcargs:
        if inspect.iscoroutinefunction(item.obj):
            client: Any = item.funcargs[CLIENT]
            item.stash[_TEST] = item.obj
            item.obj = _opening(item.obj, client)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """The test as it was: it may be run again, with another client."""
    if isinstance(item, pytest.Function) and _TEST in item.stash:
        item.obj = item.stash[_TEST]
        del item.stash[_TEST]


def _opening(
    test: Callable[..., Awaitable[object]], client: "Client"
) -> Callable[..., Awaitable[object]]:
    """The test, with the client open while it runs."""

    @functools.wraps(test)
    async def opened(*arguments: Any, **keywords: Any) -> object:
        async with client:
            return await test(*arguments, **keywords)

    return opened


def _clock(request: pytest.FixtureRequest) -> "Clock | None":
    """The manual clock, if the test has one."""
    if CLOCK not in request.fixturenames:
        return None
    clock: Clock = request.getfixturevalue(CLOCK)
    return clock
