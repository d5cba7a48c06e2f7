"""Holds a history against the promises:  python -m tests.cluster.checker history.jsonl …

The rules stand in `send_rules`, `poll_rules` and `commit_rules`; what they rest on in `log_model`.
A history that was not drained at its end proves little: acknowledged messages that nobody read may
be there or not. So without a completed `drain` there is the anomaly `incomplete-drain`.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.commit_rules import check_commits
from tests.cluster.history import Event, History
from tests.cluster.log_model import LogModel
from tests.cluster.poll_rules import check_polls
from tests.cluster.send_rules import check_sends
from tests.cluster.verdict import Verdict


def check(history: Iterable[Event], *, idempotent: bool = True) -> Verdict:
    """Everything that is wrong with a history; it is iterated over more than once."""
    verdict = Verdict()
    drained = survey(history, verdict)
    if not drained:
        verdict.found("incomplete-drain", "not every partition was read to its end")
    model = LogModel(history)
    verdict.counts["values read"] = sum(model.was_read)
    check_sends(model, verdict, idempotent=idempotent, drained=drained)
    check_polls(history, model, verdict)
    check_commits(history, verdict)
    return verdict


def survey(history: Iterable[Event], verdict: Verdict) -> bool:
    """Count what there is; True if the last drain was completed."""
    drained = False
    waiting = 0
    since = 0
    for event in history:
        if event.f == "drain" and event.type != "invoke":
            drained = event.type == "ok"
        if event.f == "fault":
            verdict.counts["faults"] += event.type == "ok"
            continue
        if event.type != "invoke":
            verdict.counts[f"{event.f} {event.type}"] += 1
        if event.f != "send":
            continue
        if event.type == "invoke":
            if waiting == 0:
                since = event.at
            waiting += 1
            continue
        waiting -= 1
        if event.type == "ok":
            verdict.silence_seconds = max(verdict.silence_seconds, (event.at - since) / 1e9)
            since = event.at
    return drained


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("histories", nargs="+", type=Path)
    parser.add_argument("--not-idempotent", action="store_true", help="duplicates are allowed")
    options = parser.parse_args(arguments)
    verdict = check(History(*options.histories), idempotent=not options.not_idempotent)
    print(verdict.describe())
    return 0 if verdict.valid else 1


if __name__ == "__main__":
    sys.exit(main())
