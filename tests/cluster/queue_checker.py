"""Holds a history of queues against the promises:  python -m tests.cluster.queue_checker FILE …

The rules stand in `queue_lease_rules`, `queue_dead_rules`, `queue_order_rules` and
`queue_balance_rules`; what they rest on in `queue_model`. They find what is certainly wrong: an
operation happened at some moment between its beginning and its end, and what is ambiguous proves
nothing. Times are real ones and leases are counted in log time, so they may differ by a little.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.checker import survey
from tests.cluster.history import Event, History
from tests.cluster.queue_balance_rules import check_balance
from tests.cluster.queue_dead_rules import check_dead_letters
from tests.cluster.queue_lease_rules import MILLISECOND, check_leases
from tests.cluster.queue_model import QueueModel
from tests.cluster.queue_order_rules import check_order
from tests.cluster.verdict import Verdict

TOLERANCE_MS = 25
"""How much the clock of the cluster and ours may differ over the length of a lease or a delay."""


def check_queues(history: Iterable[Event], *, tolerance_ms: float = TOLERANCE_MS) -> Verdict:
    """Everything that is wrong with a history; it is iterated over more than once."""
    verdict = Verdict()
    survey(history, verdict)
    model = QueueModel(history)
    if not model.last_drain_ok:
        verdict.found("incomplete-drain", "not every queue was emptied")
    tolerance_ns = tolerance_ms * MILLISECOND
    check_leases(model, verdict, tolerance_ns=tolerance_ns)
    check_dead_letters(model, verdict)
    check_order(model, verdict, tolerance_ns=tolerance_ns)
    check_balance(model, verdict, tolerance_ns=tolerance_ns, drained=model.last_drain_ok)
    for log in model.queues.values():
        verdict.counts["deliveries"] += sum(map(len, log.deliveries.values()))
        dead = model.queues.get(log.promises.dead_letters)
        if dead is not None:
            verdict.counts["dead letters"] += len(dead.deliveries)
    return verdict


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("histories", nargs="+", type=Path)
    parser.add_argument("--tolerance-ms", type=float, default=TOLERANCE_MS)
    options = parser.parse_args(arguments)
    verdict = check_queues(History(*options.histories), tolerance_ms=options.tolerance_ms)
    print(verdict.describe())
    return 0 if verdict.valid else 1


if __name__ == "__main__":
    sys.exit(main())
