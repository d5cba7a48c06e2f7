"""The requests of ordinary clients once more, at a cluster of three: no shard elects for them.

A request that holds the loop of a leader for a second makes its followers stand for election. So
the cases that a client without any right could send (findings F1 to F3, F5 and F6 of the security
review) come a second time, to the node that leads most shards, and the oracle of elections counts.
"""

from dataclasses import replace

from tests.abuse import (
    cases_batches,
    cases_connections,
    cases_frames,
    cases_kafka,
    cases_native,
    cases_sqs,
    cases_state,
    cases_web,
)
from tests.abuse.registry import CASES, Attack, Case, add_case
from tests.abuse.target import Target

_MODULES = (
    cases_batches,
    cases_connections,
    cases_frames,
    cases_kafka,
    cases_native,
    cases_sqs,
    cases_state,
    cases_web,
)
"""Their cases have entered themselves when this module goes through the table."""

FINDINGS = ("F1", "F2", "F3", "F5", "F6")
SUFFIX = "-on-three"


def is_of_clients(case: Case) -> bool:
    """Whether any client can send it, and it stems from one of the findings above."""
    sends = case.group not in ("peer", "process", "internal") and case.kill_after
    return sends and case.nodes == 1 and case.finding.rstrip("abcdef") in FINDINGS


def _at_the_leader(attack: Attack) -> Attack:
    async def attacked(target: Target) -> None:
        target.attacked = await target.busiest_leader()
        try:
            await attack(target)
        finally:
            target.attacked = 1

    return attacked


for _case in [one for one in CASES.values() if is_of_clients(one)]:
    add_case(
        replace(
            _case,
            name=_case.name + SUFFIX,
            what=f"{_case.what} At three nodes.",
            attack=_at_the_leader(_case.attack),
            nodes=3,
        )
    )
