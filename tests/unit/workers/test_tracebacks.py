"""Tracebacks begin with the user's own frame."""

import asyncio
import traceback
from pathlib import Path

import pytest

import penstock
from penstock.core.errors import InvalidRequest, LocalError
from penstock.workers.app_loader import load_app
from penstock.workers.tracebacks import users_place, users_traceback


async def fails() -> None:
    penstock.App("memory:").worker([])(fails)


def test_what_called_the_users_function_is_left_out() -> None:
    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(fails())
    here = caught.value.__traceback__
    assert here is not None
    error = caught.value.with_traceback(here.tb_next)  # Without the frame of this test.
    assert traceback.extract_tb(error.__traceback__)[0].filename == asyncio.runners.__file__
    frames = traceback.extract_tb(users_traceback(error))
    assert (frames[0].filename, frames[0].name) == (__file__, "fails")
    assert "penstock" in frames[-1].filename
    assert users_place(error).startswith(f"{__file__}:")


def test_without_a_frame_of_the_users_all_of_it_stays() -> None:
    bare = ValueError("no frames")
    assert users_traceback(bare) is None
    assert users_place(bare) == ""


def test_a_mistake_in_a_declaration_is_reported_at_the_users_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = 'import penstock\n\napp = penstock.App("memory:")\n\n\n@app.cron("61 * * * *")\n'
    (tmp_path / "mistaken_cron.py").write_text(text + "async def often() -> None: ...\n")
    with pytest.raises(LocalError, match=r"mistaken_cron\.py:6\)"):
        load_app("mistaken_cron", directory=tmp_path)


def test_a_file_name_is_taken_for_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "typed_as_file.py").write_text('import penstock\napp = penstock.App("memory:")\n')
    assert load_app("typed_as_file.py", directory=tmp_path).url == "memory:"
