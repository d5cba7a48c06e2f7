"""A worker function after it was declared: still the function, and a way to send it work.

    @app.worker("orders")
    async def charge(order: Order) -> Receipt: ...

    await charge(order)                 # calls it, here and now, as if it had never been decorated
    await charge.send(order)            # sends a message to "orders"; some worker will call it
    await charge.send_at(noon, order)
    charge.delay(order)                 # the same for code without a loop, as in Celery

For the type checker a task has exactly the function's own type when it is called, and `send` takes
what the function takes as its body: the first parameter, or `T` if that is a `Message[T]`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Concatenate,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from penstock.client.call_options import SendManyOptions, SendOptions
from penstock.client.message import Message
from penstock.client.sent_message import Sent, SentMany
from penstock.workers.options import WorkerOptions
from penstock.workers.signature import Signature

if TYPE_CHECKING:
    from penstock.workers.app import App

F_co = TypeVar("F_co", bound=Callable[..., object], covariant=True)
P = ParamSpec("P")
B = TypeVar("B")


class Task(Generic[F_co]):
    """See the top of this module. Made by `App.worker`, `App.every` and `App.cron`."""

    def __init__(
        self, app: "App", function: F_co, options: WorkerOptions, signature: Signature
    ) -> None:
        functools.update_wrapper(self, function)
        self.app = app
        self.name: str = getattr(function, "__qualname__", repr(function))
        self.options = options
        self.signature = signature
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        self._function = function

    def __repr__(self) -> str:
        return f"<task {self.name} of {', '.join(self.options.queues)}>"

    @property
    def queue(self) -> str:
        """The queue that `send` sends to: the first."""
        return self.options.queues[0]

    @property
    def codec(self) -> object | None:
        """The codec of bodies: as declared, or as the body's parameter is annotated."""
        declared = self.options.codec
        return self.signature.body_type if declared is None else declared

    @property
    def __call__(self) -> F_co:
        return self._function

    def with_concurrency(self, concurrency: int) -> "Task[F_co]":
        """Return a copy with another number of workers; a task with pools or scaling is
        unchanged."""
        if self.options.pools or self.options.scaling is not None:
            return self
        options = dataclasses.replace(self.options, concurrency=concurrency)
        return Task(self.app, self._function, options, self.signature)

    # Sending. The overloads say what the body is: see the top of this module.

    @overload
    async def send(
        self: "Task[Callable[Concatenate[Message[B], P], object]]",
        body: B,
        **options: Unpack[SendOptions],
    ) -> Sent: ...
    @overload
    async def send(
        self: "Task[Callable[Concatenate[B, P], object]]", body: B, **options: Unpack[SendOptions]
    ) -> Sent: ...
    async def send(self, body: object, **options: Unpack[SendOptions]) -> Sent:
        """Send a message that some worker will call this function with."""
        return await self.app.send(self, body, options)

    @overload
    async def send_many(
        self: "Task[Callable[Concatenate[Message[B], P], object]]",
        bodies: Iterable[B],
        **options: Unpack[SendManyOptions],
    ) -> SentMany: ...
    @overload
    async def send_many(
        self: "Task[Callable[Concatenate[B, P], object]]",
        bodies: Iterable[B],
        **options: Unpack[SendManyOptions],
    ) -> SentMany: ...
    async def send_many(
        self, bodies: Iterable[object], **options: Unpack[SendManyOptions]
    ) -> SentMany:
        """Send many at once, which costs little more than sending one."""
        return await self.app.send_many(self, list(bodies), options)

    @overload
    async def send_at(
        self: "Task[Callable[Concatenate[Message[B], P], object]]",
        when: datetime,
        body: B,
        **options: Unpack[SendOptions],
    ) -> Sent: ...
    @overload
    async def send_at(
        self: "Task[Callable[Concatenate[B, P], object]]",
        when: datetime,
        body: B,
        **options: Unpack[SendOptions],
    ) -> Sent: ...
    async def send_at(self, when: datetime, body: object, **options: Unpack[SendOptions]) -> Sent:
        """Send a message that is delivered at a time, or soon after. It is stored at once."""
        return await self.app.send(self, body, {**options, "deliver_at": when})

    @overload
    def delay(
        self: "Task[Callable[Concatenate[Message[B], P], object]]",
        body: B,
        **options: Unpack[SendOptions],
    ) -> Sent: ...
    @overload
    def delay(
        self: "Task[Callable[Concatenate[B, P], object]]", body: B, **options: Unpack[SendOptions]
    ) -> Sent: ...
    def delay(self, body: object, **options: Unpack[SendOptions]) -> Sent:
        """`send` for code that cannot await: a script, a web framework's thread, a sync worker."""
        return self.app.call(lambda: self.app.send(self, body, options))
