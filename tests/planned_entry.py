"""What a leader writes for a plan, for tests that apply entries without Raft."""

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Term
from penstock.machines import Append, Plan, Propose, join_appends


def planned_entry(plan: Plan, index: int) -> Entry:
    """The entry of a plan, alone, at this index of the first term."""
    if isinstance(plan, Append):
        return Entry(Index(index), Term(1), EntryKind.APPEND, join_appends([plan]))
    assert isinstance(plan, Propose), plan
    return Entry(Index(index), Term(1), EntryKind.COMMAND, plan.payload)
