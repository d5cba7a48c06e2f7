"""Consumer groups and share groups of the shards that this node leads.

A group lives in the shard that its name hashes to; the leader of that shard is its coordinator
(Kafka's group coordinator). Elsewhere these calls raise `NotCoordinator`, which names the node to
ask. The configs of a group are in the catalog, which every node has a copy of.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.core.clock import Clock
from penstock.core.configs import check_config_names
from penstock.core.errors import InvalidGroup, NotCoordinator, NotLeader
from penstock.core.group_configs import (
    FIRST_GROUP_CONFIGS,
    check_group_config_names,
    parse_group_configs,
)
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import ShardId, Term
from penstock.core.work_settings import SHARE_NAMES, WORK_CONFIGS, work_configs
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.groups.share_groups import ShareGroups
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.catalog_versions import CatalogVersions
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import (
    WORK_GROUP_CONFIGS_VERSION,
    GroupConfigured,
    WorkGroupConfigured,
)
from penstock.machines.catalog_commands import ConfigureGroup, ConfigureWorkGroup


class WorkSetting(NamedTuple):
    """The value in force, and where it was set."""

    value: str
    source: str
    """own: set for the work group of this topic; group: set for the group on all topics; queue:
    inherited from the queue; default: Kafka's, on a topic that is no queue."""


class Groups:
    """All groups that this node may be asked about."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        clock: Clock,
        settings: GroupSettings,
        versions: CatalogVersions,
    ) -> None:
        self.settings = settings
        self._versions = versions
        self.coordinators: dict[ShardId, Coordinator] = {}
        self.share = ShareGroups(clock, lambda: topics.catalog, self._group_term)
        self._topics = topics
        self._shards = shards

    def coordinator(self, group: str) -> Coordinator:
        """The coordinator of a group, if this node is it; `NotCoordinator` names the right node."""
        if not group:
            raise InvalidGroup("a consumer group needs a name")
        shard = self._topics.group_shard(group)
        running = self._shards.get(shard)
        if running is None or not running.replica.leads:
            raise NotCoordinator(
                f"this node does not lead shard {shard}", leader=self._topics.leader(shard).node
            )
        return self.coordinators[shard]

    def _group_term(self, group: str) -> Term:
        """The term in which this node coordinates a group; `NotCoordinator` if it does not."""
        self.coordinator(group)
        return self._topics.leader(self._topics.group_shard(group)).term

    async def confirm_group(self, group: str) -> None:
        """Return when this node is certain to be the coordinator and to know all committed offsets.
        A leader that was replaced without noticing would answer with old ones (a stale read)."""
        running = self._shards.get(self._topics.group_shard(group))
        if running is None:
            raise NotCoordinator("this node does not coordinate the group")
        try:
            await running.wait_current()
        except NotLeader as error:
            raise NotCoordinator(str(error), leader=error.leader) from error

    def led_coordinators(self) -> list[Coordinator]:
        """The coordinators of the shards that this node leads."""
        return [
            coordinator
            for shard, coordinator in sorted(self.coordinators.items())
            if (running := self._shards.get(shard)) is not None and running.replica.leads
        ]

    def group_configs(self, group: str) -> Mapping[str, str]:
        """The configs that are set on a group; empty for most."""
        return self._topics.catalog.group_configs.get(group, {})

    async def configure_group(
        self, group: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Mapping[str, str]:
        """Change the configs of a group; None resets one to its default. Returns what is set once
        this node's copy of the catalog shows it."""
        command = ConfigureGroup(group=group, changes=dict(changes))
        check_group_config_names(changes)
        if any(name not in FIRST_GROUP_CONFIGS for name in changes):
            await self._versions.require(WORK_GROUP_CONFIGS_VERSION, dry_run=validate_only)
        catalog = self._topics.catalog
        if not validate_only or catalog.version >= WORK_GROUP_CONFIGS_VERSION:
            catalog.check(command)
        if validate_only:
            merged = {**self.group_configs(group), **changes}
            parse_group_configs({name: one for name, one in merged.items() if one is not None})
            return self.group_configs(group)
        reply = await self._topics.change_catalog(command)
        assert isinstance(reply, GroupConfigured), f"{command} was answered with {reply}"
        await self._topics.wait_seen(lambda: self.group_configs(group) == reply.configs)
        await self._topics.write_work_rules(list(catalog.topics.values()))
        return reply.configs

    # Work groups of one topic.

    def work_configs(self, topic: Topic, group: str) -> Mapping[str, str]:
        """The configs of a work group on one topic; empty for most."""
        return self._topics.catalog.work_configs(topic, group)

    def work_settings(self, topic: Topic, group: str) -> dict[str, WorkSetting]:
        """Every setting of a work group by name, and where its value comes from."""
        catalog = self._topics.catalog
        values = work_configs(catalog.work_settings(topic, group))
        own, for_all = catalog.work_configs(topic, group), self.group_configs(group)
        shared = {ours: for_all[name] for name, ours in SHARE_NAMES.items() if name in for_all}
        is_default = group == DEFAULT_WORK_GROUP

        def source(name: str) -> str:
            if is_default:
                return "queue"
            if name in own:
                return "own"
            if name in for_all or name in shared:
                return "group"
            return "queue" if topic.settings.queue.is_queue else "default"

        return {name: WorkSetting(value, source(name)) for name, value in values.items()}

    async def configure_work_group(
        self, topic: Topic, group: str, changes: Mapping[str, str | None]
    ) -> Mapping[str, str]:
        """Change the settings of a work group of one topic; None lets it inherit one again. Those
        of the default work group are the queue's."""
        if group == DEFAULT_WORK_GROUP:
            check_config_names(WORK_CONFIGS, changes, "work group setting")
            configs = (await self._topics.configure_topic(topic.name, changes)).configs
            return {name: value for name, value in configs.items() if name in WORK_CONFIGS}
        await self._versions.require(WORK_GROUP_CONFIGS_VERSION)
        command = ConfigureWorkGroup(topic=topic.name, group=group, changes=dict(changes))
        self._topics.catalog.check(command)
        reply = await self._topics.change_catalog(command)
        assert isinstance(reply, WorkGroupConfigured), f"{command} was answered with {reply}"
        await self._topics.wait_seen(lambda: self.work_configs(topic, group) == reply.configs)
        await self._topics.write_work_rules([topic])
        return reply.configs
