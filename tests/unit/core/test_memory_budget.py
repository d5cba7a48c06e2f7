"""The memory budget: who gets room, who waits, who is disconnected. Bytes are counted exactly."""

import weakref

import pytest

from penstock.core.limits import KIB, MIB
from penstock.core.memory_budget import (
    ANSWERS,
    FETCHES,
    ONE_BATCH,
    PAUSED_STALL_MS,
    RELEASE_BYTES_MIN,
    RELEASE_MS,
    REQUESTS,
    STALL_MS,
    SWEEP_MS,
    WAKE_BYTES,
    MemoryAccount,
    MemoryBudget,
)

BUDGET = 64 * MIB
ORDINARY = 56 * MIB
LARGE = 1 * MIB
SMALL = 1 * KIB


class Holder:
    """A connection that tells what it is asked."""

    def __init__(self) -> None:
        self.moved: int | None = None
        self.evictions: list[str] = []
        self.woken = 0

    def moved_bytes(self) -> int | None:
        return self.moved

    def evict(self, reason: str) -> None:
        self.evictions.append(reason)

    def proceed(self) -> None:
        self.woken += 1


def opened(
    budget: MemoryBudget, address: str = "host-1", *, reserved: bool = False
) -> tuple[Holder, MemoryAccount]:
    holder = Holder()
    return holder, budget.open("kafka", address, holder, reserved=reserved)


def filled(budget: MemoryBudget, size: int, address: str = "host-9") -> MemoryAccount:
    _, account = opened(budget, address)
    account.take(ANSWERS, size)
    return account


def test_a_large_request_is_alone_although_nodes_hold_something() -> None:
    budget = MemoryBudget(BUDGET)
    _, member = opened(budget, "node 2", reserved=True)
    member.take(REQUESTS, LARGE)
    _, client = opened(budget)
    client.take(REQUESTS, BUDGET)
    assert client.admits(2 * BUDGET)
    _, other = opened(budget)
    other.take(REQUESTS, SMALL)
    assert not client.admits(2 * BUDGET)
    other.close()
    member.set_reserved(False)
    assert not client.admits(2 * BUDGET)


def test_a_node_reads_and_is_admitted_when_clients_have_taken_all_the_rest() -> None:
    budget = MemoryBudget(BUDGET)
    _, member = opened(budget, "node 2", reserved=True)
    _, client = opened(budget)
    filled(budget, budget.fetch_max)
    assert member.admits(LARGE)
    assert member.room(LARGE) == LARGE
    assert client.room(LARGE) == 0
    assert not client.admits(LARGE)
    filled(budget, BUDGET - budget.held)
    assert not member.admits(LARGE)
    assert member.room(LARGE) == 0


def test_small_requests_of_one_address_leave_some_of_the_reserve() -> None:
    budget = MemoryBudget(BUDGET)
    _, first = opened(budget, "host-1")
    _, second = opened(budget, "host-1")
    _, other = opened(budget, "host-2")
    first.take(REQUESTS, ORDINARY // 2 + BUDGET // 16 - 1)
    second.take(REQUESTS, 1)
    filled(budget, budget.fetch_max - 1 - budget.held, "host-3")
    assert second.admits(SMALL), "half of the reserve is for all"
    filled(budget, 1, "host-3")
    assert not second.admits(SMALL)
    second.give_back(REQUESTS, 1)
    other.take(REQUESTS, 1)
    assert second.admits(SMALL)
    second.take(REQUESTS, 1)
    assert other.admits(SMALL), "the rest of the reserve is for others"
    other.take(REQUESTS, BUDGET - budget.held)
    assert not other.admits(SMALL)


def test_the_addresses_of_one_ipv6_network_share_their_bounds() -> None:
    budget = MemoryBudget(BUDGET, connections_per_address_max=2)
    _, first = opened(budget, "2001:db8:1:2::1")
    _, second = opened(budget, "2001:db8:1:2:ffff::2%eth0")
    assert first.place is second.place
    assert not budget.takes_connection("2001:db8:1:2::3")
    assert budget.takes_connection("2001:db8:1:3::3")
    _, mapped = opened(budget, "::ffff:127.0.0.1")
    _, plain = opened(budget, "127.0.0.1")
    assert mapped.place is plain.place
    assert budget.takes_connection("::1")
    assert budget.takes_connection("no address: at all")
    first.close()
    assert budget.takes_connection("2001:db8:1:2::3")
    second.close()
    assert len({one.place for one in (mapped, plain)}) == 1


def test_what_is_taken_is_given_back_by_kind() -> None:
    budget = MemoryBudget(BUDGET)
    _, account = opened(budget)
    account.take(REQUESTS, 100)
    account.take(ANSWERS, 20)
    account.take(FETCHES, 3)
    assert (budget.held, account.held, account.place.held) == (123, 123, 123)
    assert budget.held_by("kafka") == {"requests": 100, "answers": 20, "fetches": 3}
    assert budget.held_by("native") == {"requests": 0, "answers": 0, "fetches": 0}
    account.give_back(REQUESTS, 100)
    assert budget.statistics().held_by == {
        ("kafka", "requests"): 0,
        ("kafka", "answers"): 20,
        ("kafka", "fetches"): 3,
    }
    account.close()
    account.close()
    account.take(ANSWERS, 1)
    account.give_back(ANSWERS, 1)
    assert budget.held == 0
    assert budget.statistics().held_by == {}


def test_more_than_was_taken_cannot_be_given_back() -> None:
    _, account = opened(MemoryBudget(BUDGET))
    with pytest.raises(AssertionError, match="-1 bytes of answers"):
        account.give_back(ANSWERS, 1)


def test_the_reserve_is_for_small_requests_and_reserved_connections() -> None:
    budget = MemoryBudget(BUDGET)
    filled(budget, ORDINARY - 1)
    _, client = opened(budget)
    _, peer = opened(budget, reserved=True)
    assert client.admits(LARGE), "the last one may be larger than the room there is"
    filled(budget, 1)
    assert not client.admits(LARGE)
    assert client.admits(SMALL)
    assert peer.admits(LARGE)
    filled(budget, BUDGET - ORDINARY)
    assert not client.admits(SMALL)
    assert not peer.admits(LARGE)


def test_one_that_is_larger_than_everything_gets_in_alone() -> None:
    budget = MemoryBudget(BUDGET)
    _, account = opened(budget)
    account.take(REQUESTS, ORDINARY)
    assert account.admits(2 * BUDGET)
    filled(budget, 1)
    assert not account.admits(2 * BUDGET)


def test_an_address_holds_at_most_half() -> None:
    budget = MemoryBudget(BUDGET)
    filled(budget, ORDINARY // 2, "host-1")
    _, near = opened(budget, "host-1")
    _, other = opened(budget, "host-2")
    assert not near.admits(LARGE)
    assert near.admits(SMALL)
    assert other.admits(LARGE)


def test_an_address_has_only_so_many_connections() -> None:
    budget = MemoryBudget(BUDGET, connections_per_address_max=2)
    assert budget.takes_connection("host-1")
    _, first = opened(budget)
    opened(budget)
    assert not budget.takes_connection("host-1")
    assert budget.takes_connection("host-2")
    first.close()
    assert budget.takes_connection("host-1")


def test_a_read_gets_what_there_is_then_one_batch_then_nothing() -> None:
    budget = MemoryBudget(BUDGET)
    _, account = opened(budget)
    assert account.room(LARGE) == LARGE
    assert account.room(BUDGET) == ORDINARY // 8, "no more than a connection may have"
    filled(budget, ORDINARY // 2, "host-3")
    filled(budget, ORDINARY // 2 - 1_000, "host-2")
    assert account.room(LARGE) == 1_000
    filled(budget, 1_000, "host-2")
    assert account.room(LARGE) == ONE_BATCH
    assert account.room(0) == 0
    filled(budget, (BUDGET - ORDINARY) // 2, "host-4")
    assert account.room(LARGE) == 0
    assert account.admits(SMALL), "fetches leave something of the reserve"


def test_the_reads_of_a_connection_are_bounded() -> None:
    budget = MemoryBudget(BUDGET)
    _, account = opened(budget)
    account.take(FETCHES, ORDINARY // 8)
    assert account.room(LARGE) == 0
    _, other = opened(budget)
    assert other.room(LARGE) == LARGE


def test_connections_that_wait_go_on_in_order_as_far_as_there_is_room() -> None:
    budget = MemoryBudget(BUDGET)
    full = [filled(budget, ORDINARY // 2, "host-8"), filled(budget, ORDINARY // 2)]
    waiting = [opened(budget, f"host-1{number}") for number in range(5)]
    for holder, account in waiting:
        assert not account.admits(LARGE)
        account.wait(holder.proceed)
    assert budget.statistics().waiting == 5
    full[0].give_back(ANSWERS, WAKE_BYTES)
    assert [holder.woken for holder, _ in waiting] == [1, 1, 0, 0, 0]
    full[0].give_back(ANSWERS, 10 * WAKE_BYTES)
    assert [holder.woken for holder, _ in waiting] == [1, 1, 1, 1, 1]
    assert budget.statistics().waiting == 0
    assert budget.statistics().waited == 5


def test_a_wait_for_an_address_holds_up_no_other_address() -> None:
    budget = MemoryBudget(BUDGET)
    full = filled(budget, ORDINARY // 2, "host-1")
    holder, account = opened(budget, "host-1")
    account.wait(holder.proceed)
    other = filled(budget, LARGE, "host-2")
    other.give_back(ANSWERS, LARGE)
    assert holder.woken == 0
    full.give_back(ANSWERS, 1)
    assert holder.woken == 1


def test_a_sweep_wakes_connections_that_were_left_waiting() -> None:
    budget = MemoryBudget(BUDGET)
    full = filled(budget, ORDINARY, "host-8")
    waiting = [opened(budget, f"host-1{number}") for number in range(3)]
    for holder, account in waiting:
        account.wait(holder.proceed)
    full.give_back(ANSWERS, 1)
    assert [holder.woken for holder, _ in waiting] == [1, 0, 0]
    budget.sweep(SWEEP_MS)
    budget.sweep(SWEEP_MS)
    assert [holder.woken for holder, _ in waiting] == [1, 1, 0]
    budget.sweep(2 * SWEEP_MS)
    assert [holder.woken for holder, _ in waiting] == [1, 1, 1]


def stalled(budget: MemoryBudget, size: int, address: str = "host-9") -> Holder:
    holder, account = opened(budget, address)
    holder.moved = 0
    account.take(REQUESTS, size)
    return holder


def test_what_has_stalled_for_longest_is_disconnected_first() -> None:
    budget = MemoryBudget(BUDGET)
    lasting = stalled(budget, ORDINARY // 4, "host-1")
    newer = stalled(budget, ORDINARY // 4, "host-2")
    busy = stalled(budget, ORDINARY // 4, "host-3")
    answered, account = opened(budget, "host-4")
    account.take(REQUESTS, ORDINARY // 4)
    newer.moved = None  # It has begun nothing yet.
    waiter, waiting = opened(budget, "host-5")
    waiting.wait(waiter.proceed)
    for now_ms in range(SWEEP_MS, 10 * SWEEP_MS, SWEEP_MS):
        busy.moved = (busy.moved or 0) + 100 * KIB
        if now_ms == 2 * SWEEP_MS:
            newer.moved = 0
        budget.sweep(now_ms)
        if lasting.evictions:
            break
    assert now_ms - SWEEP_MS >= STALL_MS
    assert len(lasting.evictions) == 1
    assert "memory is short" in lasting.evictions[0]
    assert not any(one.evictions for one in (newer, busy, answered))
    assert budget.statistics().evicted == {"kafka": 1}


def test_nobody_is_disconnected_while_nobody_waits() -> None:
    budget = MemoryBudget(BUDGET)
    holder = stalled(budget, ORDINARY)
    for now_ms in range(0, 10 * STALL_MS, SWEEP_MS):
        budget.sweep(now_ms)
    assert not holder.evictions


def test_one_that_this_node_does_not_read_from_has_more_time() -> None:
    budget = MemoryBudget(BUDGET)
    holder, account = opened(budget)
    holder.moved = 0
    account.take(REQUESTS, ORDINARY)
    account.wait(holder.proceed)
    for now_ms in range(SWEEP_MS, PAUSED_STALL_MS, SWEEP_MS):
        budget.sweep(now_ms)
    assert not holder.evictions
    budget.sweep(PAUSED_STALL_MS + SWEEP_MS)
    assert holder.evictions


def test_an_address_that_is_full_makes_room_among_its_own() -> None:
    budget = MemoryBudget(BUDGET)
    other = stalled(budget, LARGE, "host-2")
    own = stalled(budget, ORDINARY // 2, "host-1")
    _, account = opened(budget, "host-1")
    for now_ms in range(SWEEP_MS, STALL_MS + 2 * SWEEP_MS, SWEEP_MS):
        assert not account.admits(LARGE)
        budget.sweep(now_ms)
    assert account.admits(LARGE)
    assert len(own.evictions) == 1
    assert not other.evictions


def releasing(budget_bytes: int = BUDGET) -> tuple[list[int], MemoryBudget, MemoryAccount]:
    """What was held each time that memory was released."""
    released: list[int] = []
    budget = MemoryBudget(budget_bytes, release=lambda: released.append(budget.held))
    return released, budget, opened(budget)[1]


def test_memory_is_released_once_when_much_was_given_back_for_a_while() -> None:
    released, budget, account = releasing()
    account.take(REQUESTS, RELEASE_BYTES_MIN)
    budget.sweep(SWEEP_MS)
    account.give_back(REQUESTS, RELEASE_BYTES_MIN - LARGE)
    for now_ms in range(2 * SWEEP_MS, RELEASE_MS + SWEEP_MS, SWEEP_MS):
        budget.sweep(now_ms)
    assert not released
    for now_ms in range(RELEASE_MS + SWEEP_MS, 5 * RELEASE_MS, SWEEP_MS):
        budget.sweep(now_ms)
    assert released == [LARGE]


@pytest.mark.parametrize("least", [RELEASE_BYTES_MIN // 4 + 1, RELEASE_BYTES_MIN])
def test_memory_that_is_held_is_not_released(least: int) -> None:
    released, budget, account = releasing()
    account.take(REQUESTS, RELEASE_BYTES_MIN)
    budget.sweep(SWEEP_MS)
    account.give_back(REQUESTS, RELEASE_BYTES_MIN - least)
    for now_ms in range(2 * SWEEP_MS, 5 * RELEASE_MS, SWEEP_MS):
        budget.sweep(now_ms)
    assert not released


def test_memory_that_comes_and_goes_is_not_released() -> None:
    released, budget, account = releasing()
    for now_ms in range(SWEEP_MS, 5 * RELEASE_MS, 2 * SWEEP_MS):
        account.take(REQUESTS, RELEASE_BYTES_MIN)
        budget.sweep(now_ms)
        account.give_back(REQUESTS, RELEASE_BYTES_MIN)
        budget.sweep(now_ms + SWEEP_MS)
    assert not released


def test_a_closed_account_does_not_keep_its_connection() -> None:
    holder, account = opened(MemoryBudget(BUDGET))
    known = weakref.ref(holder)
    account.close()
    del holder
    assert known() is None, "without the garbage collector"
