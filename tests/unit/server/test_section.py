"""A section of the configuration."""

import pytest

from penstock.server.config import Log, Raft


def test_what_is_not_given_is_as_it_is_by_default() -> None:
    assert (Log().level, Log(level="debug").level) == ("info", "debug")
    assert list(Log.settings) == ["level", "format", "slow_request_ms"]
    assert Log.settings["slow_request_ms"].key == "slow_request"


def test_equal_are_those_of_one_kind_with_the_same_values() -> None:
    assert Raft(tick_ms=7) == Raft(tick_ms=7) != Raft()
    assert len({Raft(tick_ms=7), Raft(tick_ms=7), Raft()}) == 2
    assert Raft() != Log()
    assert repr(Raft(tick_ms=7)) == "Raft(tick_ms=7)"


def test_it_does_not_change() -> None:
    raft = Raft()
    with pytest.raises(AttributeError, match="does not change"):
        raft.tick_ms = 7
    with pytest.raises(AttributeError, match="does not change"):
        del raft.tick_ms
    with pytest.raises(AssertionError, match="Raft has no speed"):
        Raft(speed=1)
