"""What must hold of sends, by the names under which the Jepsen tests of Kafka know it.

inconsistent-offsets    one offset, two values
duplicate               one value, two offsets
lost-write              committed, never read, though something behind it was read
unseen                  acknowledged, never read, though everything was drained
aborted-read            read, though its send certainly failed
unwritten-read          read where nobody had sent it
int-nonmonotonic-send   one operation's sends stand in reverse order
nonmonotonic-send       two acknowledged sends of one process stand in reverse order
reordered               the same, of sends of which one was never answered
realtime-send           invoked after another had been acknowledged, stands before it
"""

from tests.cluster.log_model import NO_OFFSET, LogModel, Outcome
from tests.cluster.verdict import Verdict


def check_sends(model: LogModel, verdict: Verdict, *, idempotent: bool, drained: bool) -> None:
    """Apply all rules about sends."""
    _one_value_per_offset(model, verdict)
    _one_offset_per_value(model, verdict, idempotent=idempotent)
    _nothing_lost(model, verdict, drained=drained)
    _nothing_from_nowhere(model, verdict)
    _order_of_each_process(model, verdict)
    _order_of_time(model, verdict)


def _one_value_per_offset(model: LogModel, verdict: Verdict) -> None:
    for key, log in enumerate(model.logs):
        for offset, values in sorted(log.conflicts.items()):
            names = ", ".join(sorted(model.names[value] for value in values))
            verdict.found("inconsistent-offsets", f"{model.keys[key]} at {offset}: {names}")


def _one_offset_per_value(model: LogModel, verdict: Verdict, *, idempotent: bool) -> None:
    for value in range(len(model)):
        if model.first[value] != model.last[value]:
            if idempotent:
                again = f"{model.describe(value)} and again at {model.last[value]}"
                verdict.found("duplicate", again)
            else:
                verdict.allowed["duplicate"] += 1


def _nothing_lost(model: LogModel, verdict: Verdict, *, drained: bool) -> None:
    bounds = [NO_OFFSET] * len(model.keys)
    for value in range(len(model)):
        if model.was_read[value] and model.first[value] > bounds[model.key[value]]:
            bounds[model.key[value]] = model.first[value]
    for value in range(len(model)):
        if model.was_read[value]:
            continue
        bound = bounds[model.key[value]]
        if NO_OFFSET < model.last[value] <= bound and model.committed(value):
            example = f"{model.describe(value)}, while {bound} was read"
            verdict.found("lost-write", example)
        elif drained and model.outcome[value] == Outcome.OK:
            verdict.found("unseen", f"{model.describe(value)}; read up to {bound}")


def _nothing_from_nowhere(model: LogModel, verdict: Verdict) -> None:
    for key, offset, value in model.foreign:
        where = f"{model.names[value]!r} in {model.keys[key]} at {offset}"
        verdict.found("unwritten-read", where)
    for value in range(len(model)):
        if model.was_read[value] and model.outcome[value] == Outcome.FAILED:
            verdict.found("aborted-read", model.describe(value))


def _order_of_each_process(model: LogModel, verdict: Verdict) -> None:
    """Values are numbered as they were invoked, so each process's sends come by in its order."""
    highest: dict[tuple[int, int], int] = {}
    for value in range(len(model)):
        if model.process[value] < 0 or model.first[value] == NO_OFFSET:
            continue
        line = (model.process[value], model.key[value])
        before = highest.get(line)
        if before is not None and model.last[value] < model.first[before]:
            example = f"{model.describe(value)}, invoked after {model.describe(before)}"
            if model.operation[value] == model.operation[before]:
                verdict.found("int-nonmonotonic-send", example)
            elif model.outcome[value] == model.outcome[before] == Outcome.OK:
                verdict.found("nonmonotonic-send", example)
            else:
                verdict.found("reordered", example)
        else:
            highest[line] = value


def _order_of_time(model: LogModel, verdict: Verdict) -> None:
    for log in model.logs:
        earliest = None
        for offset in reversed(log.offsets):
            value = log.values[offset]
            if model.outcome[value] != Outcome.OK or offset != model.first[value]:
                continue
            if earliest is not None and model.invoked_at[value] > model.completed_at[earliest]:
                # One process's sends are told of by the rules above.
                if model.process[value] != model.process[earliest]:
                    after = f"invoked after {model.describe(earliest)} was acknowledged"
                    verdict.found("realtime-send", f"{model.describe(value)}, {after}")
            if earliest is None or model.completed_at[value] < model.completed_at[earliest]:
                earliest = value
