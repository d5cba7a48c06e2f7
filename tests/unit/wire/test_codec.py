"""Words as bytes: every word comes back as it was, and nothing else comes in."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import (
    InvalidFrame,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.core.limits import NATIVE_HEAD_BYTES_MAX, NATIVE_LARGE_HEAD_BYTES_MAX
from penstock.core.message import NewMessage
from penstock.core.types import NodeId
from penstock.wire import codec
from penstock.wire.failures import Described, describe_error, remake_error
from penstock.wire.publish_requests import (
    AskPublished,
    LastPublished,
    Publish,
    Published,
    Stage,
    StagedAt,
    StagedPart,
)
from penstock.wire.requests import (
    Answer,
    Append,
    AskTopic,
    ReceivedPart,
    ReceiveRequest,
    ReceiveResponse,
    Request,
    Send,
    Settle,
)


def _families() -> list[type[msgspec.Struct]]:
    return [*Request.__subclasses__(), *Answer.__subclasses__()]


@pytest.mark.parametrize("family", [Request, Answer])
def test_no_two_words_of_a_family_share_a_name(family: type[msgspec.Struct]) -> None:
    tags = [kind.__struct_config__.tag for kind in family.__subclasses__()]

    assert len(tags) == len(set(tags))


@pytest.mark.parametrize(
    "request_",
    [
        Append(b"i" * 16, 3),
        ReceiveRequest(b"i" * 16, "queue", 100, 1 << 20, -1, 500),
        Settle(b"i" * 16, 0, "queue", ((1, 5, 9, 1, -1, ""), (7, 8, 9, 3, -1, "no"))),
        Stage(b"i" * 16, 3),
        Publish("app", 1 << 62, "ann", (StagedPart(b"i" * 16, 3, 9, ((0, 5), (7, 1 << 40))),)),
        AskPublished("app"),
    ],
)
def test_a_request_comes_back_as_it_was(request_: Request) -> None:
    assert codec.decode_request(codec.encode(request_)) == request_


@pytest.mark.parametrize(
    "answer",
    [
        ReceiveResponse((ReceivedPart(0, 7, 99, ((1, 4, 2, 50),), 61),), 40),
        StagedAt(3, 9, 0, 5),
        Published(True),
        LastPublished(-1),
    ],
)
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert codec.decode_answer(codec.encode(answer)) == answer


@given(st.binary(max_size=200))
def test_bytes_that_are_no_word_are_refused_and_nothing_worse(data: bytes) -> None:
    for decode in (codec.decode_request, codec.decode_answer, codec.decode_failure):
        try:
            decode(data)
        except InvalidFrame:
            continue


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(InvalidFrame):
        codec.decode_request(b"\x91" * 100_000)


@pytest.mark.parametrize(
    "error",
    [
        NotLeader("node 3 leads", leader=NodeId(3)),
        OutcomeUnknown("who knows"),
        Unavailable("later", retry_after_ms=250),
    ],
)
def test_an_error_arrives_as_what_it_was(error: PenstockError) -> None:
    made = remake_error(codec.decode_failure(codec.encode(describe_error(error))))

    assert type(made) is type(error)
    assert str(made) == str(error)
    assert vars(made) == vars(error)


def test_an_error_of_a_later_version_arrives_as_the_nearest_known() -> None:
    made = remake_error(Described(("RiverDry", "NotLeader", "Unavailable"), "wait", {"leader": 2}))

    assert isinstance(made, NotLeader)
    assert made.leader == 2


def test_every_word_says_what_it_is() -> None:
    assert all(kind.__doc__ for kind in _families())


def test_a_head_is_bounded_by_what_the_request_may_carry() -> None:
    small = AskTopic("n" * NATIVE_HEAD_BYTES_MAX)
    with pytest.raises(InvalidFrame, match=f"{NATIVE_HEAD_BYTES_MAX} at most"):
        codec.decode_request(codec.encode(small))
    value = b"v" * (NATIVE_LARGE_HEAD_BYTES_MAX - 1_000)
    send = Send(b"t" * 16, 0, (NewMessage(value),))
    assert codec.decode_request(codec.encode(send)) == send
    send = Send(b"t" * 16, 0, (NewMessage(value + b"v" * 1_000),))
    with pytest.raises(InvalidFrame, match=f"{NATIVE_LARGE_HEAD_BYTES_MAX} at most"):
        codec.decode_request(codec.encode(send))


def test_every_kind_of_large_request_is_known_by_its_name() -> None:
    names = {kind.__struct_config__.tag for kind in Request.__subclasses__()}
    assert {msgspec.msgpack.decode(name) for name in codec._LARGE} <= names
