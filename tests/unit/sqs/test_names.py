"""Names, URLs and ARNs of queues."""

import pytest

from penstock.sqs.errors import InvalidParameterValue
from penstock.sqs.names import (
    check_new_name,
    name_of_arn,
    name_of_url,
    queue_arn,
    queue_url,
)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:9324/000000000000/orders", "orders"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo", "orders.fifo"),
        ("http://127.0.0.1/queue/orders", "orders"),
        ("orders", "orders"),
        ("http://127.0.0.1/000000000000/", ""),
    ],
)
def test_only_the_end_of_a_url_counts(url: str, name: str) -> None:
    assert name_of_url(url) == name


def test_what_we_make_we_can_read() -> None:
    assert name_of_url(queue_url("http://127.0.0.1:1", "a.fifo")) == "a.fifo"
    assert name_of_arn(queue_arn("us-east-1", "a.fifo")) == "a.fifo"
    assert queue_arn("eu-west-1", "a") == "arn:aws:sqs:eu-west-1:000000000000:a"


@pytest.mark.parametrize(
    "arn", ["", "orders", "arn:aws:sns:us-east-1:0:orders", "arn:aws:sqs:us-east-1:0:", "a:b:sqs"]
)
def test_what_is_no_arn_of_a_queue(arn: str) -> None:
    assert name_of_arn(arn) is None


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80])
def test_names_of_standard_queues(name: str) -> None:
    check_new_name(name, fifo=False)


@pytest.mark.parametrize("name", ["", "x" * 81, "a.b", "a b", "ä", "a.fifo", "a/b", "a\n"])
def test_names_that_no_standard_queue_may_have(name: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        check_new_name(name, fifo=False)
    assert caught.value.message == (
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
    )


@pytest.mark.parametrize("name", ["a.fifo", "x" * 75 + ".fifo"])
def test_names_of_fifo_queues(name: str) -> None:
    check_new_name(name, fifo=True)


@pytest.mark.parametrize("name", ["a", ".fifo", "x" * 76 + ".fifo", "a.b.fifo", "a.FIFO"])
def test_names_that_no_fifo_queue_may_have(name: str) -> None:
    with pytest.raises(InvalidParameterValue, match="must end with .fifo suffix"):
        check_new_name(name, fifo=True)
