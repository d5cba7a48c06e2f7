"""What to do about a kind of failure."""

from datetime import UTC, datetime, timedelta

from penstock.spark.jobs.suggestions import FailureKind, suggest, tell_time
from penstock.spark.jobs.traits import Pattern

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUIET = timedelta(minutes=10)


def failure(*, ago: timedelta, queue: str = "orders", kind: str = "timeout") -> FailureKind:
    return FailureKind(
        queue=queue,
        kind=kind,
        messages=312,
        keys=20,
        deliveries_mean=3.0,
        first_died=NOW - timedelta(days=1),
        last_died=NOW - ago,
        example=kind,
    )


def pattern(*, dead_share: float, living_share: float, lift: float) -> Pattern:
    return Pattern(
        trait="sku begins with X-",
        dead=300,
        living=3,
        dead_share=dead_share,
        living_share=living_share,
        lift=lift,
        surprise=100.0,
    )


def test_what_is_over_is_redriven_and_what_goes_on_waits() -> None:
    over = suggest(failure(ago=timedelta(hours=2)), [], now=NOW, quiet=QUIET)
    assert (over.action, over.messages) == ("redrive", 312)
    assert over.why == "the last one died 2 h ago, none since"
    still = suggest(failure(ago=timedelta(seconds=12)), [], now=NOW, quiet=QUIET)
    assert (still.action, still.why) == ("wait", "the last one died 12 s ago")


def test_poison_is_mended_first_however_old_it_is() -> None:
    old = failure(ago=timedelta(days=3))
    poison = pattern(dead_share=0.96, living_share=0.001, lift=900)
    assert suggest(old, [poison], now=NOW, quiet=QUIET).action == "fix"
    half = pattern(dead_share=0.5, living_share=0.001, lift=500)
    usual = pattern(dead_share=1.0, living_share=0.2, lift=5)
    assert suggest(old, [half, usual], now=NOW, quiet=QUIET).action == "redrive"


def test_a_predicate_can_be_pasted_whatever_the_reason_says() -> None:
    odd = failure(ago=timedelta(days=1), kind="it's \\broken")
    said = suggest(odd, [], now=NOW, quiet=QUIET).predicate
    assert said == "queue = 'orders' and kind = 'it\\'s \\\\broken'"


def test_times() -> None:
    spans = (timedelta(seconds=5), timedelta(minutes=3), timedelta(hours=30), timedelta(days=9))
    assert [tell_time(one) for one in spans] == ["5 s", "3 min", "30 h", "9 d"]
