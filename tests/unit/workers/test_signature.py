"""What functions are called with, and which functions cannot be workers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from penstock.client.message import Message
from penstock.core.errors import InvalidRequest
from penstock.workers.signature import signature_of


@dataclass
class Order:
    number: int


def body_only(order: Order) -> None: ...
def untyped(order):  # type: ignore[no-untyped-def]
    ...
def loose(order: Any) -> None: ...
def maybe(order: Order | None) -> None: ...
def many(orders: list[Order]) -> None: ...
def message_only(message: Message[Order]) -> None: ...
def bare_message(message: Message) -> None: ...  # type: ignore[type-arg]
def both(order: Order, message: Message[Order]) -> None: ...
def in_transaction(order: Order, transaction: object) -> None: ...
def with_default(order: Order, dry_run: bool = False) -> None: ...
async def a_coroutine(order: Order) -> None: ...
def keyword(*, order: bytes) -> None: ...
def open_ended(order: str, *rest: int, **more: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "body", "message", "transaction", "body_type"),
    [
        (body_only, "order", False, False, Order),
        (untyped, "order", False, False, None),
        (loose, "order", False, False, None),
        (maybe, "order", False, False, Order),
        (many, "orders", False, False, list[Order]),
        (message_only, None, True, False, Order),
        (bare_message, None, True, False, None),
        (both, "order", True, False, Order),
        (in_transaction, "order", False, True, Order),
        (with_default, "order", False, False, Order),
        (a_coroutine, "order", False, False, Order),
        (keyword, "order", False, False, bytes),
        (open_ended, "order", False, False, str),
    ],
)
def test_what_is_found(
    function: Callable[..., object],
    body: str | None,
    message: bool,
    transaction: bool,
    body_type: object,
) -> None:
    found = signature_of(function)
    assert found.body == body
    assert (found.message, found.transaction) == (message, transaction)
    assert found.body_type == body_type


def two(order: Order, customer: Order) -> None: ...
def nothing() -> None: ...
def only_transaction(transaction: object) -> None: ...
def before_slash(order: Order, /) -> None: ...
def misnamed(msg: Message[Order]) -> None: ...
def unresolved(order: "Missing") -> None: ...  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (two, "has the parameters order and customer, and a message has one body"),
        (nothing, "takes no message"),
        (only_transaction, "takes no message"),
        (before_slash, "before a slash"),
        (misnamed, "calls its message msg; call it message"),
        (unresolved, "cannot be read"),
    ],
)
def test_what_cannot_be_a_worker(function: Callable[..., object], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        signature_of(function)


def test_a_periodic_task_may_take_nothing() -> None:
    assert signature_of(nothing, may_take_nothing=True).takes_nothing


def test_what_was_bound_before_is_not_asked_for() -> None:
    assert signature_of(partial(two, customer=Order(1))).body == "order"
