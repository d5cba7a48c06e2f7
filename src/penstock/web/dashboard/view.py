"""The content of a page, before it is rendered."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from starlette.requests import Request

from penstock.web.broker import Broker


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page, as what is on it.

    `data` is all that the template gets of the page's own, and with `?format=json` it is the
    answer: a page has nothing that a program could not have."""

    template: str
    title: str
    data: Mapping[str, object] = field(default_factory=dict)
    json: str = ""
    """The address that programs should ask for the same; nothing: this page with `format=json`."""
    command: str = ""
    """The command line that shows or does the same."""
    status: int = 200


Page: TypeAlias = Callable[[Broker, Request], Awaitable[View]]
