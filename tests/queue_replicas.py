"""One shard on several replicas, without Raft or disk: what is planned on the first is applied on
all, and all must answer the same."""

from penstock.core.types import Term
from penstock.machines import Reply, Request
from penstock.machines.shard_machine import ShardMachine
from tests.planned_entry import planned_entry
from tests.slow_snapshot import SlowSnapshot


class QueueReplicas:
    """The leader comes first, and leads on if it is restored."""

    def __init__(self, count: int = 3) -> None:
        self.machines = [ShardMachine() for _ in range(count)]
        self.index = 0
        self.snapshot = SlowSnapshot(lambda: self.leader, ShardMachine)

    @property
    def leader(self) -> ShardMachine:
        return self.machines[0]

    def do(self, request: Request, now_ms: int) -> Reply:
        """Plan on the leader, apply everywhere."""
        plan = self.leader.plan(request, now_ms=now_ms, term=Term(1))
        self.index += 1
        entry = planned_entry(plan, self.index)
        first, *others = [machine.apply(entry) for machine in self.machines]
        assert all(other == first for other in others), f"{request} is answered in several ways"
        return first.replies[0]

    def restore(self, who: int) -> None:
        """One of them starts anew, from another one's snapshot."""
        state = self.machines[1].snapshot()
        self.machines[who] = ShardMachine()
        self.machines[who].restore(state)

    def check_equal(self) -> None:
        """In what they know, byte for byte, and in when they want to be woken."""
        state, due_ms = self.leader.snapshot(), self.leader.queues.due_ms()
        for machine in self.machines[1:]:
            assert machine.snapshot() == state
            assert machine.queues.due_ms() == due_ms
            assert machine.state_bytes() == self.leader.state_bytes()
        self.snapshot.step()
