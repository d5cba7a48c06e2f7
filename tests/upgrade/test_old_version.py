"""The old version is the old version, wherever the present one is installed."""

import pytest

from tests.upgrade import old_version as module
from tests.upgrade.old_version import missing, old_version

pytestmark = pytest.mark.slow
WHERE = "import penstock; print(penstock.__file__)"


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_programs_run_with_its_own_package() -> None:
    old = old_version()
    assert old.run_code(WHERE).startswith(str(old.source))
    # A module that it has, and the present one has not.
    assert old.run_code("import penstock.engine.led_queues as it; print(it.__name__)").strip()
    assert old.build().environment["PYTHONPATH"].startswith(str(old.source))


def test_a_clone_without_the_commit_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT", "0" * 40)
    missing.cache_clear()
    try:
        why = missing()
    finally:
        missing.cache_clear()
    assert why is not None
    assert "git fetch --unshallow" in why
