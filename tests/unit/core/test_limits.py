"""`core.limits`: bounds that lean on each other."""

from penstock.core import limits


def test_every_bound_is_a_positive_integer_but_for_seconds() -> None:
    bounds = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert bounds
    assert all(value > 0 for value in bounds.values())
    odd = [name for name, value in bounds.items() if not isinstance(value, int)]
    assert [name for name in odd if not name.endswith(("_SECONDS", "_SECONDS_MAX"))] == []


def test_a_gathered_entry_fits_an_entry() -> None:
    # The batcher stops after the batch that reaches its bound, so one more may be in.
    most = limits.GATHER_BYTES_MAX + limits.BATCH_BYTES_MAX
    assert most < limits.ENTRY_PAYLOAD_BYTES_MAX


def test_an_entry_fits_the_uncommitted_bound() -> None:
    assert limits.ENTRY_PAYLOAD_BYTES_MAX <= limits.UNCOMMITTED_BYTES_MAX


def test_votes_fit_into_the_ballast() -> None:
    assert limits.BALLAST_BYTES > 2 * limits.SEGMENT_BYTES


def test_heartbeats_are_ten_times_faster_than_elections() -> None:
    assert limits.HEARTBEAT_TICKS * 10 <= limits.ELECTION_TICKS
