"""DescribeCluster: who is there."""

import pytest

from tests.unit.kafka.asking import Asker


@pytest.mark.parametrize("version", [0, 2])
def test_the_cluster_and_its_brokers(ask: Asker, version: int) -> None:
    answer = ask(60, version, {"endpoint_type": 1})
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.cluster_id == ask.broker.node.engine.topics.cluster_id
    assert answer.controller_id == 1
    (row,) = answer.brokers
    assert (row.broker_id, row.host, row.port) == (1, ask.broker.host, ask.broker.port)
    assert (row.rack, row.is_fenced) == (None, False)
    assert answer.cluster_authorized_operations == -(1 << 31)


def test_operations_are_told_when_asked(ask: Asker) -> None:
    fields = {"endpoint_type": 1, "include_cluster_authorized_operations": True}
    assert ask(60, 2, fields).cluster_authorized_operations > 0


@pytest.mark.parametrize(("kind", "code"), [(2, 114), (0, 115), (9, 115)])
def test_controllers_are_asked_for_in_vain(ask: Asker, kind: int, code: int) -> None:
    answer = ask(60, 1, {"endpoint_type": kind})
    assert (answer.error_code, answer.brokers) == (code, ())
    assert "ask for endpoint type 1" in answer.error_message
