"""What the dead have in common and the living have not."""

import json

from penstock.spark.jobs.traits import compare, traits_of


def test_traits_of_keys_and_values() -> None:
    found = traits_of(
        b"customer-17", json.dumps({"sku": "X-1", "amount": -5, "gift": None}).encode()
    )
    assert "key = customer-17" in found
    assert "key begins with customer-" in found
    assert "fields {amount: number, gift: null, sku: text}" in found
    assert {"amount is below 0", "gift is null", "sku = X-1", "sku begins with X-"} <= set(found)


def test_traits_of_what_is_no_object() -> None:
    assert {"no key", "no value"} == set(traits_of(None, None))
    assert "value is no JSON" in traits_of(b"k", b"{broken")
    assert "value is no text" in traits_of(b"k", b"\xff\xfe\x00")
    assert "value is JSON: list" in traits_of(b"k", b"[1]")
    assert "key is long or no text" in traits_of(b"\xff", b"1")
    assert "amount is 0" in traits_of(None, b'{"amount": 0}')


def test_what_only_the_dead_have_comes_first() -> None:
    counts = [
        ("sku begins with X-", 90, 0),
        ("fields {sku: text}", 100, 10_000),
        ("amount is below 0", 40, 800),
        ("key = seldom", 4, 0),
    ]
    found = compare(counts, dead=100, living=10_000)
    assert [one.trait for one in found] == ["sku begins with X-", "amount is below 0"]
    first, second = found
    assert first.lift > 1_000
    assert (first.dead, first.living, first.dead_share, first.living_share) == (90, 0, 0.9, 0.0)
    assert 4 < second.lift < 6
    assert first.surprise > second.surprise > 11


def test_the_same_counts_are_told_once_and_by_the_shorter_words() -> None:
    counts = [("sku begins with X-", 50, 1), ("sku = X-1", 50, 1)]
    assert [one.trait for one in compare(counts, dead=60, living=1_000)] == ["sku = X-1"]


def test_without_anything_living_or_dead_nothing_is_told() -> None:
    assert compare([("x", 10, 0)], dead=0, living=0) == []
    assert compare([("x", 10, 0)], dead=10, living=0) == []


def test_what_may_be_chance_is_not_told() -> None:
    assert compare([("x", 5, 8)], dead=50, living=200) == []
    assert len(compare([("x", 50, 80)], dead=500, living=2_000)) == 1
