"""The checksum, and how little of its package is loaded for it."""

import subprocess
import sys

import crc32c as package

from penstock.core.checksum import crc32c


def test_it_is_the_one_of_the_package() -> None:
    assert crc32c is package.crc32c
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4


def test_the_package_can_be_loaded_after_it_and_before_it() -> None:
    both = ["from penstock.core.checksum import crc32c", "import crc32c as package"]
    for lines in (both, both[::-1]):
        program = "; ".join([*lines, "assert crc32c is package.crc32c"])
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
