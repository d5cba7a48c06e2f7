"""The cluster key: a secret that the nodes of a cluster share, and what is computed from it.

A node proves that it holds the key with an HMAC-SHA256 over what both sides have just drawn; the
key itself never travels in a proof. Two keys may be held at once, so that one can be replaced by
another while the cluster works: two nodes that have one key in common understand each other.

A file with keys is text: one key a line, as 64 hexadecimal digits; empty lines and lines that begin
with `#` do not count. The first key is the newest. `openssl rand -hex 32` makes such a file.
"""

import hashlib
import hmac
import secrets

import msgspec

from penstock.core.errors import InvalidRequest
from penstock.core.limits import CLUSTER_KEY_BYTES, CLUSTER_KEYS_MAX

FINGERPRINT_DIGITS = 16
_HEADING = """\
# The cluster key of Penstock, the newest first. A process that has it can join the cluster:
# keep this file secret, and give every node the same.
"""


class ClusterKeys(msgspec.Struct, frozen=True):
    """The keys that a node accepts, the newest first; none if it has none."""

    keys: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys)

    def __repr__(self) -> str:  # Keys must not get into logs.
        return f"ClusterKeys({', '.join(self.fingerprints())})"

    def fingerprints(self) -> tuple[str, ...]:
        """Names of the keys for people; a key cannot be computed from them."""
        return tuple(map(fingerprint, self.keys))


def draw_key() -> bytes:
    """A new key."""
    return secrets.token_bytes(CLUSTER_KEY_BYTES)


def fingerprint(key: bytes) -> str:
    """The name of a key."""
    return hmac.digest(key, b"penstock cluster key fingerprint", hashlib.sha256).hex()[
        :FINGERPRINT_DIGITS
    ]


def format_keys(keys: ClusterKeys) -> bytes:
    """The content of a key file."""
    return _HEADING.encode() + b"".join(key.hex().encode() + b"\n" for key in keys.keys)


def parse_keys(text: bytes, name: str) -> ClusterKeys:
    """The keys of a file; refuses what is no key file, without a word of its content."""
    lines = [line.strip() for line in text.splitlines()]
    found: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith(b"#"):
            continue
        try:
            key = bytes.fromhex(line.decode("ascii"))
        except (ValueError, UnicodeDecodeError):
            key = b""
        if len(key) != CLUSTER_KEY_BYTES:
            raise InvalidRequest(
                f"line {number} of {name} is no cluster key, which has"
                f" {2 * CLUSTER_KEY_BYTES} hexadecimal digits; make one with"
                " `penstock cluster key create`"
            )
        if key not in found:
            found.append(key)
    if not 1 <= len(found) <= CLUSTER_KEYS_MAX:
        raise InvalidRequest(
            f"{name} holds {len(found)} cluster keys; there must be one, or two while the key is"
            " replaced"
        )
    return ClusterKeys(tuple(found))
