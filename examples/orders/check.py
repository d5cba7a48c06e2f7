"""Check the books:  python -m examples.orders.check shop.db --orders 100

Every order that was not declined has exactly one charge, of its amount, one piece of stock and one
receipt; every declined one has no charge, no receipt, and its piece is back on the shelf.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from examples.orders.ledger import Ledger
from examples.orders.orders import DAY, Order, order_of


def unfinished(ledger: Ledger, orders: Sequence[Order]) -> int:
    """How many orders the books say nothing final about."""
    charges, receipts = ledger.counts("charges"), ledger.counts("receipts")
    reserved = ledger.reserved()
    count = 0
    for order in orders:
        if order.is_declined:
            count += reserved.get(order.id) != 0
        else:
            count += not (charges[order.id] and receipts[order.id])
    return count


def complaints(ledger: Ledger, orders: Sequence[Order]) -> list[str]:
    """What is wrong with the books; nothing, if all is well."""
    charges, receipts = ledger.counts("charges"), ledger.counts("receipts")
    charged, reserved = ledger.charged(), ledger.reserved()
    found = []
    for order in orders:
        times = 0 if order.is_declined else 1
        if charges[order.id] != times:
            found.append(f"{order.id} was charged {charges[order.id]} times, not {times}")
        elif charged.get(order.id, 0) != order.cents * times:
            found.append(f"{order.id} was charged {charged[order.id]} cents, not {order.cents}")
        if reserved.get(order.id) != times:
            found.append(f"{order.id} has {reserved.get(order.id)} pieces, not {times}")
        if receipts[order.id] != times:
            found.append(f"{order.id} has {receipts[order.id]} receipts, not {times}")
    known = {order.id for order in orders}
    found += [f"{order_id} was never placed" for order_id in sorted(set(charges) - known)]
    return found


def verdict(ledger: Ledger, orders: Sequence[Order]) -> str:
    """One line for people."""
    declined = sum(order.is_declined for order in orders)
    charged = len(ledger.counts("charges"))
    return f"{len(orders)} orders: {charged} charged exactly once, {declined} declined and put back"


def main() -> int:
    """Check a ledger and say so; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--orders", type=int, required=True, help="how many were placed")
    parser.add_argument("--day", default=DAY)
    options = parser.parse_args()
    ledger = Ledger(options.ledger)
    orders = [order_of(number, options.day) for number in range(options.orders)]
    found = complaints(ledger, orders)
    print("\n".join(found) or verdict(ledger, orders))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
