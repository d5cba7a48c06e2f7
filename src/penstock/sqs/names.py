"""The identifiers of a queue: its name, its URL and its ARN.

    name    orders                                     the name of the topic
    URL     http://host:port/000000000000/orders       whatever host the client knows us by
    ARN     arn:aws:sqs:us-east-1:000000000000:orders  in whatever region the client believes to be

There is one account, and regions are all the same place. A URL that was made by another host, for
another account, or by another implementation, still names the queue: only the end of its path
counts. A bare name is taken for a URL too.

A new queue's name follows Amazon's rules. A topic whose name does not, because it was made through
Kafka, can be named here all the same.
"""

import re

from penstock.sqs.errors import InvalidParameterValue

ACCOUNT = "000000000000"
FIFO_SUFFIX = ".fifo"
NAME_CHARACTERS_MAX = 80
ARN_PARTS = 6

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def queue_url(base_url: str, name: str) -> str:
    """The URL of a queue, with the address that the client used."""
    return f"{base_url}/{ACCOUNT}/{name}"


def name_of_url(url: str) -> str:
    """The queue that a URL names; empty if it names none."""
    return url[url.rfind("/") + 1 :]


def queue_arn(region: str, name: str) -> str:
    """The ARN of a queue, as policies use it."""
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{name}"


def name_of_arn(arn: str) -> str | None:
    """The queue that an ARN names; None if it is no ARN of a queue."""
    parts = arn.split(":")
    if len(parts) != ARN_PARTS or parts[0] != "arn" or parts[2] != "sqs" or not parts[5]:
        return None
    return parts[5]


def check_new_name(name: str, *, fifo: bool) -> None:
    """Refuse a name that Amazon would not let a new queue have."""
    if fifo:
        stem = name.removesuffix(FIFO_SUFFIX)
        if stem == name or len(name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(stem):
            raise InvalidParameterValue(
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or"
                " underscores, must end with .fifo suffix and be 1 to 80 in length"
            )
    elif not _NAME.fullmatch(name):
        raise InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
