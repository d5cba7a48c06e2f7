"""What the nodes of a cluster know and clients do not: random bytes, by name.

A handle that a client must not be able to make up is signed with one of these. Every node draws
bytes when it misses them; the first that get into the catalog are the ones that count for all.
"""

from collections.abc import Mapping

from penstock.core.errors import CatalogFull, InvalidRequest
from penstock.core.limits import SECRET_BYTES_MAX, SECRET_NAME_CHARACTERS_MAX, SECRETS_MAX

RECEIPTS = "receipts"
"""Signs the receipts of leased messages."""
SECRET_BYTES_MIN = 16


class Secrets:
    """Every secret of the cluster. None is ever changed or forgotten."""

    __slots__ = ("_by_name",)

    def __init__(self, secrets: Mapping[str, bytes] | None = None) -> None:
        self._by_name = dict(secrets or {})

    @property
    def by_name(self) -> Mapping[str, bytes]:
        """Never to be shown."""
        return self._by_name

    def check_keep(self, name: str, secret: bytes) -> None:
        """Refuse what cannot be a secret."""
        if not 1 <= len(name) <= SECRET_NAME_CHARACTERS_MAX:
            raise InvalidRequest(
                f"a secret needs a name of 1 to {SECRET_NAME_CHARACTERS_MAX} characters"
            )
        if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
            raise InvalidRequest(
                f"secret {name} has {len(secret)} bytes; draw {SECRET_BYTES_MIN} to"
                f" {SECRET_BYTES_MAX}"
            )
        if name not in self._by_name and len(self._by_name) >= SECRETS_MAX:
            raise CatalogFull(f"there are {SECRETS_MAX} secrets, the most there may be")

    def keep(self, name: str, secret: bytes) -> bool:
        """Keep a secret unless there is one of this name; False if there is."""
        return self._by_name.setdefault(name, secret) is secret
