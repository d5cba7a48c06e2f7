"""The Python of one page: a process that runs its blocks one after the other, in one namespace.

    python -m tests.docs.interpreter STATUS_FD

A block comes as one JSON line on stdin; how it ended goes as one JSON line to STATUS_FD. What the
block prints goes where prints go. `await` outside a function works as in `python -m asyncio`: all
blocks share one loop, which stands still while a block runs that does not wait. Ctrl-C ends the
block that runs and never the process between two of them.
"""

import ast
import asyncio
import builtins
import inspect
import json
import linecache
import os
import signal
import sys
import traceback
import types
from typing import IO


def serve(requests: IO[str], status_fd: int) -> None:
    """Run blocks until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    page = types.ModuleType("__main__")  # Where type hints of a block's classes are looked up.
    vars(page)["__builtins__"] = builtins
    sys.modules["__main__"] = page
    sys.path.insert(0, os.getcwd())
    with asyncio.Runner() as runner:
        for line in requests:
            request = json.loads(line)
            status = _run(runner, vars(page), request["place"], request["text"])
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(status_fd, json.dumps(status).encode() + b"\n")


def _run(
    runner: asyncio.Runner, namespace: dict[str, object], place: str, text: str
) -> dict[str, str]:
    """`ended` is "well", "interrupted", or the name of the error."""
    page, _, line = place.rpartition(":")
    source = "\n" * int(line) + text  # So that a traceback names the lines of the page.
    linecache.cache[page] = (len(source), None, source.splitlines(keepends=True), page)
    try:
        program = compile(source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        outcome = types.FunctionType(program, namespace)()
        if inspect.iscoroutine(outcome):
            runner.run(outcome)
    except KeyboardInterrupt:
        return {"ended": "interrupted"}
    except BaseException as error:  # noqa: BLE001 - whatever a block raises is its result.
        traceback.print_exc()
        return {"ended": type(error).__name__}
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return {"ended": "well"}


if __name__ == "__main__":
    serve(sys.stdin, int(sys.argv[1]))
