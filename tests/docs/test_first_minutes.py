"""What the first ten minutes say where they cannot be played."""

from pathlib import Path

import pytest

from tests.browser import browsing
from tests.docs import first_minutes


def test_without_a_browser_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_minutes, "taken", list)
    monkeypatch.setattr(browsing, "find_chromium", lambda _playwright: None)
    assert first_minutes.main(tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("the dashboard cannot be tried: there is no browser here: install")
    assert list(tmp_path.iterdir()) == [], "nothing was installed for it"
