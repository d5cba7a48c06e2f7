"""Who belongs to the shard, at each index of the log, and which changes are allowed.

A membership is in force from the moment its entry is appended, committed or not (Raft §4.1):
leader and followers alike always use the newest one in their log. If the entry is truncated, the
one before it is in force again; hence a history and not a variable.

Voters change one at a time, so that any majority of the old and any of the new membership share a
node and joint consensus is not needed. That argument needs two more rules, kept by `Leadership`:

- A leader changes nothing before it has committed an entry of its own term. Otherwise two leaders
  can each have a change in flight that the other has not seen (Ongaro's correction of 2015).
- A leader changes nothing while an earlier membership entry is not committed. A new leader does not
  look for one it may have inherited: its own first entry follows everything inherited, so once that
  is committed, as the first rule wants, whatever came before it is too.

Learners count for no majority and come and go freely, any number at a time.
"""

from collections.abc import Iterable

from penstock.core.entries import Membership
from penstock.core.errors import MembershipRefused
from penstock.core.types import Index, NodeId


class MembershipHistory:
    """The memberships of a log, oldest first; the first one is that of the snapshot."""

    __slots__ = ("_changes", "current")

    def __init__(
        self, index: Index, membership: Membership, changes: Iterable[tuple[Index, Membership]] = ()
    ) -> None:
        self._changes: list[tuple[Index, Membership]] = [(index, membership)]
        for changed, members in changes:
            if changed == index:
                # A founding member sees the first membership as if it stood at the very start.
                self._changes[-1] = (changed, members)
            elif changed > index:
                self.append(changed, members)
        self.current: Membership = self._changes[-1][1]
        """The one in force."""

    @property
    def previous(self) -> Membership:
        """The one before, which a truncation would bring back."""
        return self._changes[-2 if len(self._changes) > 1 else -1][1]

    @property
    def changed_index(self) -> Index:
        """Where the membership in force was appended."""
        return self._changes[-1][0]

    def at(self, index: Index) -> Membership:
        """The membership in force at an index that is not older than the last `forget`."""
        for changed, members in reversed(self._changes):
            if changed <= index:
                return members
        raise AssertionError(f"the membership at {index} has been forgotten")

    def append(self, index: Index, membership: Membership) -> None:
        assert index > self.changed_index, f"membership {index} after {self.changed_index}"
        self._changes.append((index, membership))
        self.current = membership

    def truncate(self, index: Index) -> None:
        """Entries from `index` on are gone; so is what they changed."""
        while self._changes[-1][0] >= index and len(self._changes) > 1:
            self._changes.pop()
        self.current = self._changes[-1][1]
        assert self.changed_index < index, f"the snapshot's membership truncated at {index}"

    def restart(self, index: Index, membership: Membership) -> None:
        """A snapshot replaced the log up to `index`."""
        self._changes = [(index, membership)]
        self.current = membership

    def forget(self, index: Index) -> None:
        """No membership before `index` is needed again."""
        while len(self._changes) > 1 and self._changes[1][0] <= index:
            del self._changes[0]


def check_change(current: Membership, proposed: Membership) -> None:
    """Refuse a change that is unsafe by itself, whatever state the leader is in."""
    everyone = proposed.everyone()
    if not proposed.voters:
        raise MembershipRefused("a shard without voters could never change again")
    if len(set(everyone)) != len(everyone) or min(everyone) < 1:
        raise MembershipRefused(f"{proposed.describe()}: each node once, ids from 1")
    if list(proposed.voters) != sorted(proposed.voters):
        raise MembershipRefused(f"{proposed.describe()}: voters must be sorted")
    if list(proposed.learners) != sorted(proposed.learners):
        raise MembershipRefused(f"{proposed.describe()}: learners must be sorted")
    if proposed == current:
        raise MembershipRefused(f"{proposed.describe()}: already so")
    entering = new_voters(current, proposed)
    leaving = tuple(node for node in current.voters if node not in proposed.voters)
    if len(entering) + len(leaving) > 1:
        raise MembershipRefused(
            f"from {current.describe()} to {proposed.describe()}: change one voter at a time"
        )
    for node in entering:
        if node not in current.learners:
            raise MembershipRefused(f"node {node} must be a learner before it can be a voter")


def new_voters(current: Membership, proposed: Membership) -> tuple[NodeId, ...]:
    """The nodes that would become voters."""
    return tuple(node for node in proposed.voters if node not in current.voters)
