"""Errors: shapes, codes and statuses, compared with what an SDK knows; and errors of the engine."""

import pytest
from botocore.session import get_session

from penstock.core import errors as penstock
from penstock.sqs import errors
from penstock.sqs.errors import (
    FRAMEWORK,
    InternalFailure,
    InvalidAttributeValue,
    InvalidParameterValue,
    OverLimit,
    QueueDoesNotExist,
    ReceiptHandleIsInvalid,
    RequestThrottled,
    ServiceUnavailable,
    SqsError,
    from_penstock,
    invalid_value,
)


def kinds() -> list[type[SqsError]]:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [one for one in found if issubclass(one, SqsError) and one is not SqsError]


def test_every_error_of_sqs_itself_is_one_that_sdks_know() -> None:
    model = get_session().get_service_model("sqs")
    known = {shape.name for shape in model.error_shapes}
    own = {kind.shape for kind in kinds() if kind.namespace != FRAMEWORK}
    assert own <= known
    # What nothing here can come to: keys, signatures, addresses and ids that are not looked at.
    missing = {name for name in known - own if not name.startswith("Kms")}
    assert missing == {"InvalidAddress", "InvalidIdFormat", "InvalidSecurity"}


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400),
        ("QueueNameExists", "QueueAlreadyExists", 400),
        ("PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403),
        ("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400),
        ("OverLimit", "OverLimit", 403),
        ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404),
        ("MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400),
        ("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400),
        ("BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", 400),
    ],
)
def test_codes_and_statuses(kind: str, code: str, status: int) -> None:
    found: type[SqsError] = getattr(errors, kind)
    assert (found.code, found.status, found.fault) == (code, status, "Sender")


def test_names_with_their_namespaces() -> None:
    assert QueueDoesNotExist().type_name == "com.amazonaws.sqs#QueueDoesNotExist"
    wrong = invalid_value(11, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
    assert wrong.type_name == "com.amazon.coral.service#InvalidParameterValueException"
    assert wrong.message == (
        "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10,"
        " if provided."
    )


def test_what_was_sent_comes_back_shortened() -> None:
    assert len(ReceiptHandleIsInvalid("x" * 100_000).message) < 2_000


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (penstock.UnknownTopic("gone"), QueueDoesNotExist),
        (penstock.UnknownTopicId("gone"), QueueDoesNotExist),
        (penstock.BatchTooLarge("large"), InvalidParameterValue),
        (penstock.InvalidTopicName("bad"), InvalidParameterValue),
        (penstock.InvalidConfig("bad"), InvalidAttributeValue),
        (penstock.QueueFull("full"), OverLimit),
        (penstock.CatalogFull("full"), OverLimit),
        (penstock.Overloaded("busy"), RequestThrottled),
        (penstock.NotLeader("moved"), ServiceUnavailable),
        (penstock.StorageFull("disk"), ServiceUnavailable),
        (penstock.OutcomeUnknown("who knows"), InternalFailure),
        (penstock.DiskFailed("disk"), InternalFailure),
    ],
)
def test_errors_of_the_engine(error: penstock.PenstockError, kind: type[SqsError]) -> None:
    found = from_penstock(error)
    assert type(found) is kind
    if kind is not QueueDoesNotExist:
        assert found.message == str(error)
    assert (found.fault == "Receiver") is (found.status >= 500)
