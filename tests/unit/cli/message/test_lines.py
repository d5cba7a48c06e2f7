"""Lines of files and pipes, in blocks."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.cli.message import lines as lines_module
from penstock.cli.message.lines import read_blocks, split_lines
from penstock.core.errors import LocalError


async def given(*blocks: bytes) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


def split(*blocks: bytes, delimiter: bytes = b"\n") -> list[list[bytes]]:
    async def collect() -> list[list[bytes]]:
        return [lines async for lines in split_lines(given(*blocks), delimiter)]

    return asyncio.run(collect())


def test_lines_of_blocks() -> None:
    assert split() == []
    assert split(b"a\nb\n") == [[b"a", b"b"]]
    assert split(b"a\nb") == [[b"a"], [b"b"]]
    assert split(b"a", b"b", b"c\nd", b"e\n") == [[b"abc"], [b"de"]]
    assert split(b"\n\n") == [[b"", b""]]
    assert split(b"a\r\n") == [[b"a\r"]]
    assert split(b"a\nb\0c", delimiter=b"\0") == [[b"a\nb"], [b"c"]]


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "LINE_BYTES_MAX", 10)
    assert split(b"x" * 10) == [[b"x" * 10]]
    with pytest.raises(LocalError, match="no message may"):
        split(b"x" * 6, b"x" * 6)


def test_a_file_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 1_000)
    wanted = [b"%d" % number for number in range(10_000)]
    path = tmp_path / "numbers"
    path.write_bytes(b"\n".join(wanted))

    async def collect() -> list[bytes]:
        with path.open("rb") as file:
            blocks = read_blocks(file.fileno())
            return [line async for lines in split_lines(blocks) for line in lines]

    assert asyncio.run(collect()) == wanted


def test_what_trickles_in_is_not_kept_waiting() -> None:
    read_end, write_end = os.pipe()

    async def play() -> list[list[bytes]]:
        found = split_lines(read_blocks(read_end))
        os.write(write_end, b"one\n")
        seen = [await anext(found)]
        os.write(write_end, b"two\nthr")
        seen.append(await anext(found))
        os.write(write_end, b"ee")
        os.close(write_end)
        return [*seen, *[lines async for lines in found]]

    assert asyncio.run(play()) == [[b"one"], [b"two"], [b"three"]]
    os.close(read_end)


def test_an_end_in_the_middle_leaves_nothing_behind() -> None:
    read_end, write_end = os.pipe()

    async def play() -> None:
        os.write(write_end, b"one\n")
        assert await anext(read_blocks(read_end)) == b"one\n"

    asyncio.run(play())  # The thread still reads; nobody waits for it.
    os.close(write_end)


def test_an_end_while_the_thread_has_something_to_hand_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits for room when the loop ends: that is an end for it as well, and no error."""
    threads: list[threading.Thread] = []
    monkeypatch.setattr(lines_module, "BLOCK_BYTES", 1)
    read_end, write_end = os.pipe()
    os.write(write_end, b"x" * 100)

    async def play() -> None:
        assert await anext(read_blocks(read_end)) == b"x"
        threads.extend(one for one in threading.enumerate() if one.name == "penstock-lines")
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(play())
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    os.close(write_end)
    os.close(read_end)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    async def play() -> None:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        try:
            await anext(read_blocks(descriptor))
        finally:
            os.close(descriptor)

    with pytest.raises(LocalError, match="cannot be read"):
        asyncio.run(play())
