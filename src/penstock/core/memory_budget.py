"""The memory budget of a node: one number of bytes that all its connections share (admission
control). Pure: it touches no socket, and the time is a parameter.

Every connection of every port has a `MemoryAccount`. It draws on the budget for what its client
makes the node hold, before the memory is taken where that can be known: the buffer of a request
that arrives, a request that is being served, messages that were read to answer it, an answer that
the client has not taken yet. It gives the bytes back when they have left.

    bytes_max    ──────────────────────────────────────────────
                  the reserve: small requests, their answers, connections with `reserved`, and
                  the one batch a fetch may always have
    ordinary_max ──────────────────────────────────────────────
                  everything else

Three more bounds keep one client from taking it all: an address holds at most half of the ordinary
part, and leaves half of the reserve to others; a connection reads at most an eighth at a time; and
an address has only so many connections. The addresses of one IPv6 network of 64 bits, which is what
a machine is given, count as one.

When there is no room, a connection stops reading from its client (back-pressure) and waits, first
come, first served. A fetch gets what there is. While others wait, a request that stays
unfinished, or an answer that stays unread, without any progress is disconnected by `sweep`, the one
that has made none for longest first: no client can keep the budget by being slow.

When much was held and has been given back for a while, `release` is called, so that the allocator
does not keep it.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from typing import Final, Protocol

import msgspec

from penstock.core.limits import (
    KIB,
    MEMORY_BYTES_MAX,
    MEMORY_CONNECTIONS_PER_ADDRESS_MAX,
    MEMORY_SMALL_BYTES_MAX,
    MIB,
)

REQUESTS: Final = 0
"""Requests that are arriving or under way."""
ANSWERS: Final = 1
"""Answers that have not left."""
FETCHES: Final = 2
"""Messages that were read and wait for more, or to become an answer."""
KINDS: Final = ("requests", "answers", "fetches")
SCOPE_ACCOUNT: Final = "penstock.account"
"""Where the ASGI scope of a request has the account of its connection."""

ONE_BATCH: Final = 1
"""What a fetch may read when there is only the reserve: a read returns at least one batch."""
SWEEP_MS: Final = 200
STALL_MS: Final = 500
"""A request or an answer that made less progress than `PROGRESS_BYTES` for this long is stalled."""
PAUSED_STALL_MS: Final = 5_000
"""The same for a connection that this node does not read from because there is no room."""
PROGRESS_BYTES: Final = 16 * KIB
RELEASE_BYTES_MIN: Final = 32 * MIB
RELEASE_MS: Final = 2_000
"""So long three quarters of what was held must have been free: under steady load it comes again,
and to get memory from the system costs a page fault for every page."""
WAKE_BYTES: Final = 64 * KIB
"""How much room each connection that is woken is expected to take."""


class MemoryHolder(Protocol):
    """A connection, as the budget sees it."""

    def moved_bytes(self) -> int | None:
        """How many bytes of unfinished requests and unread answers have moved so far; None if
        there is nothing unfinished. It never shrinks."""

    def evict(self, reason: str) -> None:
        """Disconnect: the memory is needed for others."""


class _Closed:
    """In place of a connection that is lost: its account must not keep it, and with it its buffers,
    until the garbage collector finds the cycle."""

    def moved_bytes(self) -> int | None:
        return None

    def evict(self, reason: str) -> None:
        """It is gone."""


_CLOSED: Final = _Closed()


class MemoryStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and what is held now."""

    bytes_max: int
    held_bytes: int
    held_by: Mapping[tuple[str, str], int]
    """By protocol and kind."""
    waiting: int
    """Connections and fetches that wait for room now."""
    waited: int
    """How often one had to wait, or was given less than it asked for."""
    refused: Mapping[str, int]
    """Requests that were refused for want of room, by protocol."""
    evicted: Mapping[str, int]
    """Connections that were closed to make room, by protocol."""


class _Address:
    """What the connections of one address hold together."""

    __slots__ = ("connections", "held", "waiting")

    def __init__(self) -> None:
        self.connections = 0
        self.held = 0
        self.waiting: deque[tuple[MemoryAccount, Callable[[], None]]] = deque()


class MemoryBudget:
    """One per node; all its ports draw on it."""

    def __init__(
        self,
        bytes_max: int = MEMORY_BYTES_MAX,
        *,
        connections_per_address_max: int = MEMORY_CONNECTIONS_PER_ADDRESS_MAX,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.bytes_max = bytes_max
        self.ordinary_max = bytes_max - bytes_max // 8
        self.fetch_max = bytes_max - bytes_max // 16
        """Half of the reserve: up to here a fetch may have one batch although there is only the
        reserve, and small requests of every address are taken."""
        self.address_max = self.ordinary_max // 2
        self.address_small_max = self.address_max + bytes_max // 16
        """An address that holds more gets nothing of the second half of the reserve."""
        self.connection_max = self.ordinary_max // 8
        """Of the reads of one connection."""
        self.connections_per_address_max = connections_per_address_max
        self.held = 0
        self.waited = 0
        self.refused: Counter[str] = Counter()
        self.evicted: Counter[str] = Counter()
        self._accounts: set[MemoryAccount] = set()
        self._reserved: set[MemoryAccount] = set()
        self._addresses: dict[str, _Address] = {}
        self.waiting: deque[tuple[MemoryAccount, Callable[[], None]]] = deque()
        self._marks: dict[MemoryAccount, tuple[int, int]] = {}
        self._was_short = False
        self._swept_ms = 0
        self._release = release
        """Gives freed memory back to the system."""
        self._peak = 0
        """The most that sweeps have seen held since memory was released."""
        self._busy_ms = 0
        """When a sweep saw last that more than a quarter of the peak is held."""

    # Connections.

    def takes_connection(self, address: str) -> bool:
        """Whether this address may have one more connection."""
        known = self._addresses.get(network_of(address))
        return known is None or known.connections < self.connections_per_address_max

    def open(
        self, protocol: str, address: str, holder: MemoryHolder, *, reserved: bool = False
    ) -> "MemoryAccount":
        """The account of a new connection; `close` it when the connection is lost. `reserved` is
        for connections that must go on when clients have taken all the rest."""
        address = network_of(address)
        place = self._addresses.get(address)
        if place is None:
            place = self._addresses[address] = _Address()
        place.connections += 1
        account = MemoryAccount(self, protocol, address, place, holder)
        self._accounts.add(account)
        account.set_reserved(reserved)
        return account

    def reserve(self, account: "MemoryAccount") -> None:
        """For accounts: see `MemoryAccount.set_reserved`."""
        if account.reserved:
            self._reserved.add(account)
        else:
            self._reserved.discard(account)

    def held_by_others(self, account: "MemoryAccount") -> int:
        """What all other connections hold that are not `reserved`: the links between nodes always
        hold something."""
        return self.held - account.held - sum(one.held for one in self._reserved)

    def forget(self, account: "MemoryAccount") -> None:
        """For accounts: one was closed."""
        self._accounts.discard(account)
        self._reserved.discard(account)
        self._marks.pop(account, None)
        place = account.place
        place.connections -= 1
        if not place.connections:
            del self._addresses[account.address]

    # Waiting.

    def enqueue(self, account: "MemoryAccount", proceed: Callable[[], None]) -> None:
        """For accounts: see `MemoryAccount.wait`."""
        self.waited += 1
        place = account.place
        queue = place.waiting if self.held < self.ordinary_max else self.waiting
        queue.append((account, proceed))

    def wake(self, place: _Address) -> None:
        """Bytes have been given back: let connections go on, about as many as there is room for;
        the first ones first."""
        room = self.ordinary_max - self.held
        if room <= 0:
            return
        if place.waiting and place.held < self.address_max:
            self._wake(place.waiting, min(room, self.address_max - place.held))
        if self.waiting:
            self._wake(self.waiting, room)

    @staticmethod
    def _wake(queue: "deque[tuple[MemoryAccount, Callable[[], None]]]", room: int) -> None:
        for _ in range(min(len(queue), 1 + room // WAKE_BYTES)):
            account, proceed = queue.popleft()
            account.waits -= 1
            proceed()

    # Making room.

    def sweep(self, now_ms: int) -> None:
        """Called every now and then: if anything waits for room, disconnect what has stalled."""
        if now_ms - self._swept_ms < SWEEP_MS:
            return
        self._swept_ms = now_ms
        waiting = [one for one in self._addresses.values() if one.waiting]
        for place in waiting:
            self.wake(place)
        if self.waiting and self.held < self.ordinary_max:
            self._wake(self.waiting, self.ordinary_max - self.held)
        was_short, self._was_short = self._was_short, False
        if was_short or self.waiting or waiting:
            self._make_room(now_ms)
        else:
            self._marks.clear()
        self._release_freed(now_ms)

    def _release_freed(self, now_ms: int) -> None:
        self._peak = max(self._peak, self.held)
        if self._peak < RELEASE_BYTES_MIN or self.held > self._peak // 4:
            self._busy_ms = now_ms
        elif now_ms - self._busy_ms >= RELEASE_MS:
            self._peak = self.held
            if self._release is not None:
                self._release()

    def _make_room(self, now_ms: int) -> None:
        is_full = self.held >= self.ordinary_max
        marks: dict[MemoryAccount, tuple[int, int]] = {}
        stalled: list[tuple[int, int, MemoryAccount]] = []
        for account in self._accounts:
            if not is_full and account.place.held < self.address_max:
                continue
            moved = account.holder.moved_bytes()
            if moved is None:
                continue
            mark = self._marks.get(account)
            if mark is None or moved - mark[0] >= PROGRESS_BYTES:
                mark = moved, now_ms
            marks[account] = mark
            stalled_ms = now_ms - mark[1]
            if stalled_ms >= (PAUSED_STALL_MS if account.waits else STALL_MS):
                stalled.append((stalled_ms, account.held, account))
        self._marks = marks
        stalled.sort(key=lambda one: one[:2], reverse=True)
        self._evict(stalled)

    def _evict(self, stalled: "list[tuple[int, int, MemoryAccount]]") -> None:
        """Until an eighth of what is full is free again."""
        is_full = self.held >= self.ordinary_max
        held_end = self.ordinary_max - self.ordinary_max // 8
        address_end = self.address_max - self.address_max // 8
        for stalled_ms, held, account in stalled:
            if (is_full and self.held > held_end) or account.place.held > address_end:
                self.evicted[account.protocol] += 1
                account.holder.evict(
                    f"memory is short ({self.held} of {self.bytes_max} bytes are held), and what"
                    f" it has sent or not read, {held} bytes, has been stalled for {stalled_ms} ms"
                )
                account.close()

    # Counting.

    def held_by(self, protocol: str) -> dict[str, int]:
        """What the connections of a protocol hold, by kind."""
        total = [0] * len(KINDS)
        for account in self._accounts:
            if account.protocol == protocol:
                for kind, held in enumerate(account.held_by):
                    total[kind] += held
        return dict(zip(KINDS, total, strict=True))

    def statistics(self) -> MemoryStatistics:
        """A frozen snapshot."""
        held: Counter[tuple[str, str]] = Counter()
        for account in self._accounts:
            for kind, size in zip(KINDS, account.held_by, strict=True):
                held[account.protocol, kind] += size
        waiting = sum(len(one.waiting) for one in self._addresses.values())
        return MemoryStatistics(
            bytes_max=self.bytes_max,
            held_bytes=self.held,
            held_by=held,
            waiting=len(self.waiting) + waiting,
            waited=self.waited,
            refused=dict(self.refused),
            evicted=dict(self.evicted),
        )

    def note_short(self) -> None:
        """There was too little room: the next sweep looks for what has stalled."""
        self._was_short = True


def network_of(address: str) -> str:
    """Whose bounds an address shares: its own, or those of its IPv6 network."""
    if ":" not in address:
        return address
    try:
        whole = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if whole.ipv4_mapped is not None:
        return str(whole.ipv4_mapped)
    return str(IPv6Address(int(whole) >> 64 << 64)) + "/64"


class MemoryAccount:
    """What one connection draws on the budget."""

    __slots__ = (
        "address",
        "budget",
        "held_by",
        "holder",
        "is_closed",
        "place",
        "protocol",
        "reserved",
        "waits",
    )

    def __init__(
        self,
        budget: MemoryBudget,
        protocol: str,
        address: str,
        place: _Address,
        holder: MemoryHolder,
    ) -> None:
        self.budget = budget
        self.protocol = protocol
        self.address = address
        self.place = place
        self.holder: MemoryHolder = holder
        self.reserved = False
        self.held_by = [0] * len(KINDS)
        self.waits = 0
        """How many of its callbacks wait for room."""
        self.is_closed = False

    @property
    def held(self) -> int:
        """All that it holds."""
        return sum(self.held_by)

    def set_reserved(self, reserved: bool) -> None:
        """Whether the connection must go on when clients have taken all the rest."""
        self.reserved = reserved and not self.is_closed
        self.budget.reserve(self)

    def take(self, kind: int, size: int) -> None:
        """Draw bytes. It always succeeds: whether there is room is asked before."""
        if self.is_closed:
            return
        self.held_by[kind] += size
        self.place.held += size
        self.budget.held += size

    def give_back(self, kind: int, size: int) -> None:
        """The bytes have left. After `close` nothing is held any more, and this does nothing."""
        if self.is_closed:
            return
        self.held_by[kind] -= size
        assert self.held_by[kind] >= 0, f"{self.held_by[kind]} bytes of {KINDS[kind]} are held"
        place, budget = self.place, self.budget
        place.held -= size
        budget.held -= size
        if place.waiting or budget.waiting:
            budget.wake(place)

    def turn_into_answer(self, request_bytes: int, answer_bytes: int) -> None:
        """A request was served: give back what it held, draw what its answer takes."""
        if self.is_closed:
            return
        held_by = self.held_by
        held_by[REQUESTS] -= request_bytes
        held_by[ANSWERS] += answer_bytes
        assert held_by[REQUESTS] >= 0, f"{held_by[REQUESTS]} bytes of requests are held"
        more = answer_bytes - request_bytes
        place, budget = self.place, self.budget
        place.held += more
        budget.held += more
        if more < 0 and (place.waiting or budget.waiting):
            budget.wake(place)

    def admits(self, size: int) -> bool:
        """Whether there is room for a request of this size, or for a buffer for it."""
        budget = self.budget
        if self.reserved or size <= MEMORY_SMALL_BYTES_MAX:
            # In the first half of the reserve an address is not asked: it may stand for many
            # clients, whose heartbeats must not wait for the large requests of one of them. The
            # other half is for addresses that hold no more than their share.
            admitted = budget.held < budget.fetch_max or (
                budget.held < budget.bytes_max
                and (self.reserved or self.place.held < budget.address_small_max)
            )
        else:
            admitted = (
                budget.held < budget.ordinary_max and self.place.held < budget.address_max
            ) or not budget.held_by_others(self)  # One larger than everything gets in alone.
        if not admitted:
            budget.note_short()
        return admitted

    def room(self, wanted: int) -> int:
        """How many bytes may be read now to answer a request; `ONE_BATCH` if there is little, and
        0 if there is nothing. The caller takes what it has read before anything else happens."""
        budget, place = self.budget, self.place
        of_connection = budget.connection_max - self.held
        if self.reserved:
            left = min(budget.bytes_max - budget.held, of_connection)
        else:
            left = min(
                budget.ordinary_max - budget.held, budget.address_max - place.held, of_connection
            )
        if wanted <= left:
            return wanted
        budget.note_short()
        budget.waited += 1
        if left > 0:
            return left
        beyond = budget.fetch_max - budget.ordinary_max
        if (
            of_connection > 0
            and budget.held < budget.fetch_max
            and place.held < budget.address_max + beyond
        ):
            return min(wanted, ONE_BATCH)
        return 0

    def wait(self, proceed: Callable[[], None]) -> None:
        """Have `proceed` called, once, when there may be room; it asks again then."""
        self.waits += 1
        self.budget.enqueue(self, proceed)

    def close(self) -> None:
        """The connection is lost: all that it held is free."""
        if self.is_closed:
            return
        for kind, size in enumerate(self.held_by):
            self.give_back(kind, size)
        self.is_closed = True
        self.holder = _CLOSED
        self.budget.forget(self)


class MemoryDraw:
    """What is read for one request: drawn as it is read, and given back when the answer, which is
    drawn for itself, has taken its place."""

    __slots__ = ("_held", "account")

    def __init__(self, account: MemoryAccount) -> None:
        self.account = account
        self._held = 0

    @property
    def held(self) -> int:
        """How much was read."""
        return self._held

    def room(self, wanted: int) -> int:
        """See `MemoryAccount.room`."""
        return self.account.room(wanted)

    def take(self, size: int) -> None:
        """So much was read."""
        self._held += size
        self.account.take(FETCHES, size)

    def close(self) -> None:
        """The request is answered."""
        self.account.give_back(FETCHES, self._held)
        self._held = 0
