"""Tracebacks of a user's function, without the frames of what called it.

Between the loop and the function lie some frames of Penstock, and of the standard library if the
function runs in a thread. They say nothing about the mistake; who reads the log looks for their own
file. Frames below the first one of the user's stay, Penstock's as well: there the mistake may be an
argument.
"""

import asyncio
import traceback
from pathlib import Path
from types import TracebackType

_OURS = str(Path(__file__).parents[1])
_LIBRARY = str(Path(asyncio.__file__).parent.parent)
_INSTALLED = ("site-packages", "dist-packages")


def users_traceback(error: BaseException) -> TracebackType | None:
    """From the first frame of the user's on; all of it if there is none."""
    frame = error.__traceback__
    while frame is not None and not _is_users(frame.tb_frame.f_code.co_filename):
        frame = frame.tb_next
    return error.__traceback__ if frame is None else frame


def users_place(error: BaseException) -> str:
    """File and line of the user's that came last, such as `shop.py:7`; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    found = next((one for one in reversed(frames) if _is_users(one.filename)), None)
    return "" if found is None else f"{found.filename}:{found.lineno}"


def _is_users(file: str) -> bool:
    if file.startswith("<"):  # Imports, and text that was given to `exec`.
        return False
    if any(part in file for part in _INSTALLED):
        return not file.startswith(_OURS)
    return not file.startswith((_OURS, _LIBRARY))
