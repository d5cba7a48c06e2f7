"""Many planned batches become the payload of one APPEND entry.

Batches of one partition end up side by side, in the order they were planned, as one slice: one
index row, one read. Slices come in the order in which their partitions were first planned. The
entry's stamp is the last plan's, which is the greatest.
"""

from collections.abc import Sequence

from penstock.core.append_payload import Slice, encode_append
from penstock.core.limits import ENTRY_SLICES_MAX
from penstock.core.types import PartitionId
from penstock.machines.machine import Append

SLICE_RECORDS_MAX = (1 << 32) - 1
"""A slice counts its records in 32 bits; a client may claim 2**24 in every batch."""


def join_appends(plans: Sequence[Append]) -> bytes:
    """The payload that carries these plans: consecutive ones, in the order of planning."""
    assert plans, "an APPEND entry without a batch"
    runs: list[list[Append]] = []
    run_of: dict[PartitionId, list[Append]] = {}
    for plan in plans:
        run = run_of.get(plan.partition)
        if run is None or plan.end_offset - run[0].base_offset > SLICE_RECORDS_MAX:
            run = run_of[plan.partition] = []
            runs.append(run)
        run.append(plan)
    assert len(runs) <= ENTRY_SLICES_MAX, f"{len(runs)} slices in one entry"
    parts = [(_slice_of(run), [plan.batch for plan in run]) for run in runs]
    return encode_append(plans[-1].stamp_ms, parts)


def _slice_of(run: list[Append]) -> Slice:
    first = run[0]
    return Slice(
        partition=first.partition,
        length=sum(len(plan.batch) for plan in run),
        base_offset=first.base_offset,
        record_count=run[-1].end_offset - first.base_offset,
        batch_count=len(run),
        max_timestamp=max(plan.max_timestamp for plan in run),
    )
