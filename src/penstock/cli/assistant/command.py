"""`penstock mcp`: a server of the Model Context Protocol on stdin and stdout."""

import asyncio
import logging
import sys
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.core.extras import require

PACKAGES = ("mcp",)


def mcp(
    *,
    allow_changes: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Also offer redrive, pause and resume; by default the tools only read.",
        ),
    ] = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Let an assistant look at queues: a server of the Model Context Protocol on stdin and stdout.

    The program of the assistant starts this command; see its settings. An assistant can list and
    describe queues, look at messages, trace one, list alerts and dead letters, ask why a queue does
    not move, and propose a redrive. Message bodies are sent to the assistant.

    With --json the tools are described in one document, and nothing is served.

    Examples
    --------
    penstock mcp
    penstock mcp --url penstock://127.0.0.1:9092
    penstock mcp --allow-changes
    penstock mcp --json
    """
    require("mcp", "`penstock mcp`", PACKAGES)
    from penstock.cli.assistant.server import make_server
    from penstock.cli.assistant.tools import BrokerTools

    server = make_server(BrokerTools(broker), allow_changes=allow_changes)
    if json:
        tools = asyncio.run(server.list_tools())
        print_json([one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in tools])
        return
    # Only the protocol may be on stdout.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    asyncio.run(server.run_stdio_async())
