"""What a `Ready` asks a replica to make durable, in pieces that a disk job can take.

Entries, votes and the end of a quarantine of many Readies go into one write. Installing a snapshot
is a job of its own, with whatever belongs before it and after it.
"""

import msgspec

from penstock.core.entries import Entry, HardState
from penstock.engine.replica.snapshot_transfer import SnapshotFetch
from penstock.raft.messages import AnyMessage, Ready


class PendingWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Something a Ready asked to persist, and what may be said once it is."""

    sequence: int | None = None
    """Tells Raft which Ready is durable now; None for the first part of one."""
    hard_state: HardState | None = None
    entries: tuple[Entry, ...] = ()
    healed: bool = False
    fetch: SnapshotFetch | None = None
    promises: tuple[AnyMessage, ...] = ()


def pending_writes_of(ready: Ready, fetch: SnapshotFetch | None) -> list[PendingWrite]:
    """The duties of a Ready, in their order; `fetch` is the snapshot it wants installed."""
    pending: list[PendingWrite] = []
    if fetch is not None:
        if ready.hard_state is not None:
            pending.append(PendingWrite(hard_state=ready.hard_state))
        last = not ready.entries and not ready.healed
        promises = ready.promises if last else ()
        sequence = ready.sequence if last else None
        pending.append(PendingWrite(fetch=fetch, sequence=sequence, promises=promises))
        if last:
            return pending
    pending.append(
        PendingWrite(
            sequence=ready.sequence,
            hard_state=ready.hard_state if fetch is None else None,
            entries=ready.entries,
            promises=ready.promises,
            healed=ready.healed,
        )
    )
    return pending
