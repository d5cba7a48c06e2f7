"""The catalog's table of groups that have configs of their own.

A group need not exist to be configured, and most are never configured: a line is made with the
first config and goes with the last.

Methods that begin with `check` refuse; the others do what has been checked.
"""

from collections.abc import Mapping

from penstock.core.errors import CatalogFull, InvalidGroup
from penstock.core.group_configs import (
    DEFAULT_GROUP_SETTINGS,
    GroupSettings,
    check_group_config_names,
    parse_group_configs,
)
from penstock.core.limits import CONFIGURED_GROUPS_MAX, GROUP_NAME_BYTES_MAX


class GroupConfigTable:
    """Configs by group."""

    __slots__ = ("_configs", "_settings")

    def __init__(self, configs: Mapping[str, dict[str, str]] | None = None) -> None:
        self._configs = dict(configs or {})
        self._settings = {group: parse_group_configs(one) for group, one in self._configs.items()}

    @property
    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set, sorted by name, of every group on which anything is."""
        return self._configs

    def settings(self, group: str) -> GroupSettings:
        """What a group's configs come to."""
        return self._settings.get(group, DEFAULT_GROUP_SETTINGS)

    def check_configure(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Refuse configs that are unknown or wrong, and a group that cannot have any."""
        if not group or len(group.encode(errors="surrogatepass")) > GROUP_NAME_BYTES_MAX:
            raise InvalidGroup(f"a group needs a name of 1 to {GROUP_NAME_BYTES_MAX} bytes")
        check_group_config_names(changes)
        parse_group_configs(self._merge(group, changes))
        if group not in self._configs and len(self._configs) >= CONFIGURED_GROUPS_MAX:
            raise CatalogFull(
                f"{CONFIGURED_GROUPS_MAX} groups have configs, the most that may; take some back"
            )

    def configure(self, group: str, changes: Mapping[str, str | None]) -> bool:
        """Set configs, or reset them; False if nothing is different."""
        configs = self._merge(group, changes)
        if configs == self._configs.get(group, {}):
            return False
        if configs:
            self._configs[group] = configs
            self._settings[group] = parse_group_configs(configs)
        else:
            del self._configs[group], self._settings[group]
        return True

    def _merge(self, group: str, changes: Mapping[str, str | None]) -> dict[str, str]:
        merged: dict[str, str | None] = {**self._configs.get(group, {}), **changes}
        return {name: value for name, value in sorted(merged.items()) if value is not None}
