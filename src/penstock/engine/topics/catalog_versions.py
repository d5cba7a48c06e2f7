"""Versions of the catalog: a new one is used from the first command that needs it.

What replicas of the catalog decide belongs to its version (see `machines.catalog`), so a command of
a new version may be written only when every node of the cluster knows that version. It is not
written before it is needed: until then a node can go back to the release before.

    a command needs version 2 ── every node is asked what it knows ── `UseCatalogVersion` ── command

A node of release 0.1 does not know the question and refuses it; a node that is down cannot answer.
In both cases the command is refused, and the refusal names the node.
"""

from collections.abc import Awaitable, Callable
from types import NoneType

from penstock.core.errors import InvalidRequest, PenstockError, Unavailable, UnsupportedVersion
from penstock.core.types import NodeId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.machines.catalog import CATALOG_NEWEST_VERSION, Catalog
from penstock.machines.catalog_commands import CatalogCommand, UseCatalogVersion
from penstock.machines.machine import Reply

CATALOG_VERSION = RemoteCall("catalog_version", NoneType, int)


class CatalogVersions:
    """For one node. `catalog` is its copy, and `wait_seen` waits until that shows a change."""

    def __init__(
        self,
        node: NodeId,
        calls: RemoteCalls,
        *,
        catalog: Callable[[], Catalog],
        change: Callable[[CatalogCommand], Awaitable[Reply]],
        wait_seen: Callable[[Callable[[], bool]], Awaitable[None]],
    ) -> None:
        self._node = node
        self._calls = calls
        self._catalog = catalog
        self._change = change
        self._wait_seen = wait_seen

    async def require(self, version: int, *, dry_run: bool = False) -> None:
        """Return when the catalog uses this version or a newer one; a dry run only finds out
        whether it could."""
        catalog = self._catalog()
        if catalog.version >= version:
            return
        for node in sorted(catalog.nodes):
            if node != self._node:
                await self._check_node(node, version)
        if not dry_run:
            await self._change(UseCatalogVersion(version=version))
            await self._wait_seen(lambda: self._catalog().version >= version)

    async def newest_here(self, _request: None) -> int:
        """The newest version that this node knows."""
        return CATALOG_NEWEST_VERSION

    async def _check_node(self, node: NodeId, version: int) -> None:
        try:
            known = await self._calls.ask_node(node, CATALOG_VERSION, None)
        except InvalidRequest:
            known = 1  # A node of release 0.1 does not know the question.
        except PenstockError as error:
            raise Unavailable(
                f"node {node} cannot be asked whether it knows version {version} of the catalog:"
                f" {error}"
            ) from error
        if known < version:
            raise UnsupportedVersion(
                f"node {node} runs an older version of Penstock, which does not know this"
                " setting: upgrade it first"
            )
