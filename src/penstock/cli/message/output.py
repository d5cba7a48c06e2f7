"""Messages on stdout, as many as were asked for, each batch as soon as it is there.

Output is flushed batch by batch: a pipe gets messages when they come, and a reader that
goes away, as `head` does, is noticed at once. Only then is anything acknowledged or committed, so a
message that was not printed is not lost.
"""

import sys
from collections.abc import Callable, Sequence

from cyclopts import CycloptsError

from penstock.cli.message.formats import DEFAULT_FORMAT, Printable, compile_format
from penstock.cli.message.json_lines import json_line

BATCH_MESSAGES = 5_000
"""The number of messages per request."""


class Output:
    """A printer of messages with a limit on their number."""

    def __init__(self, render: Callable[[Printable], bytes], limit: int | None) -> None:
        self._render = render
        self._limit = limit
        self.printed = 0

    @property
    def is_done(self) -> bool:
        """True once the limit is reached."""
        return self._limit is not None and self.printed >= self._limit

    @property
    def wanted(self) -> int:
        """The number of messages to request next."""
        if self._limit is None:
            return BATCH_MESSAGES
        return min(BATCH_MESSAGES, self._limit - self.printed)

    def print(self, messages: Sequence[Printable]) -> None:
        """Print the messages and flush."""
        stream = sys.stdout.buffer
        stream.write(b"".join(map(self._render, messages)))
        stream.flush()
        self.printed += len(messages)


def open_output(
    name: str, *, written: str | None, json: bool, limit: int | None, kind: str
) -> Output:
    """An output for the flags of `consume`; what cannot be understood counts as typed wrongly."""
    if json and written is not None:
        raise CycloptsError(msg="--json and --format exclude each other.")
    if limit is not None and limit < 1:
        raise CycloptsError(msg=f"--limit = {limit} must be at least 1.")
    if json:
        return Output(lambda message: json_line(message, {kind: name}), limit)
    try:
        render = compile_format(
            DEFAULT_FORMAT if written is None else written,
            topic=name,
            terminal=sys.stdout.isatty(),
        )
    except ValueError as error:
        raise CycloptsError(msg=f'--format = "{written}": {error}.') from error
    return Output(render, limit)
