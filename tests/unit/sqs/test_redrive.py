"""Redrive policies, and what is wrong with those that are none."""

import pytest

from penstock.sqs.errors import InvalidAttributeValue, InvalidParameterValue, SqsError
from penstock.sqs.redrive import (
    Redrive,
    RedriveAllow,
    check_target,
    read_allow,
    read_redrive,
)

ARN = "arn:aws:sqs:us-east-1:000000000000:dead"
POLICY = f'{{"deadLetterTargetArn":"{ARN}","maxReceiveCount":3}}'


def test_a_policy_comes_back() -> None:
    redrive = read_redrive(POLICY)
    assert redrive == Redrive("dead", 3)
    assert redrive.write("us-east-1") == POLICY


@pytest.mark.parametrize("count", ['"7"', "7"])
def test_the_count_may_be_a_text(count: str) -> None:
    assert read_redrive(POLICY.replace("3}", f"{count}}}")).receives_max == 7


@pytest.mark.parametrize("text", ["dead", "[]", "3", '"x"', "{"])
def test_what_is_no_map(text: str) -> None:
    with pytest.raises(InvalidAttributeValue) as caught:
        read_redrive(text)
    assert caught.value.message == (
        "Invalid value for the parameter RedrivePolicy. Reason: Redrive policy is not a valid JSON"
        " map."
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"maxReceiveCount":3}', "mandatory attribute: deadLetterTargetArn."),
        (f'{{"deadLetterTargetArn":"{ARN}"}}', "mandatory attribute: maxReceiveCount."),
        (POLICY.replace(ARN, "dummy"), "Invalid value for deadLetterTargetArn."),
        (POLICY.replace(f'"{ARN}"', "3"), "Invalid value for deadLetterTargetArn."),
        (POLICY.replace("3}", "0}"), "Invalid value for maxReceiveCount: 0, valid values are"),
        (POLICY.replace("3}", "1001}"), "maxReceiveCount: 1001, valid values are from 1 to 1000"),
        (POLICY.replace("3}", "true}"), "Invalid value for maxReceiveCount: True"),
        (POLICY.replace("3}", '"x"}'), "Invalid value for maxReceiveCount: x"),
        (POLICY.replace("3}", '3,"more":1}'), "Only following attributes are supported"),
    ],
)
def test_policies_that_say_nothing_that_can_be_meant(text: str, reason: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        read_redrive(text)
    assert caught.value.message.startswith(f"Value {text} for parameter RedrivePolicy is invalid.")
    assert reason in caught.value.message


def test_who_may_send_dead_letters() -> None:
    everybody = read_allow('{"redrivePermission":"allowAll"}')
    nobody = read_allow('{"redrivePermission":"denyAll"}')
    some = read_allow(
        '{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:r:000000000000:a"]}'
    )
    assert some == RedriveAllow("byQueue", ("a",))
    assert [one.allows("a") for one in (everybody, nobody, some)] == [True, False, True]
    assert not some.allows("b")


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "{}",
        '{"redrivePermission":"sometimes"}',
        '{"redrivePermission":"allowAll","sourceQueueArns":[]}',
        '{"redrivePermission":"byQueue"}',
        '{"redrivePermission":"byQueue","sourceQueueArns":[]}',
        '{"redrivePermission":"byQueue","sourceQueueArns":["a"]}',
        '{"redrivePermission":"byQueue","sourceQueueArns":[3]}',
        '{"redrivePermission":"byQueue","sourceQueueArns":[' + ",".join([f'"{ARN}"'] * 11) + "]}",
    ],
)
def test_permissions_that_are_none(text: str) -> None:
    with pytest.raises(SqsError):
        read_allow(text)


def test_dead_letter_queues_that_a_source_cannot_have() -> None:
    check_target(POLICY, "a", fifo=False, target_fifo=False, allow=None)
    check_target(POLICY, "a", fifo=True, target_fifo=True, allow="not readable")
    deny = '{"redrivePermission":"denyAll"}'
    for fifo, target_fifo, allow, reason in (
        (False, None, None, "Dead letter target does not exist."),
        (False, True, None, "Dead-letter queue must be same type of queue as the source."),
        (True, False, None, "Dead-letter queue must be same type of queue as the source."),
        (False, False, deny, "RedriveAllowPolicy"),
    ):
        with pytest.raises(InvalidParameterValue, match=reason):
            check_target(POLICY, "a", fifo=fifo, target_fifo=target_fifo, allow=allow)
