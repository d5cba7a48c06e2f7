"""Assignors: strategies that share out partitions among the members of a group.

The leader of a generation gets the subscriptions of all members and decides for all. Some ways are
known; a group uses one that all its members know.

`penstock-cooperative-sticky`
    Incremental cooperative rebalancing (KIP-429). Members go on reading while they join. The aim is
    that of `penstock-sticky`, but a partition that has to move is given to nobody in this
    generation: its owner puts it down and joins again, and the next generation gives it away.
`cooperative-sticky`
    The same by the name that Kafka's clients have for it, for groups that they share. It is not
    offered by default: a Kafka client that offers `range` as well, as Java's does, leads a group
    that changes over to `range` without waiting for the members that still read.
`penstock-sticky`
    As even as can be, and with as little change as can be: a member keeps what it had, and only as
    many partitions move as evenness needs. Members say what they have when they join. They have put
    everything down by then (eager rebalancing); members of release 0.1 know this way and no better.
`range`
    Kafka's oldest: the partitions of each topic in one piece a member, in the order of the members'
    names. Every Kafka client knows it, so native members share a group with them by it.

How sticky works: every member keeps what it had; unowned partitions go to the member with the
fewest; then partitions move from members with more to members with fewer as long as two differ by
more than one. Where not all read the same topics, a partition may have to go from hand to hand: a
chain of moves along which each member takes one and gives one. A search for such chains finds one
whenever there is one, and when there is none no other assignment is more even.

A group whose members go on reading may get a member that cannot: the generation is an eager one
then, although partitions are being read. Members that do so say it (`Wish.holds`), and the leader
gives nobody anything in that generation: all put down what they have and join again.

Subscriptions and assignments are encoded as Kafka's consumers do it:

    subscription   version i16 | topics [string] | user data bytes?
                   from version 1:  | owned [topic string, partitions [i32]]
                   from version 2:  | generation i32
        user data  the generation as i32 for `cooperative-sticky`, where clients before Kafka 3.5
                   expect it (likewise for ours); otherwise `holds`, or none
    assignment     version i16 | [topic string, partitions [i32]] | user data bytes?
"""

import struct
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final

from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import InvalidFrame

COOPERATIVE: Final = "penstock-cooperative-sticky"
KAFKA_COOPERATIVE: Final = "cooperative-sticky"
STICKY: Final = "penstock-sticky"
RANGE: Final = "range"
ASSIGNORS: Final = (COOPERATIVE, STICKY, RANGE)
"""Offered by default."""
KNOWN_ASSIGNORS: Final = (*ASSIGNORS, KAFKA_COOPERATIVE)
COOPERATIVE_ASSIGNORS: Final = frozenset({COOPERATIVE, KAFKA_COOPERATIVE})

_NO_GENERATION: Final = -1
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_NO_USER_DATA: Final = _I32.pack(-1)
_HOLDS: Final = b"holds"

Assignment = dict[str, tuple[TopicPartition, ...]]
"""The partitions of each member, by its id."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The subscription of one member, which it sends when it joins."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = _NO_GENERATION
    """The generation in which `owned` was assigned: if two members claim a partition, the later one
    has it."""
    instance: str | None = None
    holds: bool = False
    """It still reads what it owns, and offers this protocol for the sake of other members."""


def assign(protocol: str, wishes: Mapping[str, Wish], counts: Mapping[str, int]) -> Assignment:
    """Share out all partitions; `counts` says how many each topic has."""
    assert protocol in KNOWN_ASSIGNORS, f"{protocol} was never offered"
    is_cooperative = protocol in COOPERATIVE_ASSIGNORS
    if not is_cooperative and any(wish.holds for wish in wishes.values()):
        return dict.fromkeys(wishes, ())
    shared = (_share_by_range if protocol == RANGE else _share_sticky)(wishes, counts)
    if is_cooperative:
        shared = _without_moves(shared, wishes)
    return {member: tuple(sorted(parts)) for member, parts in shared.items()}


def _without_moves(
    shared: Mapping[str, list[TopicPartition]], wishes: Mapping[str, Wish]
) -> dict[str, list[TopicPartition]]:
    """Leave out what another member still reads, even by an old claim: it has to be put down
    first."""
    claims: dict[TopicPartition, set[str]] = {}
    for member, wish in wishes.items():
        for part in wish.owned:
            claims.setdefault(part, set()).add(member)
    return {
        member: [part for part in parts if member in claims.get(part, {member})]
        for member, parts in shared.items()
    }


# Sticky.


def _share_sticky(
    wishes: Mapping[str, Wish], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    shares = _Shares(wishes)
    free = shares.keep(counts)
    shares.hand_out(free)
    shares.even_out()
    return shares.by_member()


class _Shares:
    """The partitions of each member, by topic: within a topic one is as good as another."""

    def __init__(self, wishes: Mapping[str, Wish]) -> None:
        self._wishes = wishes
        self._members = sorted(wishes)
        self._held: dict[str, dict[str, list[int]]] = {name: {} for name in self._members}
        self._load = dict.fromkeys(self._members, 0)

    def by_member(self) -> dict[str, list[TopicPartition]]:
        return {
            member: [TopicPartition(topic, index) for topic, own in held.items() for index in own]
            for member, held in self._held.items()
        }

    def keep(self, counts: Mapping[str, int]) -> dict[str, list[int]]:
        """Let every member keep the partitions that it had and may still have; return the
        others."""
        claims: dict[TopicPartition, tuple[int, str]] = {}
        for member in self._members:
            wish = self._wishes[member]
            for part in wish.owned:
                is_there = 0 <= part.partition < counts.get(part.topic, 0)
                if is_there and part.topic in wish.topics:
                    claim = (wish.generation, member)
                    claims[part] = max(claims.get(part, claim), claim)
        for part, (_, member) in sorted(claims.items()):
            self._give(member, part.topic, part.partition)
        return {
            topic: [index for index in range(count) if TopicPartition(topic, index) not in claims]
            for topic, count in sorted(counts.items())
        }

    def hand_out(self, free: Mapping[str, Sequence[int]]) -> None:
        """Unowned partitions go to the member with the fewest; topics with few readers come
        first."""
        readers = {
            topic: [name for name in self._members if topic in self._wishes[name].topics]
            for topic in free
        }
        for topic in sorted(free, key=lambda one: (len(readers[one]), one)):
            least = [(self._load[name], name) for name in readers[topic]]
            heapify(least)
            for index in free[topic] if least else ():
                load, name = least[0]
                self._give(name, topic, index)
                heapreplace(least, (load + 1, name))

    def even_out(self) -> None:
        """Move partitions, along chains if need be, until no member has two more than another that
        could take one. Each chain brings the loads closer together, so it ends."""
        settled: set[str] = set()
        while True:
            rich = [name for name in self._members if name not in settled]
            if not rich:
                return
            richest = max(rich, key=lambda name: self._load[name])
            chain = self._find_chain(richest)
            if chain is None:
                settled.add(richest)
                continue
            settled.clear()
            giver = richest
            for topic, taker in chain:
                index = self._held[giver][topic].pop()
                if not self._held[giver][topic]:
                    del self._held[giver][topic]
                self._load[giver] -= 1
                self._give(taker, topic, index)
                giver = taker

    def _find_chain(self, start: str) -> list[tuple[str, str]] | None:
        """The shortest chain of (topic, who takes it) that ends at a member with at least two less;
        of the takers at the end of equally short ones the poorest."""
        chains: dict[str, list[tuple[str, str]]] = {start: []}
        turn = deque([start])
        found: str | None = None
        while turn:
            giver = turn.popleft()
            if found is not None and len(chains[giver]) >= len(chains[found]):
                break
            for topic in sorted(self._held[giver]):
                for taker in self._members:
                    if taker in chains or topic not in self._wishes[taker].topics:
                        continue
                    chains[taker] = [*chains[giver], (topic, taker)]
                    turn.append(taker)
                    if self._load[taker] <= self._load[start] - 2:
                        if found is None or self._load[taker] < self._load[found]:
                            found = taker
        return None if found is None else chains[found]

    def _give(self, member: str, topic: str, index: int) -> None:
        self._held[member].setdefault(topic, []).append(index)
        self._load[member] += 1


# Range.


def _share_by_range(
    wishes: Mapping[str, Wish], counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    # KIP-345: static members come first, by the name they keep; then the others by their ids.
    order = sorted(
        wishes, key=lambda name: (wishes[name].instance is None, wishes[name].instance or name)
    )
    shared: dict[str, list[TopicPartition]] = {name: [] for name in wishes}
    for topic, count in counts.items():
        readers = [name for name in order if topic in wishes[name].topics]
        first = 0
        for number, name in enumerate(readers):
            size = count // len(readers) + (number < count % len(readers))
            shared[name] += [TopicPartition(topic, index) for index in range(first, first + size)]
            first += size
    return shared


# As bytes.


def encode_wish(protocol: str, wish: Wish) -> bytes:
    """Encode the subscription of a member. For range it is the oldest version, which all clients
    can read."""
    version = 0 if protocol == RANGE else 2
    parts = [_I16.pack(version), _I32.pack(len(wish.topics))]
    parts += [_encode_text(topic) for topic in sorted(wish.topics)]
    if protocol in COOPERATIVE_ASSIGNORS:
        parts.append(_encode_bytes(_I32.pack(wish.generation)))
    else:
        parts.append(_encode_bytes(_HOLDS) if wish.holds else _NO_USER_DATA)
    if version:
        parts += [_encode_partitions(wish.owned), _I32.pack(wish.generation)]
    return b"".join(parts)


def decode_wish(data: bytes, instance: str | None = None) -> Wish:
    """Decode the subscription of a member of any client; raise `InvalidFrame` if it is
    malformed."""
    reader = _Reader(data)
    version = reader.i16()
    topics = frozenset(reader.text() for _ in range(reader.count()))
    owned: tuple[TopicPartition, ...] = ()
    generation = _NO_GENERATION
    user_data = reader.blob()
    if len(user_data) == _I32.size:
        (generation,) = _I32.unpack(user_data)
    if version >= 1:
        owned = tuple(reader.partitions())
    if version >= 2:
        generation = reader.i32()
    return Wish(topics, owned, generation, instance, user_data == _HOLDS)


def encode_assignment(parts: Iterable[TopicPartition]) -> bytes:
    """Encode the assignment of a member."""
    return _I16.pack(0) + _encode_partitions(parts) + _NO_USER_DATA


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Decode the assignment of a member, made by a leader of any client; no bytes mean no
    partitions."""
    if not data:
        return ()
    reader = _Reader(data)
    reader.i16()
    return tuple(reader.partitions())


def _encode_partitions(parts: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(parts):
        by_topic.setdefault(topic, []).append(index)
    encoded = [_I32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        encoded += [_encode_text(topic), _I32.pack(len(indexes)), *map(_I32.pack, indexes)]
    return b"".join(encoded)


def _encode_bytes(data: bytes) -> bytes:
    return _I32.pack(len(data)) + data


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data


class _Reader:
    """Reads what another member wrote; every length is checked before it is believed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def i16(self) -> int:
        return int(self._number(_I16))

    def i32(self) -> int:
        return int(self._number(_I32))

    def count(self) -> int:
        """Read the number of elements that follow, each of at least two bytes."""
        count = self.i32()
        if not 0 <= count <= (len(self._data) - self._position) // 2:
            raise InvalidFrame(f"a member of the group says that {count} things follow")
        return count

    def text(self) -> str:
        try:
            return self._take(self.i16()).decode()
        except UnicodeDecodeError as error:
            raise InvalidFrame(f"a member of the group names a topic badly: {error}") from error

    def blob(self) -> bytes:
        """Empty if there are none."""
        length = self.i32()
        return self._take(length) if length > 0 else b""

    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, self.i32())
            for topic in (self.text() for _ in range(self.count()))
            for _ in range(self.count())
        ]

    def _number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise InvalidFrame("what a member of the group says ends too early")
        taken = self._data[self._position : end]
        self._position = end
        return taken
