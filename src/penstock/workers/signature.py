"""The arguments of a worker function.

One rule, by the names of its parameters: `message` gets the `Message`, `transaction` gets the open
transaction of exactly-once processing (see `penstock.client.processed_ids`), and the one other
parameter, whatever it is called, gets the body.

    async def charge(order: Order) -> None: ...
    def resize(message: Message[Image]) -> None: ...
    def book(order: Order, transaction: Transaction[sqlite3.Connection]) -> None: ...

Without a `codec=`, the body is read as what its parameter is annotated with, so that what the type
checker believes is true at run time: `Order` above, `Image` inside `Message[Image]`. A parameter
without an annotation gets what the message's own headers say.

What a function needs is found out once, when it is declared, and what cannot work is refused there:
the program fails when it is started and not at the first message.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from penstock.client.message import Message
from penstock.core.errors import InvalidRequest

MESSAGE = "message"
TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments that a function takes."""

    body: str | None
    """The parameter that gets the body; None: it asks for the message only, or for nothing."""
    message: bool
    transaction: bool
    body_type: object | None
    """The annotated type of the body; None if there is no annotation."""

    @property
    def takes_nothing(self) -> bool:
        return self.body is None and not self.message

    def arguments(self, message: Message[Any], transaction: object | None) -> dict[str, object]:
        """By name. Reading the body may raise `InvalidBody`."""
        arguments: dict[str, object] = {}
        if self.body is not None:
            arguments[self.body] = message.body
        if self.message:
            arguments[MESSAGE] = message
        if self.transaction:
            arguments[TRANSACTION] = transaction
        return arguments


def signature_of(
    function: Callable[..., object],
    *,
    may_take_nothing: bool = False,
    reads_annotations: bool = True,
) -> Signature:
    """Look at a function; raises `InvalidRequest` for one that cannot be a worker. Annotations
    need not be read where a codec is given."""
    name = getattr(function, "__qualname__", repr(function))
    bodies: list[str] = []
    named: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidRequest(
                f"worker {name} has {parameter.name} before a slash; a worker is called by the"
                " names of its parameters"
            )
        if parameter.name in (MESSAGE, TRANSACTION):
            named.add(parameter.name)
        elif parameter.default is parameter.empty or not bodies:
            bodies.append(parameter.name)
    if len(bodies) > 1:
        raise InvalidRequest(
            f"worker {name} has the parameters {' and '.join(bodies)}, and a message has one body;"
            f" a parameter called {MESSAGE} gets the message, {TRANSACTION} the transaction"
        )
    if not bodies and MESSAGE not in named and not may_take_nothing:
        raise InvalidRequest(
            f"worker {name} takes no message: give it a parameter for the body, or one called"
            f" {MESSAGE}"
        )
    body = bodies[0] if bodies else None
    wanted = reads_annotations and (bodies or MESSAGE in named)
    hints = _hints(function, name) if wanted else {}
    if body is not None and _is_message(hints.get(body)):
        raise InvalidRequest(
            f"worker {name} calls its message {body}; call it {MESSAGE}, so that it is not taken"
            " for the body"
        )
    return Signature(
        body=body,
        message=MESSAGE in named,
        transaction=TRANSACTION in named,
        body_type=_body_type(hints, body),
    )


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return get_type_hints(function)
    except (NameError, AttributeError, TypeError) as problem:
        raise InvalidRequest(
            f"the annotations of worker {name} cannot be read ({problem}); import the types they"
            " name at the top of its module"
        ) from problem


def _body_type(hints: dict[str, object], body: str | None) -> object | None:
    hint: object = hints.get(body) if body is not None else None
    if hint is None and _is_message(hints.get(MESSAGE)):
        hint = next(iter(get_args(hints[MESSAGE])), None)
    if hint in (None, Any, object, inspect.Parameter.empty) or isinstance(hint, typing.TypeVar):
        return None
    if get_origin(hint) in (typing.Union, types.UnionType):
        some: list[object] = [part for part in get_args(hint) if part is not type(None)]
        if len(some) == 1:
            return some[0]  # `Order | None`: a message without a body has none whatever the codec.
    return hint


def _is_message(hint: object) -> bool:
    return hint is Message or get_origin(hint) is Message
