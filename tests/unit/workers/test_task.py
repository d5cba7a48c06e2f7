"""What the type checker knows of a task. The proof is that the ignored errors are errors."""

from dataclasses import dataclass
from typing import Any, assert_type

from penstock.client.message import Message
from penstock.client.sent_message import Sent
from penstock.workers.app import App


@dataclass
class Order:
    number: int


app = App("memory:")


@app.worker("orders")
async def charge(order: Order) -> str:
    """Charge a card."""
    return f"charged {order.number}"


@app.worker("images")
def resize(message: Message[bytes]) -> int:
    """Make an image smaller."""
    return len(message.raw)


@app.worker("books", group="books")
def book(order: Order, message: Message[Order]) -> None:
    """Write an order down."""


async def typed(anything: Any) -> None:
    """Never run: it is here to be checked."""
    assert_type(await charge(Order(1)), str)
    assert_type(await charge(order=Order(1)), str)
    assert_type(resize.__call__(message=anything), int)
    assert_type(await charge.send(Order(1), priority=3), Sent)
    await charge.send(7)  # type: ignore[arg-type]
    await charge.send(Order(1), colour="red")  # type: ignore[call-arg]
    await resize.send(b"image")
    await resize.send("image")  # type: ignore[call-overload]
    await book.send(Order(1))
    await book.send_many([Order(1)])
    charge.delay(7)  # type: ignore[arg-type]


def test_tasks_have_names_and_codecs() -> None:
    assert [task.name for task in (charge, resize, book)] == ["charge", "resize", "book"]
    assert [task.codec for task in (charge, resize, book)] == [Order, bytes, Order]
    assert typed.__doc__
