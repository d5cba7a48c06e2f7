"""The text that `penstock dev` and `penstock cluster dev` print once the broker serves.

They say where it is and what to do next, in few and short lines, so that no terminal scrolls them
away; programs to paste are in `penstock cheat`.
"""

import os
import shlex
import sys
from collections.abc import Sequence

from penstock.cli.address_flags import URL_VARIABLE, chosen_context
from penstock.client.default_url import DEFAULT_URL


def print_lines(lines: Sequence[str]) -> None:
    """Print them to stdout, at once also in a pipe."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def broker_lines(*, kafka: str, http: str, data: str, sqs: bool) -> list[str]:
    """The lines about one broker: its address, its pages, its data, and the next steps."""
    pages = "Dashboard, HTTP and SQS" if sqs else "Dashboard and HTTP"
    url = f"penstock://{kafka}"
    more = "kafka, sqs, cli" if sqs else "kafka, cli"
    return [
        f"Penstock is running at {url}, for Kafka clients {kafka}",
        f"{pages}: http://{http}",
        f"Data: {data}",
        f"Programs to paste: {command('cheat python', url)} (or {more}). Ctrl-C stops it.",
    ]


def command(words: str, url: str) -> str:
    """A command for another terminal, with the address if it would not be found without."""
    shared = url.split(",")
    if DEFAULT_URL in (url, shared[0]) and not _goes_elsewhere():
        return f"penstock {words}"
    return f"penstock {words} --url {shlex.quote(url)}"


def _goes_elsewhere() -> bool:
    """A variable or a context sends the commands of this user to some broker."""
    return bool(os.environ.get(URL_VARIABLE)) or chosen_context(os.environ) is not None
