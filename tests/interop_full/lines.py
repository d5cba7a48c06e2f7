"""Messages as lines of text, the way command-line tools send and print them.

A line that is sent is `key:number`; one that is read back has its partition before it. Lines with
one key stay in one partition, in order, and every line is there once: more a tool cannot tell.
"""

import subprocess
from collections.abc import Iterator, Sequence

KEYS = 97
TOOL_WITHIN_SECONDS = 240.0
_SHOWN = 2_000


def lines_to_send(count: int) -> str:
    """So many messages, with keys in turn."""
    return "".join(f"{number % KEYS}:{number}\n" for number in range(count))


def check_lines(read: Iterator[tuple[str, str, str]], count: int) -> None:
    """Partition, key and value of every message, in the order in which they were read."""
    expected = dict.fromkeys((str(key) for key in range(KEYS)), -1)
    homes: dict[str, str] = {}
    total = 0
    for partition, key, value in read:
        number = int(value)
        assert number % KEYS == int(key), f"{value} came with the key {key}"
        last = expected[key]
        wanted = int(key) if last < 0 else last + KEYS
        assert number == wanted, f"key {key}: {number} after {last}"
        assert homes.setdefault(key, partition) == partition, f"key {key} is in two partitions"
        expected[key] = number
        total += 1
    assert total == count, f"{total} of {count} messages were read"


def run_tool(command: Sequence[str], given: str = "") -> str:
    """What it printed; fails if it fails."""
    ended = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=TOOL_WITHIN_SECONDS
    )
    said = f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-_SHOWN:]}"
    assert ended.returncode == 0, said
    return ended.stdout
