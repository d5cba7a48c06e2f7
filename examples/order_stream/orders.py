"""The orders of the demo: made by number, so that everybody knows what must become of each.

most            shipped
1 in 25         by a carrier that does not answer: dead at first, shipped after the redrive
1 in 40         no proper order, in one of four ways: refused, and a dead letter for ever
"""

import json
from collections.abc import Iterable

ORDERS = "orders"
LETTERS = "orders_dlq"
PARCELS = "parcels"
PARCEL_LETTERS = "parcels_dlq"
SHIPPED = "shipped"
BAD_EVERY = 40
SLOW_EVERY = 25


def key_of(number: int) -> str:
    """The key of an order, which goes with it everywhere."""
    return f"o-{number:06}"


def is_bad(number: int) -> bool:
    """It is refused by the pipeline."""
    return number % BAD_EVERY == 7


def body_of(number: int) -> bytes:
    """What a customer sends."""
    order: dict[str, object] = {
        "id": key_of(number),
        "sku": f"A-{number % 10 + 1:02}",
        "pieces": number % 9 + 1,
        "carrier": "snail" if number % SLOW_EVERY == 3 else "swift",
    }
    if is_bad(number):
        match number // BAD_EVERY % 4:
            case 0:
                return json.dumps(order).encode()[:-7]
            case 1:
                order["pieces"] = -1
            case 2:
                order["sku"] = f"X-{number % 100:02}"
            case _:
                del order["sku"]
    return json.dumps(order).encode()


def expected(count: int) -> tuple[set[str], set[str]]:
    """The keys of those that must be shipped in the end, and of those that must be refused."""
    bad = {key_of(number) for number in range(count) if is_bad(number)}
    return {key_of(number) for number in range(count)} - bad, bad


def complaints(
    count: int, *, lake: Iterable[str], shipped: Iterable[str], refused: Iterable[str]
) -> list[str]:
    """What is wrong with where orders ended, given the keys found in each place; none if every
    order is accounted for exactly once."""
    must_ship, must_refuse = expected(count)
    found: list[str] = []
    for place, keys, wanted in (
        ("the lake", list(lake), must_ship | must_refuse),
        ("the shipped orders", list(shipped), must_ship),
        ("the refused orders", list(refused), must_refuse),
    ):
        unique = set(keys)
        if len(keys) > len(unique):
            twice = sorted(key for key in unique if keys.count(key) > 1)[:5]
            found.append(f"{len(keys) - len(unique)} too many in {place}: {', '.join(twice)}")
        if lost := sorted(wanted - unique):
            found.append(f"{len(lost)} are missing in {place}: {', '.join(lost[:5])}")
        if odd := sorted(unique - wanted):
            found.append(f"{len(odd)} should not be in {place}: {', '.join(odd[:5])}")
    return found
