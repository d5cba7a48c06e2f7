"""Asking a running broker over HTTP, for the commands that look at a cluster and change it.

What those commands have in common is here, too: where the broker is, JSON for programs, and asking
back before something is destroyed.
"""

import http.client
import shlex
import sys
from typing import Annotated, TypeVar
from urllib.parse import unquote

import msgspec
from cyclopts import Parameter

from penstock.core.decoders import decode_json
from penstock.core.errors import LocalError, Unavailable
from penstock.server.notation import ADDRESS, Address

T = TypeVar("T")

DEFAULT_HTTP = "127.0.0.1:8080"
TIMEOUT_SECONDS = 45.0
"""Longer than a broker takes to answer that something took too long."""
ANSWER_BYTES_MAX = 64 << 20
QUEUES = "/v1/queues/"

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print one JSON document, for programs.",
    ),
]
Yes = Annotated[bool, Parameter(negative="", show_default=False, help="Do not ask.")]


class _Problem(msgspec.Struct):
    error: str
    message: str


def parse_http(written: str) -> Address:
    """The address of a broker's HTTP port; a URL is taken as well."""
    text = written.removeprefix("http://").rstrip("/")
    try:
        address = ADDRESS.parse(text)
    except ValueError as error:
        raise LocalError(
            f'--http = "{written}" must be HOST:PORT, such as {DEFAULT_HTTP}'
        ) from error
    if address.port == 0:
        raise LocalError(f"--http = {written} names no port; give the one the broker printed")
    return address


def ask(address: Address, method: str, path: str, body: object = None) -> bytes:
    """The answer to a request; an error if the broker refuses, or if there is none."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(
            method,
            path,
            body=b"" if body is None else msgspec.json.encode(body),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
        )
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES_MAX)
    except TimeoutError as error:
        raise Unavailable(
            f"the broker at http://{address} did not answer within {TIMEOUT_SECONDS:.0f} seconds"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unavailable(
            f"no broker answers at http://{address}: {problem}; start one with `penstock dev`, or"
            " say where it is with --url URL, or where its HTTP port is with --http HOST:PORT"
        ) from error
    finally:
        connection.close()
    if response.status >= 400:
        raise _refusal(address, path, response.status, data)
    return data


def ask_for(http: str, method: str, path: str, kind: type[T], body: object = None) -> T:
    """Send a request and return the answer, decoded as `kind`."""
    answer = ask(parse_http(http), method, path, body)
    try:
        return decode_json(answer, kind)
    except msgspec.DecodeError as error:
        raise LocalError(
            f"what answers at {http} is not a broker of this version: {error}"
        ) from error


def ask_back(name: str, *, warning: str, kept: str, cannot: str) -> None:
    """Destructive verbs ask for the name back, on a terminal; elsewhere they want --yes."""
    if not sys.stdin.isatty():
        raise LocalError(f"{cannot}; add --yes if you want that")
    print(
        f"{warning} {cannot[:1].upper()}{cannot[1:]}. Type {name} to do it: ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    if sys.stdin.readline().strip() != name:
        raise LocalError(kept)


def print_json(document: object) -> None:
    """Print one JSON document."""
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_text(text: str, *, json: bool) -> None:
    """A file that a command makes, as it is or as a document."""
    if json:
        print_json({"text": text})
    else:
        sys.stdout.write(text)


def _refusal(address: Address, path: str, status: int, data: bytes) -> LocalError:
    try:
        problem = decode_json(data, _Problem)
        if problem.error == "UnknownTopic" and path.startswith(QUEUES):
            name = unquote(path.removeprefix(QUEUES).partition("/")[0].partition("?")[0])
            if problem.message.endswith(f" {name}"):
                return LocalError(
                    f"there is no queue {name}; `penstock queue list` shows what there is, and"
                    f" `penstock queue create {shlex.quote(name)}` makes it"
                )
        return LocalError(problem.message)
    except msgspec.DecodeError:
        return LocalError(
            f"http://{address} answered {status} and is perhaps no Penstock broker; say where it"
            " is with --url URL"
        )
