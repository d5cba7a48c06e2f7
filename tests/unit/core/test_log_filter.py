"""Which messages of a log are meant; a batch that is passed over unopened holds none of them."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.log_filter import LogFilter
from penstock.core.message import Message
from penstock.core.types import Offset
from tests.batches import build_batch

MESSAGE = Message(Offset(1), 0, b"key-1", b"value-1", (("name", b"part"), ("empty", None)))


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (LogFilter(), True),
        (LogFilter(text="value"), True),
        (LogFilter(text="key-1"), True),
        (LogFilter(text="nam"), True),
        (LogFilter(text="par"), True),
        (LogFilter(text="Value"), False),
        (LogFilter(key="1", value="1"), True),
        (LogFilter(key="2", value="1"), False),
        (LogFilter(header="empty"), True),
        (LogFilter(header="name", header_value="art"), True),
        (LogFilter(header="name", header_value="x"), False),
        (LogFilter(header="nam"), False),
    ],
)
def test_conditions(wanted: LogFilter, matches: bool) -> None:
    assert wanted.matches(MESSAGE) is matches


def test_a_batch_is_passed_over_only_if_its_bytes_tell() -> None:
    plain = memoryview(bytes(build_batch(3, value=b"needle", key=b"k")))
    packed = memoryview(bytes(build_batch(3, value=b"needle" * 20, compression=1)))
    assert not LogFilter(text="needle").passes_over(plain)
    assert not LogFilter(key="k", value="needle").passes_over(plain)
    assert LogFilter(text="straw").passes_over(plain)
    assert LogFilter(value="needle", key="straw").passes_over(plain)
    assert not LogFilter(text="straw").passes_over(packed)
    assert not LogFilter().passes_over(plain)


def test_long_texts_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        LogFilter(header="x" * 1_001).check()
