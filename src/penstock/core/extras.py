"""The extras of the package: groups of dependencies that a client does not need.

    penstock            a client, workers, patterns, and the engine of `file:` and `memory:`
    penstock[cli]       the command line
    penstock[server]    a broker, and the command line
    penstock[mcp]       `penstock mcp`, and the command line
    penstock[otel]      spans and metrics of a client
    penstock[spark]     the source, the sink and the jobs of Spark, and the command line

A part that needs an extra checks for it before it starts to work, so that a missing package is one
sentence that names the extra instead of a traceback.
"""

import importlib.util
from collections.abc import Iterable

from penstock.core.errors import NotInstalled
from penstock.core.version import __version__

WHEEL = f"penstock-{__version__}-py3-none-any.whl"
"""The file that `make dist` builds."""


def require(extra: str, needed_by: str, packages: Iterable[str]) -> None:
    """Raise `NotInstalled` unless all `packages` can be imported."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalled(
            f"{needed_by} needs penstock[{extra}] (not installed: {', '.join(missing)}):"
            f" {how_to_install(extra)}"
        )


def how_to_install(extra: str) -> str:
    """The ways to add an extra: in a clone of the repository, or with a wheel built in one."""
    return f"make setup in a clone of the repository, or pip install '{WHEEL}[{extra}]'"
