"""What was done a moment ago."""

from penstock.sqs.context import COOLDOWNS_MAX, Cooldowns
from penstock.testing.clock import ManualClock


def test_it_is_over_after_its_time() -> None:
    clock = ManualClock()
    cooldowns: Cooldowns[str] = Cooldowns(clock, 60_000)
    assert cooldowns.seconds == 60
    cooldowns.begin("a")
    clock.advance(59_999)
    assert cooldowns.is_on("a")
    assert not cooldowns.is_on("b")
    clock.advance(1)
    assert not cooldowns.is_on("a")


def test_it_begins_anew() -> None:
    clock = ManualClock()
    cooldowns: Cooldowns[str] = Cooldowns(clock, 1_000)
    cooldowns.begin("a")
    cooldowns.begin("b")
    clock.advance(900)
    cooldowns.begin("a")
    clock.advance(200)
    cooldowns.begin("c")
    assert [cooldowns.is_on(name) for name in "abc"] == [True, False, True]


def test_none_at_all() -> None:
    cooldowns: Cooldowns[bytes] = Cooldowns(ManualClock(), 0)
    cooldowns.begin(b"a")
    assert not cooldowns.is_on(b"a")


def test_it_is_bounded() -> None:
    cooldowns: Cooldowns[str] = Cooldowns(ManualClock(), 1_000)
    for number in range(COOLDOWNS_MAX + 1):
        cooldowns.begin(str(number))
    assert not cooldowns.is_on("0")
    assert cooldowns.is_on("1")
