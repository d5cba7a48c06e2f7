"""Quarantine: a log that broke a promise takes no part until it has been repaired from the leader.

A node that lost what it had acknowledged must not vote, lead, acknowledge or give its data to
others: cutting the damage off, or coming back empty, is how committed entries are lost
(Protocol-Aware Recovery, FAST '18). The file QUARANTINE says so across restarts. It is written
before anything else is touched, and removed only when the leader has confirmed that the node is
whole.

`trusted_index` bounds what may still be used: entries up to it are whole here and known to be
committed, so the leader need not send them again.
"""

import msgspec

from penstock.core.types import Index
from penstock.storage.disk import Disk
from penstock.storage.envelope import read_whole, replace_whole, seal, unseal

QUARANTINE_NAME = "QUARANTINE"


class Quarantine(msgspec.Struct, frozen=True, kw_only=True):
    """Why the log is not to be believed, and how far it still is."""

    reason: str
    file: str
    position: int
    trusted_index: Index
    repaired: bool = False
    """An installation has replaced the damage; only the leader's confirmation is missing."""

    def describe(self) -> str:
        state = "repaired, waiting for the leader's word" if self.repaired else "to be repaired"
        return (
            f"{state}: {self.file} at byte {self.position}: {self.reason}; "
            f"trusted up to {self.trusted_index}"
        )


def load_quarantine(disk: Disk, directory: str) -> Quarantine | None:
    """Read the quarantine file; if it cannot be read, nothing is trusted."""
    path = f"{directory}/{QUARANTINE_NAME}"
    data = read_whole(disk, path)
    if data is None:
        return None
    unreadable = Quarantine(
        reason="the quarantine's own file is damaged", file=path, position=0, trusted_index=Index(0)
    )
    return unseal(data, Quarantine) or unreadable


def store_quarantine(disk: Disk, directory: str, quarantine: Quarantine) -> None:
    """Write the quarantine file durably."""
    replace_whole(disk, f"{directory}/{QUARANTINE_NAME}", seal(quarantine))


def lift_quarantine(disk: Disk, directory: str) -> None:
    """The leader's word has come: durable when it returns."""
    path = f"{directory}/{QUARANTINE_NAME}"
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(directory)
