"""Codes are chosen by what clients do with them."""

from collections.abc import Iterator

import aiokafka.errors
import kafka.errors
import pytest

from penstock.core import errors
from penstock.core.errors import PenstockError
from penstock.kafka.error_codes import (
    code_of,
    group_code,
    produce_code,
    producer_id_code,
    read_code,
    share_acknowledge_code,
    share_fetch_code,
)

PASSING = [
    errors.Unavailable("not now"),
    errors.NotLeader("elsewhere"),
    errors.NotCoordinator("elsewhere"),
    errors.NotEnoughReplicas("too few"),
    errors.Overloaded("too much"),
    errors.StorageFull("full"),
    errors.OutcomeUnknown("perhaps"),
    errors.LogPoisoned("broken"),
]


def every_error() -> Iterator[type[PenstockError]]:
    kinds = [PenstockError]
    while kinds:
        kind = kinds.pop()
        yield kind
        kinds += kind.__subclasses__()


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes_by_itself_is_repeated_by_clients(error: PenstockError) -> None:
    for code in (produce_code(error), read_code(error), group_code(error), producer_id_code(error)):
        assert aiokafka.errors.for_code(code).retriable
        assert issubclass(kafka.errors.for_code(code), kafka.errors.RetriableError)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes_by_itself_is_repeated_by_admins(error: PenstockError) -> None:
    assert issubclass(kafka.errors.for_code(code_of(error)), kafka.errors.RetriableError)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_passes_by_itself_makes_share_consumers_look_for_the_leader(
    error: PenstockError,
) -> None:
    assert share_fetch_code(error) in (6, 56), "librdkafka reports most others as errors"


def test_what_may_have_happened_is_never_said_to_have_failed() -> None:
    assert produce_code(errors.OutcomeUnknown("perhaps")) == 7
    assert share_acknowledge_code(errors.OutcomeUnknown("perhaps")) == 7


def test_every_code_is_one_that_kafka_has() -> None:
    for kind in every_error():
        assert kafka.errors.for_code(kind.kafka_code).errno == kind.kafka_code


def test_what_is_the_callers_doing_keeps_its_code() -> None:
    for kind in every_error():
        if issubclass(kind, errors.LocalError) and kind is not errors.MemberIdRequired:
            error = kind("no")
            for choose in (produce_code, read_code, group_code, code_of):
                assert choose(error) == kind.kafka_code
