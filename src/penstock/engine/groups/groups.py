"""Consumer groups and share groups of the shards that this node leads.

A group lives in the shard that its name hashes to; the leader of that shard is its coordinator
(Kafka's group coordinator). Elsewhere these calls raise `NotCoordinator`, which names the node to
ask. The configs of a group are in the catalog, which every node has a copy of.
"""

from collections.abc import Mapping

from penstock.core.clock import Clock
from penstock.core.errors import InvalidGroup, NotCoordinator, NotLeader
from penstock.core.types import ShardId, Term
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.groups.share_groups import ShareGroups
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import GroupConfigured
from penstock.machines.catalog_commands import ConfigureGroup


class Groups:
    """All groups that this node may be asked about."""

    def __init__(
        self, topics: Topics, shards: LocalShards, clock: Clock, settings: GroupSettings
    ) -> None:
        self.settings = settings
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
        self._topics.catalog.check(command)
        if validate_only:
            return self.group_configs(group)
        reply = await self._topics.change_catalog(command)
        assert isinstance(reply, GroupConfigured), f"{command} was answered with {reply}"
        await self._topics.wait_seen(lambda: self.group_configs(group) == reply.configs)
        return reply.configs
