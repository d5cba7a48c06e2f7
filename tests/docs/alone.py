"""The README and the start page as a reader follows them: in order, at the addresses they name.

    python -m tests.docs.alone

Their broker listens on 127.0.0.1:9092 and :8080. So that this may run beside anything else, it does
in a network of its own where the kernel grants one (`unshare`), and at the real ports elsewhere.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ALONE, read_page, run_page
from tests.docs.run import show
from tests.docs.stage import USUAL_HTTP, USUAL_KAFKA, Failed

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_INSIDE = "--inside"
TAKEN = 75
"""The exit code when the ports are taken and there is no network of its own: EX_TEMPFAIL."""


def command() -> list[str]:
    """What runs both pages."""
    inside = [sys.executable, "-m", "tests.docs.alone", _INSIDE]
    network = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which(network[0]) and subprocess.run([*network, "true"], stderr=-3).returncode == 0:
        return [*network, *inside]
    return inside


def main() -> int:
    _raise_loopback()
    if busy := taken():
        print(f"something listens on {', '.join(busy)} already", file=sys.stderr)
        return TAKEN
    with tempfile.TemporaryDirectory(prefix="penstock-docs-") as directory:
        blocks = [block for page in ALONE for block in read_page(page)]
        try:
            run_page(blocks, Path(directory), show, alone=True)
        except Failed as error:
            print(f"\n{error}", file=sys.stderr)
            return 1
    return 0


def taken() -> list[str]:
    """Those of the usual addresses where something listens."""
    return [address for address in (USUAL_KAFKA, USUAL_HTTP) if _is_taken(address)]


def _raise_loopback() -> None:
    """A new network has a loopback that is down; elsewhere it is up, and this may be refused."""
    with socket.socket() as asked:
        try:
            fcntl.ioctl(asked, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
        except PermissionError:
            return


def _is_taken(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    with socket.socket() as asked:
        return asked.connect_ex((host, int(port))) == 0


if __name__ == "__main__":
    if _INSIDE in sys.argv:
        sys.exit(main())
    run = command()
    os.execvp(run[0], run)
