"""Where the installed command line is; programs of an earlier version can import this, too."""

import sys
from pathlib import Path


def penstock_command() -> str:
    """The `penstock` of this environment."""
    return str(Path(sys.executable).parent / "penstock")
