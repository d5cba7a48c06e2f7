"""The catalog's table of groups that have configs of their own.

A group has configs that count on every topic it reads, and a work group of one topic may have
others for that topic (see `core.work_settings`). A group need not exist to be configured, and most
are never configured: a line is made with the first config and goes with the last. Those of a topic
go with the topic.

Methods that begin with `check` refuse; the others do what has been checked.
"""

from collections.abc import Iterable, Mapping

from penstock.core.configs import check_config_names
from penstock.core.errors import CatalogFull, InvalidConfig, InvalidGroup
from penstock.core.group_configs import (
    DEFAULT_GROUP_SETTINGS,
    GroupSettings,
    check_group_config_names,
    parse_group_configs,
)
from penstock.core.limits import CONFIGURED_GROUPS_MAX, GROUP_NAME_BYTES_MAX
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import TopicId
from penstock.core.work_settings import (
    NO_OVERRIDES,
    WORK_CONFIGS,
    WorkOverrides,
    parse_work_configs,
)
from penstock.machines.state_bytes import text_bytes
from penstock.machines.topics import check_topic_name, configs_bytes

GROUP_BYTES = 32
"""Of a group's line in a snapshot, at most, without its name and its configs."""

WorkGroupKey = tuple[TopicId, str]
WorkGroupRow = tuple[TopicId, str, dict[str, str]]


class GroupConfigTable:
    """Configs by group, and by topic and group."""

    __slots__ = ("_configs", "_overrides", "_settings", "_work_configs", "size_bytes")

    def __init__(
        self,
        configs: Mapping[str, dict[str, str]] | None = None,
        work_configs: Iterable[WorkGroupRow] = (),
    ) -> None:
        self._configs = dict(configs or {})
        self._settings = {group: parse_group_configs(one) for group, one in self._configs.items()}
        self._work_configs: dict[WorkGroupKey, dict[str, str]] = {
            (topic, group): one for topic, group, one in work_configs
        }
        self._overrides: dict[WorkGroupKey, WorkOverrides] = {
            key: parse_work_configs(one) for key, one in self._work_configs.items()
        }
        self.size_bytes = sum(_line_bytes(group, one) for group, one in self._configs.items())
        """Of all lines, as state counts: see `machines.state_bytes`."""
        for (_, group), one in self._work_configs.items():
            self.size_bytes += _line_bytes(group, one)

    @property
    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set, sorted by name, of every group on which anything is."""
        return self._configs

    def settings(self, group: str) -> GroupSettings:
        """What a group's configs come to."""
        return self._settings.get(group, DEFAULT_GROUP_SETTINGS)

    def work_configs(self, topic: TopicId, group: str) -> Mapping[str, str]:
        """What was set on a work group of one topic."""
        return self._work_configs.get((topic, group), {})

    def overrides(self, topic: TopicId, group: str) -> WorkOverrides:
        """What the configs of a work group of one topic come to."""
        return self._overrides.get((topic, group), NO_OVERRIDES)

    def check_configure(
        self, group: str, changes: Mapping[str, str | None], *, first_version: bool = False
    ) -> None:
        """Refuse configs that are unknown or wrong, and a group that cannot have any."""
        _check_name(group)
        check_group_config_names(changes, first_version=first_version)
        if group == DEFAULT_WORK_GROUP and any(name in WORK_CONFIGS for name in changes):
            raise _own_settings(group)
        merged = _merge(self._configs.get(group, {}), changes)
        parse_group_configs(merged)
        _check_dead_letter_topic(merged)
        if group not in self._configs:
            _check_room(len(self._configs))

    def check_configure_work(
        self, topic: Topic, group: str, changes: Mapping[str, str | None]
    ) -> None:
        """The same for a work group of one topic."""
        _check_name(group)
        if group == DEFAULT_WORK_GROUP:
            raise _own_settings(group)
        check_config_names(WORK_CONFIGS, changes, "work group setting")
        merged = _merge(self.work_configs(topic.topic_id, group), changes)
        parse_work_configs(merged)
        _check_dead_letter_topic(merged, topic.name)
        if (topic.topic_id, group) not in self._work_configs:
            _check_room(len(self._work_configs))

    def growth(self, topic: TopicId | None, group: str, changes: Mapping[str, str | None]) -> int:
        """By how many bytes a change would make the table larger; without a topic, one of a group
        on all topics."""
        before = self.configs.get(group, {}) if topic is None else self.work_configs(topic, group)
        return _line_bytes(group, _merge(before, changes)) - _line_bytes(group, before)

    def configure(self, group: str, changes: Mapping[str, str | None]) -> bool:
        """Set configs, or reset them; False if nothing is different."""
        configs = _merge(self._configs.get(group, {}), changes)
        if configs == self._configs.get(group, {}):
            return False
        self.size_bytes += self.growth(None, group, changes)
        if configs:
            self._configs[group] = configs
            self._settings[group] = parse_group_configs(configs)
        else:
            del self._configs[group], self._settings[group]
        return True

    def configure_work(self, topic: TopicId, group: str, changes: Mapping[str, str | None]) -> bool:
        """The same for a work group of one topic."""
        key = topic, group
        configs = _merge(self._work_configs.get(key, {}), changes)
        if configs == self._work_configs.get(key, {}):
            return False
        self.size_bytes += self.growth(topic, group, changes)
        if configs:
            self._work_configs[key] = configs
            self._overrides[key] = parse_work_configs(configs)
        else:
            del self._work_configs[key], self._overrides[key]
        return True

    def forget_topic(self, topic: TopicId) -> None:
        """The topic was deleted."""
        for key in [key for key in self._work_configs if key[0] == topic]:
            self.size_bytes -= _line_bytes(key[1], self._work_configs[key])
            del self._work_configs[key], self._overrides[key]

    def work_rows(self) -> list[WorkGroupRow]:
        """What was set on work groups of topics, sorted."""
        return [(topic, group, one) for (topic, group), one in sorted(self._work_configs.items())]


def _line_bytes(group: str, configs: Mapping[str, str]) -> int:
    return GROUP_BYTES + text_bytes(group) + configs_bytes(configs) if configs else 0


def _merge(configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged: dict[str, str | None] = {**configs, **changes}
    return {name: value for name, value in sorted(merged.items()) if value is not None}


def _check_name(group: str) -> None:
    if not group or len(group.encode(errors="surrogatepass")) > GROUP_NAME_BYTES_MAX:
        raise InvalidGroup(f"a group needs a name of 1 to {GROUP_NAME_BYTES_MAX} bytes")


def _check_dead_letter_topic(configs: Mapping[str, str], source: str = "") -> None:
    name = configs.get("queue.dead.letter.topic", "").strip()
    if name and name == source:
        raise InvalidConfig(
            f"queue.dead.letter.topic cannot be {name}: a topic's dead letters go to another topic"
        )
    if name:
        check_topic_name(name)


def _own_settings(group: str) -> InvalidGroup:
    return InvalidGroup(
        f"the work group {group} goes by the settings of its queue; set those instead"
    )


def _check_room(count: int) -> None:
    if count >= CONFIGURED_GROUPS_MAX:
        raise CatalogFull(
            f"{CONFIGURED_GROUPS_MAX} groups have configs, the most that may; take some back"
        )
