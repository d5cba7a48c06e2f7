"""DescribeAcls, CreateAcls, DeleteAcls: the answers of a broker without an authorizer."""

import pytest

from tests.unit.kafka.asking import Asker

DESCRIBE, CREATE, DELETE = 29, 30, 31
SECURITY_DISABLED = 54
ANY = 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_access_rules(ask: Asker, version: int) -> None:
    wanted = {
        "resource_type_filter": ANY, "resource_name_filter": None, "principal_filter": None,
        "host_filter": None, "operation": ANY, "permission_type": ANY,
    }  # fmt: skip
    answer = ask(DESCRIBE, version, wanted)
    assert (answer.error_code, answer.resources) == (SECURITY_DISABLED, ())
    assert "ACL" in answer.error_message
    rule = {
        "resource_type": 2, "resource_name": "orders", "principal": "User:ann", "host": "*",
        "operation": 3, "permission_type": 3,
    }  # fmt: skip
    created = ask(CREATE, version, {"creations": [rule, rule]}).results
    assert [row.error_code for row in created] == [SECURITY_DISABLED] * 2
    deleted = ask(DELETE, version, {"filters": [wanted, wanted]}).filter_results
    assert [(row.error_code, row.matching_acls) for row in deleted] == [(SECURITY_DISABLED, ())] * 2
