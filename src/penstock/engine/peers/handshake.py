"""Mutual authentication of two nodes by the cluster key, before either says anything else.

    initiator                                responder

    CHALLENGE  nonce a              ──▶
                                    ◀──      RESPONSE  nonce b, MACs(responder's id)
    PROOF      hello, MAC(hello)    ──▶
                                    ◀──      CONFIRM   hello, MAC(hello)

A challenge-response protocol in the manner of ISO/IEC 9798-4 (mutual authentication by a keyed
check function). Every MAC is an HMAC-SHA256 with the cluster key over a label, both nonces and the
rest of its frame. The label names the role and the step, so that no MAC can be sent back to its
maker (reflection). The responder's first MAC covers its node id, which it does not state: the
initiator computes it with the id that it dialled, so that one node cannot answer for another. The
hellos carry the identities and are covered in turn.

The responder proves itself first. Until a MAC has been verified, an initiator has shown a nonce and
nothing else, and a responder its nonce and MACs; neither says anything about a node or a cluster.
A responder that accepts two keys makes a MAC with each; the initiator goes on with the first that
it knows as well, so the order of keys never matters.

Pure: structs in, structs out. It authenticates the start of a stream and does not encrypt it:
TLS is to do both, in place of this exchange.
"""

import hashlib
import hmac
import secrets
from typing import Annotated

import msgspec

from penstock.core.errors import InvalidFrame
from penstock.core.limits import CLUSTER_KEYS_MAX, HELLO_BYTES_MAX
from penstock.core.types import NodeId
from penstock.engine.peers.cluster_key import ClusterKeys

NONCE_BYTES = 32
MAC_BYTES = 32

_Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_Mac = Annotated[bytes, msgspec.Meta(min_length=MAC_BYTES, max_length=MAC_BYTES)]
_Hello = Annotated[bytes, msgspec.Meta(max_length=HELLO_BYTES_MAX)]

_RESPONSE = b"penstock peer 1 responder's id"
_PROOF = b"penstock peer 1 initiator's hello"
_CONFIRM = b"penstock peer 1 responder's hello"


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """Prove that you hold the cluster key."""

    nonce: _Nonce


class Response(msgspec.Struct, frozen=True, array_like=True):
    """The responder's proofs, one for each key that it accepts, and a challenge in return."""

    nonce: _Nonce
    macs: Annotated[tuple[_Mac, ...], msgspec.Meta(max_length=CLUSTER_KEYS_MAX)]


class ProvenHello(msgspec.Struct, frozen=True, array_like=True):
    """An encoded hello and its MAC: PROOF and CONFIRM."""

    hello: _Hello
    mac: _Mac


class Initiator:
    """The side that asks first: the one that dialled, or that has new keys."""

    def __init__(self, keys: ClusterKeys, target: NodeId) -> None:
        self._keys = keys
        self._target = target
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._nonces = b""
        self._key = b""

    def challenge(self) -> Challenge:
        """The first frame."""
        return Challenge(self._nonce)

    @property
    def has_verified(self) -> bool:
        """The other side's first proof was verified, so a CONFIRM is due."""
        return bool(self._key)

    def verify(self, response: Response) -> bool:
        """Whether the other side is the node that was dialled and holds one of our keys."""
        nonces = self._nonce + response.nonce
        for key in self._keys.keys:
            expected = _mac(key, _RESPONSE, nonces, b"%d" % self._target)
            # All are compared, so that the time does not tell which one matched.
            if sum([hmac.compare_digest(expected, mac) for mac in response.macs]):
                self._nonces, self._key = nonces, key
                return True
        return False

    def proof(self, hello: bytes) -> ProvenHello:
        """Our own proof; only after the other side's was verified."""
        if not self._key:
            raise InvalidFrame("a proof is due before the other side's was verified")
        return ProvenHello(hello, _mac(self._key, _PROOF, self._nonces, hello))

    def confirmed(self, confirm: ProvenHello) -> bytes:
        """The key by which the other side's hello is proven; raises if it is not."""
        if not self._key or not hmac.compare_digest(
            _mac(self._key, _CONFIRM, self._nonces, confirm.hello), confirm.mac
        ):
            raise InvalidFrame("a hello that is not proven by the cluster key")
        return self._key


class Responder:
    """The side that is asked."""

    def __init__(self, keys: ClusterKeys, node: NodeId, challenge: Challenge) -> None:
        self._keys = keys
        self._node = node
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._nonces = challenge.nonce + self._nonce
        self._key = b""

    def response(self) -> Response:
        """Our proofs; none if this node has no key yet."""
        about = b"%d" % self._node
        return Response(
            self._nonce,
            tuple(_mac(key, _RESPONSE, self._nonces, about) for key in self._keys.keys),
        )

    def verify(self, proof: ProvenHello) -> bytes:
        """The key by which the initiator's hello is proven; empty if it is by none."""
        found = b""
        for key in self._keys.keys:
            if hmac.compare_digest(_mac(key, _PROOF, self._nonces, proof.hello), proof.mac):
                found = key
        self._key = found
        return found

    def confirm(self, hello: bytes) -> ProvenHello:
        """Our own hello; only after the initiator's proof was verified."""
        assert self._key, "nothing was verified"
        return ProvenHello(hello, _mac(self._key, _CONFIRM, self._nonces, hello))


def _mac(key: bytes, label: bytes, nonces: bytes, content: bytes) -> bytes:
    """The nonces have a fixed length and labels are no prefixes of each other: no ambiguity."""
    return hmac.digest(key, label + nonces + content, hashlib.sha256)
