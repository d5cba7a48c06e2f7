"""`machines.secrets`: the first one of a name counts for everybody, for ever."""

import pytest

from penstock.core.errors import CatalogFull, InvalidRequest
from penstock.core.limits import SECRET_BYTES_MAX
from penstock.machines import KeepSecret, SecretKept, secrets
from tests.unit.machines.cluster import Cluster

FIRST, SECOND = b"1" * 32, b"2" * 32


def test_the_first_one_counts() -> None:
    cluster = Cluster()
    assert cluster.do(KeepSecret(name="s", secret=FIRST)) == SecretKept("s", FIRST)
    assert cluster.do(KeepSecret(name="s", secret=SECOND)) == SecretKept("s", FIRST)
    assert cluster.catalog.secrets == {"s": FIRST}
    assert cluster.catalog.revision == 1
    assert "1111" not in repr(SecretKept("s", FIRST))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("", FIRST),
        ("n" * 101, FIRST),
        ("s", b"short"),
        ("s", b"x" * (SECRET_BYTES_MAX + 1)),
    ],
)
def test_what_is_no_secret_is_refused(name: str, secret: bytes) -> None:
    with pytest.raises(InvalidRequest, match="secret"):
        Cluster().do(KeepSecret(name=name, secret=secret))


def test_there_is_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "SECRETS_MAX", 1)
    cluster = Cluster()
    cluster.do(KeepSecret(name="s", secret=FIRST))
    with pytest.raises(CatalogFull, match="secrets"):
        cluster.do(KeepSecret(name="t", secret=FIRST))
    assert cluster.do(KeepSecret(name="s", secret=SECOND)) == SecretKept("s", FIRST)
