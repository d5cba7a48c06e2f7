"""A sieve holds so many messages and bytes, the first or the last ones, and says where it is."""

import pytest

from penstock.core.log_filter import LogFilter
from penstock.core.records import stamp_batch
from penstock.core.types import Offset, Term
from penstock.engine.inspection.log_scan import LogScan
from tests.batches import build_batch, with_bytes


def log(*values: bytes) -> bytes:
    """Batches of two messages each."""
    data = b""
    for number, value in enumerate(values):
        batch = build_batch(2, value=value)
        stamp_batch(batch, base_offset=Offset(2 * number), epoch=Term(1))
        data += batch
    return data


def sieve(first: int = 0, stop: int = 100, **given: object) -> LogScan:
    chosen: dict[str, object] = {
        "filter": LogFilter(),
        "messages_max": 10,
        "bytes_max": 1_000_000,
        "value_bytes": 1_000,
        "keeps_last": False,
        **given,
    }
    return LogScan(Offset(first), Offset(stop), **chosen)  # type: ignore[arg-type]


def offsets(one: LogScan) -> list[int]:
    return [seen.message.offset for seen in one.found]


def test_the_first_messages_are_kept_and_the_next_look_goes_on_there() -> None:
    one = sieve(messages_max=3)
    one.feed(log(b"a", b"b", b"c"))
    assert (offsets(one), one.next, one.is_full) == ([0, 1, 2], 3, True)
    two = sieve(first=one.next)
    two.feed(log(b"a", b"b", b"c"))
    assert (offsets(two), two.next, two.is_full) == ([3, 4, 5], 6, False)


def test_the_last_messages_are_kept() -> None:
    one = sieve(stop=5, messages_max=3, keeps_last=True)
    one.feed(log(b"a", b"b", b"c"))
    assert (offsets(one), one.next, one.has_dropped) == ([2, 3, 4], 5, True)


@pytest.mark.parametrize("keeps_last", [False, True])
def test_bytes_are_bounded_and_one_message_is_always_there(keeps_last: bool) -> None:
    one = sieve(bytes_max=1_000, keeps_last=keeps_last)
    one.feed(log(bytes(700), bytes(700), bytes(700)))
    assert 1 <= len(one.found) <= 2
    tiny = sieve(bytes_max=1, keeps_last=keeps_last)
    tiny.feed(log(bytes(700)))
    assert len(tiny.found) == 1


def test_what_does_not_match_is_passed_over_and_counts_as_seen() -> None:
    one = sieve(filter=LogFilter(value="b"), messages_max=1)
    one.feed(log(b"a", b"b", b"c"))
    assert (offsets(one), one.next) == ([2], 3)
    none = sieve(filter=LogFilter(value="z"))
    none.feed(log(b"a", b"b", b"c"))
    assert (offsets(none), none.next) == ([], 6)


def test_values_are_cut() -> None:
    one = sieve(value_bytes=3)
    one.feed(log("aää".encode()))
    seen = one.found[0]
    assert (seen.message.value, seen.value_bytes, seen.is_cut) == ("aä".encode(), 5, True)


def test_a_batch_that_cannot_be_opened_is_one_message() -> None:
    broken = with_bytes(build_batch(2), 61, b"\x01")
    one = sieve()
    one.feed(bytes(broken))
    assert [seen.message.headers for seen in one.found] == [(("penstock-unreadable", b"1"),)]
    assert one.next == 2
