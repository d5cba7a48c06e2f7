"""`machines.group_configs`: configs of groups are set, reset and bounded."""

import pytest

from penstock.core.errors import CatalogFull, InvalidConfig, InvalidGroup
from penstock.core.group_configs import DEFAULT_GROUP_SETTINGS
from penstock.core.limits import GROUP_NAME_BYTES_MAX
from penstock.machines import ConfigureGroup, GroupConfigured, group_configs
from tests.unit.machines.cluster import Cluster

LIMIT, LEASE = "share.delivery.count.limit", "share.record.lock.duration.ms"


def configure(cluster: Cluster, group: str, **changes: str | None) -> dict[str, str]:
    """`limit="7"` sets the limit of deliveries, `lease` how long a lease lasts."""
    names = {"limit": LIMIT, "lease": LEASE}
    wanted = {names.get(name, name): value for name, value in changes.items()}
    reply = cluster.do(ConfigureGroup(group=group, changes=wanted))
    assert isinstance(reply, GroupConfigured)
    assert reply.group == group
    return reply.configs


def test_configs_are_set_and_reset_one_by_one() -> None:
    cluster = Cluster()
    catalog = cluster.catalog
    assert catalog.group_settings("g") is DEFAULT_GROUP_SETTINGS
    assert configure(cluster, "g", lease="1000") == {LEASE: "1000"}
    assert list(configure(cluster, "g", limit="7").items()) == [(LIMIT, "7"), (LEASE, "1000")]
    assert catalog.group_configs == {"g": {LIMIT: "7", LEASE: "1000"}}
    rules = catalog.group_settings("g").work_rules
    assert (rules.deliveries_max, rules.lease_ms) == (7, 1_000)
    assert catalog.revision == 2
    assert configure(cluster, "g", limit="7") == {LIMIT: "7", LEASE: "1000"}
    assert catalog.revision == 2, "nothing has changed"
    assert configure(cluster, "g", limit=None, lease=None) == {}
    assert catalog.group_configs == {}
    assert catalog.group_settings("g") is DEFAULT_GROUP_SETTINGS
    assert configure(cluster, "other", limit=None) == {}
    assert catalog.revision == 3


def test_what_cannot_be_is_refused() -> None:
    cluster = Cluster()
    configure(cluster, "g", limit="7")
    with pytest.raises(InvalidConfig, match="no group config 'colour'"):
        configure(cluster, "g", colour=None)
    with pytest.raises(InvalidConfig, match=f"{LIMIT} cannot be 'x'"):
        configure(cluster, "g", limit="x")
    for name in ("", "g" * (GROUP_NAME_BYTES_MAX + 1)):
        with pytest.raises(InvalidGroup):
            configure(cluster, name, limit="7")


def test_there_is_room_for_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_configs, "CONFIGURED_GROUPS_MAX", 1)
    cluster = Cluster()
    configure(cluster, "g", limit="7")
    with pytest.raises(CatalogFull, match="the most that may"):
        configure(cluster, "h", limit="7")
    configure(cluster, "g", limit="8")
    configure(cluster, "g", limit=None)
    configure(cluster, "h", limit="7")
