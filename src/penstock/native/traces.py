"""What became of a message, for native clients: answered by any node."""

from penstock.native.context import Context, Handlers, Reply
from penstock.wire.trace_requests import AskTrace


async def answer_trace(context: Context, request: AskTrace, _payload: memoryview) -> Reply:
    """Where it was, and what was done to it."""
    return await context.node.traces.trace(request.message, request.within), b""


TRACE_HANDLERS: Handlers = {AskTrace: answer_trace}
