"""Error codes have the names that Kafka gives them."""

from kio.schema.errors import ErrorCode

from penstock.kafka.error_names import name_of


def test_names_are_those_of_kafka() -> None:
    assert {code.value: name_of(code.value) for code in ErrorCode} == {
        code.value: code.name.upper() for code in ErrorCode
    }


def test_a_code_without_a_name_is_a_number() -> None:
    assert name_of(9_999) == "9999"
    assert name_of(-2) == "-2"
