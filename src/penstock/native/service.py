"""The native protocol without a wire: a request in, its answer out.

A connection brings requests as bytes, an embedded engine as they are; both end here. What is
refused is raised as the error it is.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from penstock.core.clock import Clock
from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.memory_budget import MemoryAccount, MemoryBudget
from penstock.engine.cluster.node import Node
from penstock.engine.topics.slow_requests import SlowRequests
from penstock.native.context import Buffer, Context, Handler, Reply
from penstock.native.cumulative_acks import CUMULATIVE_ACK_HANDLERS
from penstock.native.groups import GROUP_HANDLERS
from penstock.native.log_reads import READ_HANDLERS, answer_fetch
from penstock.native.messages import MESSAGE_HANDLERS, Quick
from penstock.native.publications import PUBLISH_HANDLERS
from penstock.native.queue_control import CONTROL_HANDLERS
from penstock.native.queues import QUEUE_HANDLERS
from penstock.native.receive import ReceiveService
from penstock.native.topics import TOPIC_HANDLERS
from penstock.wire.read_requests import Fetch
from penstock.wire.requests import Answer, ReceiveRequest, ReceiveResponse, Request
from penstock.wire.trace_requests import AskTrace


async def answer_trace(context: Context, request: AskTrace, _payload: memoryview) -> Reply:
    """The trace of a message: any node answers."""
    return await context.node.traces.trace(request.message, request.within), b""


HANDLERS: Final[Mapping[type[Request], Handler]] = {
    **CONTROL_HANDLERS,
    **CUMULATIVE_ACK_HANDLERS,
    **GROUP_HANDLERS,
    **MESSAGE_HANDLERS,
    **PUBLISH_HANDLERS,
    **QUEUE_HANDLERS,
    **READ_HANDLERS,
    **TOPIC_HANDLERS,
    AskTrace: answer_trace,
}


class Service:
    """Answers native requests; one per node."""

    def __init__(self, node: Node) -> None:
        self._context = Context(node)
        self._receiving = ReceiveService(self._context)

    @property
    def slow_requests(self) -> SlowRequests:
        """Requests that took long are noted here."""
        return self._context.engine.topics.slow_requests

    @property
    def memory(self) -> MemoryBudget:
        """What the connections of the node may hold."""
        return self._context.node.memory

    @property
    def clock(self) -> Clock:
        """The clock of the node."""
        return self._context.engine.topics.clock

    async def answer(
        self,
        request: Request,
        payload: Buffer = b"",
        *,
        address: str = "",
        account: MemoryAccount | None = None,
    ) -> Reply:
        """Carry a request out. A batch in the payload is stamped in place: it is given away.
        `address` is the client's, if it has one, and messages are read on its `account`."""
        if type(request) is ReceiveRequest:
            return await self._receiving.answer(request, address, account)
        if type(request) is Fetch:
            return await answer_fetch(self._context, request, account)
        handler = HANDLERS.get(type(request))
        if handler is None:
            raise InvalidRequest(f"{type(request).__name__} is not a request that a node serves")
        return await handler(self._context, request, memoryview(payload))

    def begin(self, quick: Quick, request: Request, payload: memoryview) -> "asyncio.Future[Any]":
        """Begin a request that needs no task, now; what is wrong with it comes with the future, as
        its result does."""
        try:
            return quick.begin(self._context, request, payload)
        except PenstockError as error:
            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    def undo(self, request: Request, answer: Answer) -> None:
        """The answer did not reach the client: what it leased is given back."""
        if isinstance(request, ReceiveRequest) and isinstance(answer, ReceiveResponse):
            self._receiving.give_back(request, answer)
