"""What tests of the engine can ask for."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.unit.engine.linked import LOOPS, Run


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine, on each of the event loops that Penstock runs on."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner.run
