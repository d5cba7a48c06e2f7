"""A broker for real clients."""

from collections.abc import Iterator

import pytest

from tests.kafka_broker import ThreadedBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    """One broker for all tests of a file: each uses topics and groups of its own."""
    with ThreadedBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running
