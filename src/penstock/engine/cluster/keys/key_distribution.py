"""Distribution of the cluster's key, and of a new one, among running members.

**A cluster of release 0.1 has no key.** Nodes of this release talk to it with bare hellos. As soon
as every member of the catalog is linked and says in its hello that it knows keys:

    the catalog's leader draws a key, if no member has one
    the member with the lowest id that has it gives it to the others that have not proven it
    links are proven by it, as they are                        (`links.prove_anew`)
    a node that has a proof of every other member requires proofs, durably, and says so
    a node that learns that from a node that is proven requires them too

No node falls back from there. Until then the cluster is as open as 0.1 was, and the key can be read
off the network; a node that is started with a key file never sends it, so on a network that cannot
be trusted, give the file to every node.

**Replacing the key** takes two rounds: every member accepts the new key besides the old one, then
the new one alone. Links prove themselves again in place; a node that has only the old key is
excluded. A round that fails half-way leaves a cluster that works, and the next attempt goes on from
there.
"""

import asyncio
from collections.abc import Callable, Coroutine
from types import NoneType
from typing import Annotated, Any

import msgspec

from penstock.core.errors import InvalidRequest, PenstockError, Unavailable
from penstock.core.limits import CLUSTER_KEY_BYTES, CLUSTER_KEYS_MAX
from penstock.core.types import NodeId
from penstock.engine.cluster.keys.key_store import Keyring
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.peers.cluster_key import ClusterKeys, draw_key, fingerprint
from penstock.engine.peers.frames import HAS_KEY, KNOWS_KEYS, REQUIRES_KEY
from penstock.engine.peers.links import Links
from penstock.engine.topics.topics import Topics

ROLLOUT_TICKS = 5

_Key = Annotated[bytes, msgspec.Meta(min_length=CLUSTER_KEY_BYTES, max_length=CLUSTER_KEY_BYTES)]


class KeyOffer(msgspec.Struct, frozen=True, array_like=True):
    """Accept these keys from now on, and no others."""

    keys: Annotated[tuple[_Key, ...], msgspec.Meta(min_length=1, max_length=CLUSTER_KEYS_MAX)]


class KeyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster key as an operator sees it."""

    required: bool
    fingerprints: tuple[str, ...]
    """Of the keys that are accepted, the newest first."""


CLUSTER_KEY = RemoteCall("cluster_key", KeyOffer, NoneType)


class KeyDistribution:
    """The key distribution of one node."""

    def __init__(
        self,
        keyring: Keyring,
        links: Links,
        calls: RemoteCalls,
        topics: Topics,
        *,
        leads_catalog: Callable[[], bool],
        on_required: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        announce: Callable[[str], None],
    ) -> None:
        self._keyring = keyring
        self._links = links
        self._calls = calls
        self._topics = topics
        self._leads_catalog = leads_catalog
        self._on_required = on_required
        self._spawn = spawn
        self._announce = announce
        self._ticks = 0
        self._giving = False
        self._rotation = asyncio.Lock()

    def status(self) -> KeyStatus:
        """The state of the key on this node."""
        keyring = self._keyring
        return KeyStatus(required=keyring.required, fingerprints=keyring.keys.fingerprints())

    # A cluster of release 0.1.

    def tick(self) -> None:
        """Take the next step towards a cluster that requires proofs."""
        self._ticks += 1
        catalog = self._topics.catalog
        if self._keyring.required or self._ticks % ROLLOUT_TICKS or not catalog.shards:
            return
        links, me = self._links, self._topics.node_id
        others = set(catalog.nodes) - {me}
        holders = links.members_saying(HAS_KEY) | ({me} if self._keyring.keys else set())
        if links.members_saying(REQUIRES_KEY, proven=True):
            self._require()
        elif not others <= links.members_saying(KNOWS_KEYS):
            return
        elif not holders:
            if self._leads_catalog():
                self._accept(ClusterKeys((draw_key(),)))
        elif me in holders and others <= links.proven():
            self._require()
        elif me == min(holders) and not self._keyring.is_given and not self._giving:
            self._giving = True
            self._spawn(self._give(others - links.proven()))

    async def _give(self, nodes: set[NodeId]) -> None:
        try:
            answers = await self._calls.ask_each(
                CLUSTER_KEY, dict.fromkeys(nodes, KeyOffer(self._keyring.keys.keys))
            )
            for node, failure in answers.failures.items():
                self._announce(f"cannot give the cluster key to node {node}: {failure}")
        finally:
            self._giving = False

    def _require(self) -> None:
        self._on_required()
        self._links.set_keys(self._keyring.keys, required=True)
        self._announce(
            "talks only to nodes that prove that they hold the cluster key from now on;"
            f" {self._keyring.path} has it"
        )

    def _accept(self, keys: ClusterKeys) -> None:
        self._keyring.keep(keys)
        self._links.set_keys(keys, required=self._keyring.required)
        self._announce(f"accepts the cluster key {' and '.join(keys.fingerprints())}")

    async def accept_here(self, offer: KeyOffer) -> None:
        """Accept keys that another member gives."""
        keys, mine = ClusterKeys(offer.keys), self._keyring.keys
        if self._keyring.required and not set(keys.keys) & set(mine.keys):
            raise InvalidRequest("a new cluster key must come together with the one it replaces")
        if keys != mine:
            self._accept(keys)

    # Another key.

    async def rotate(self) -> KeyStatus:
        """Replace the key on every member; see the top. Asked again, it finishes what was left."""
        async with self._rotation:
            if not self._keyring.required:
                raise Unavailable(
                    "the cluster does not require its key yet: first every node must run this"
                    " release, and all must be up"
                )
            keys = self._keyring.keys.keys
            new = draw_key() if len(keys) == 1 else keys[0]
            old = keys[-1]
            await self._give_all(ClusterKeys((new, old)))
            await self._give_all(ClusterKeys((new,)))
            self._announce(f"audit: the cluster key is {fingerprint(new)} now")
            return self.status()

    async def _give_all(self, keys: ClusterKeys) -> None:
        others = set(self._topics.catalog.nodes) - {self._topics.node_id}
        if missing := sorted(others - self._links.proven()):
            listed = " ".join(map(str, missing))
            raise Unavailable(
                f"node {listed} is not linked; every node must be up for a change of the cluster"
                " key. Try again, or remove the node"
            )
        if keys != self._keyring.keys:
            self._keyring.keep(self._keyring.keys)  # Refused before any node has changed anything.
        try:
            answers = await self._calls.ask_each(
                CLUSTER_KEY, dict.fromkeys(others, KeyOffer(keys.keys))
            )
        finally:
            # Others may have the new key by now: this node must understand them in any case.
            if len(keys.keys) > 1:
                self._accept(keys)
        for node, failure in sorted(answers.failures.items()):
            raise _unfinished(node, failure)
        if keys != self._keyring.keys:
            self._accept(keys)


def _unfinished(node: NodeId, failure: PenstockError) -> PenstockError:
    return Unavailable(
        f"the cluster key is not replaced yet, and both keys are good until it is: node {node}:"
        f" {failure}. Try again"
    )
