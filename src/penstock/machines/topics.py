"""The catalog's table of topics: finding them, and what may become of them.

A topic is found by name, by id, or by one of its partitions, each in constant time however many
there are; that is three dictionaries, kept in step here and nowhere else. A change replaces one
`Topic` by another and touches nothing that it does not change: a topic of ten partitions is added
to ten thousand others at the price of ten.

A partition leads to its topic's id, not to the topic, which would have to be replaced for each
partition when a config changes. Its index is then found by halving: ids ascend within a topic.

Methods that begin with `check` refuse; the others do what has been checked.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Annotated, cast

import msgspec

from penstock.core.errors import (
    CatalogFull,
    InvalidConfig,
    InvalidPartitions,
    InvalidRequest,
    InvalidTopicName,
    TopicExists,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.limits import (
    PARTITIONS_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
    TOPIC_PARTITIONS_MAX,
    TOPICS_MAX,
)
from penstock.core.topic import Topic
from penstock.core.topic_configs import (
    check_topic_config_names,
    parse_topic_configs,
)
from penstock.core.types import NO_TOPIC_ID, PartitionId, TopicId
from penstock.machines.catalog_commands import AddPartitions, ConfigureTopic, CreateTopic
from penstock.machines.state_bytes import text_bytes

TOPIC_BYTES = 64
"""Of a topic in a snapshot, at most, without its name, its partitions and its configs."""
PARTITION_BYTES = 8
CONFIG_BYTES = 4
"""Of a config, besides its texts."""

FIRST_PARTITION = 1
"""0 is no partition, so that a number that was never set does not name one."""

_PARTITION_IDS = 1 << 32
_TOPIC_ID_BYTES = 16
_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_SHOWN_CHARACTERS_MAX = 60

_Positive = Annotated[int, msgspec.Meta(ge=1)]


class TopicRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A topic in a snapshot. Its partitions are runs (first, count), mostly just one."""

    name: str
    topic_id: TopicId
    created_ms: int
    configs: dict[str, str]
    runs: Annotated[list[tuple[_Positive, _Positive]], msgspec.Meta(min_length=1)]

    def partition_count(self) -> int:
        """How many partitions the runs come to, before they are written out."""
        return sum(count for _, count in self.runs)


class TopicTable:
    """Every topic, and the counter that gives partitions their numbers."""

    __slots__ = ("_by_id", "_by_name", "_by_spelling", "_owners", "next_partition", "size_bytes")

    def __init__(self, next_partition: int = FIRST_PARTITION) -> None:
        self.next_partition = next_partition
        self.size_bytes = 0
        """Of all topics, as state counts: see `machines.state_bytes`."""
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._by_spelling: dict[str, str] = {}
        self._owners: dict[PartitionId, TopicId] = {}

    # Finding.

    @property
    def by_name(self) -> Mapping[str, Topic]:
        """Every topic, in no order."""
        return self._by_name

    @property
    def by_id(self) -> Mapping[TopicId, Topic]:
        """The same by id."""
        return self._by_id

    @property
    def partition_count(self) -> int:
        """Of all topics together."""
        return len(self._owners)

    def owner(self, partition: PartitionId) -> tuple[Topic, int] | None:
        """The topic that a partition belongs to, and its index there."""
        topic_id = self._owners.get(partition)
        if topic_id is None:
            return None
        topic = self._by_id[topic_id]
        return topic, bisect_left(topic.partitions, partition)

    # Refusing.

    def check_create(self, command: CreateTopic) -> None:
        """Refuse a topic that cannot be made."""
        name, topic_id = command.name, command.topic_id
        check_topic_name(name)
        if name in self._by_name:
            raise TopicExists(f"topic {name} exists already")
        rival = self._by_spelling.get(_spelling(name))
        if rival is not None:
            raise InvalidTopicName(
                f"topic {name} differs from topic {rival} in '.' and '_' only, which metrics"
                " cannot tell apart; choose another name"
            )
        if len(topic_id) != _TOPIC_ID_BYTES or topic_id == NO_TOPIC_ID or topic_id in self._by_id:
            raise InvalidRequest(
                f"a new topic cannot have the id {_hex(topic_id)}; draw {_TOPIC_ID_BYTES} bytes"
            )
        if not 1 <= command.partitions <= TOPIC_PARTITIONS_MAX:
            raise InvalidPartitions(
                f"topic {name} cannot have {command.partitions} partitions; choose from 1 to"
                f" {TOPIC_PARTITIONS_MAX}"
            )
        _check_configs(name, command.configs)
        if len(self._by_name) >= TOPICS_MAX:
            raise CatalogFull(f"there are {TOPICS_MAX} topics, the most there may be; delete some")
        self._check_room_for_partitions(command.partitions)

    def check_delete(self, name: str, topic_id: TopicId) -> None:
        """Refuse what is not there, or is another topic than the one that is meant."""
        topic = self.known(name)
        if topic_id not in (NO_TOPIC_ID, topic.topic_id):
            raise UnknownTopicId(
                f"topic {name} has the id {_hex(topic.topic_id)}, not {_hex(topic_id)}: it was"
                " deleted and made again"
            )

    def check_grow(self, name: str, total: int) -> None:
        """Refuse a number of partitions that a topic cannot go to."""
        count = len(self.known(name).partitions)
        if total <= count:
            raise InvalidPartitions(
                f"topic {name} has {count} partitions and cannot go to {total}: partitions are"
                " only added"
            )
        if total > TOPIC_PARTITIONS_MAX:
            raise InvalidPartitions(
                f"topic {name} cannot have {total} partitions; {TOPIC_PARTITIONS_MAX} at most"
            )
        self._check_room_for_partitions(total - count)

    def check_configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Refuse configs that are unknown or that the topic cannot have together."""
        topic = self.known(name)
        check_topic_config_names(changes)
        _check_configs(name, _merge(topic.configs, changes))

    def growth(self, command: CreateTopic | AddPartitions | ConfigureTopic) -> int:
        """By how many bytes a command would make the table larger."""
        if isinstance(command, CreateTopic):
            return _size_of(command.name, command.partitions, command.configs)
        topic = self._by_name.get(command.name)
        if topic is None:
            return 0
        if isinstance(command, AddPartitions):
            return PARTITION_BYTES * (command.total - len(topic.partitions))
        return configs_bytes(_merge(topic.configs, command.changes)) - configs_bytes(topic.configs)

    def known(self, name: str) -> Topic:
        """A topic by its name, or `UnknownTopic`."""
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name[:TOPIC_NAME_CHARACTERS_MAX]!r}")
        return topic

    def _check_room_for_partitions(self, count: int) -> None:
        if len(self._owners) + count > PARTITIONS_MAX:
            raise CatalogFull(
                f"there are {len(self._owners)} partitions, and {PARTITIONS_MAX} at most: no room"
                f" for {count} more; delete topics"
            )
        if self.next_partition + count > _PARTITION_IDS:
            raise CatalogFull(
                f"the ids of partitions are used up to {self.next_partition}, too few are left for"
                f" {count} more; move to a new cluster"
            )

    # Changing.

    def create(self, command: CreateTopic) -> Topic:
        """Make a topic, of the age of its command."""
        topic = Topic(
            command.name,
            command.topic_id,
            _run(self.next_partition, command.partitions),
            dict(sorted(command.configs.items())),
            command.stamp_ms,
        )
        self.next_partition += command.partitions
        return self._put(topic, new=topic.partitions)

    def delete(self, name: str) -> Topic:
        """Forget a topic; returns what it was."""
        topic = self._by_name.pop(name)
        self.size_bytes -= _topic_bytes(topic)
        del self._by_id[topic.topic_id]
        del self._by_spelling[_spelling(name)]
        for partition in topic.partitions:
            del self._owners[partition]
        return topic

    def grow(self, name: str, total: int) -> Topic:
        """Add partitions until there are `total`."""
        topic = self._by_name[name]
        count = total - len(topic.partitions)
        new = _run(self.next_partition, count)
        self.next_partition += count
        grown = msgspec.structs.replace(topic, partitions=topic.partitions + new)
        return self._put(grown, new=new)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> Topic:
        """Set configs, or reset them; returns the same object if nothing is different."""
        topic = self._by_name[name]
        configs = _merge(topic.configs, changes)
        if configs == topic.configs:
            return topic
        return self._put(msgspec.structs.replace(topic, configs=configs))

    def _put(self, topic: Topic, *, new: Iterable[PartitionId] = ()) -> Topic:
        before = self._by_name.get(topic.name)
        self.size_bytes += _topic_bytes(topic) - (0 if before is None else _topic_bytes(before))
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_spelling[_spelling(topic.name)] = topic.name
        self._owners.update(dict.fromkeys(new, topic.topic_id))
        return topic

    # Snapshots.

    def in_order(self) -> list[Topic]:
        """Every topic, by name: for a snapshot."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def restore(self, rows: Iterable[TopicRow]) -> None:
        """Fill a new table."""
        assert not self._by_name, f"{len(self._by_name)} topics are there already"
        for row in rows:
            partitions = tuple(chain.from_iterable(_run(*run) for run in row.runs))
            topic = Topic(row.name, row.topic_id, partitions, row.configs, row.created_ms)
            self._put(topic, new=partitions)


def configs_bytes(configs: Mapping[str, str]) -> int:
    """What configs count for."""
    return CONFIG_BYTES * len(configs) + text_bytes(*configs, *configs.values())


def _size_of(name: str, partitions: int, configs: Mapping[str, str]) -> int:
    return TOPIC_BYTES + text_bytes(name) + PARTITION_BYTES * partitions + configs_bytes(configs)


def _topic_bytes(topic: Topic) -> int:
    return _size_of(topic.name, len(topic.partitions), topic.configs)


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic may have, by Kafka's rules."""
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopicName(
            f"a topic's name of {len(name)} characters; {TOPIC_NAME_CHARACTERS_MAX} at most"
        )
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidTopicName(
            f"{name!r} cannot be a topic's name; use letters of ASCII, digits, '.', '_' and '-',"
            " and not just '.' or '..'"
        )


def _check_configs(name: str, configs: Mapping[str, str]) -> None:
    dead_letters = parse_topic_configs(configs).queue.dead_letter_topic
    if dead_letters == name:
        raise InvalidConfig(
            f"topic config queue.dead.letter.topic cannot be {name}: a topic's dead letters go to"
            " another topic"
        )
    if dead_letters:
        check_topic_name(dead_letters)


def _spelling(name: str) -> str:
    """The same for names that metrics would mix up."""
    return name.replace(".", "_")


def _merge(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged: dict[str, str | None] = {**configs, **changes}
    return {name: value for name, value in sorted(merged.items()) if value is not None}


def _hex(topic_id: TopicId) -> str:
    return topic_id[:_SHOWN_CHARACTERS_MAX].hex() or "of no bytes"


def _run(first: int, count: int) -> tuple[PartitionId, ...]:
    # Calling `PartitionId` for each would take most of the time that a snapshot takes.
    return cast(tuple[PartitionId, ...], tuple(range(first, first + count)))


def topic_row(topic: Topic) -> TopicRow:
    """A topic as it stands in a snapshot."""
    partitions = topic.partitions
    first, count = int(partitions[0]), len(partitions)
    if partitions[-1] - first + 1 == count:
        runs = [(first, count)]  # Ids ascend, so nothing is missing in between.
    else:
        runs = _runs(partitions)
    return TopicRow(topic.name, topic.topic_id, topic.created_ms, topic.configs, runs)


def _runs(partitions: tuple[PartitionId, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    first = following = int(partitions[0])
    for partition in partitions:
        if partition != following:
            runs.append((first, following - first))
            first = partition
        following = partition + 1
    runs.append((first, following - first))
    return runs
