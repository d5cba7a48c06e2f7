"""The token of pages."""

from pathlib import Path

import pytest

from penstock.web.tokens import is_token, page_token
from tests.unit.web.asgi import FakeBroker
from tests.web_broker import ServingBroker, WebBroker


def test_without_a_cluster_it_is_the_process_s_own() -> None:
    broker = FakeBroker()
    assert is_token(broker, page_token(broker))
    assert not is_token(broker, "")
    assert not is_token(broker, "ünlikely")


@pytest.mark.slow
def test_with_one_it_is_the_same_everywhere_and_no_secret(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        token = page_token(ServingBroker(broker.node))
        assert token != page_token(FakeBroker())
        secrets = broker.node.engine.topics.catalog.secrets.values()
        assert all(token not in secret.hex() for secret in secrets)
    with WebBroker(tmp_path) as broker:
        assert page_token(ServingBroker(broker.node)) == token, "after a restart, too"
