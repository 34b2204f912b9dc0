"""`kontobahn mcp`: the tools for an assistant on this machine, over its standard input and output."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from kontobahn.cli.common import DataOption, KeyOption, UrlOption, service_and_key
from kontobahn.errors import SetupError
from kontobahn.mcp.channel import Caller, CallFailed, HttpChannel
from kontobahn.outbound import OutboundClient, Refused, Rule


def mcp(
    url: UrlOption = None,
    key: KeyOption = None,
    tools: Annotated[
        Literal["read", "bookkeeping", "payments"], typer.Option("--tools", help="At most these; the key decides too.")
    ] = "payments",
    data: DataOption = None,
) -> None:
    """Answer an assistant on this machine, which starts this command and speaks MCP with it.

    Example: kontobahn mcp --url https://konto.example.com --key kb_… --tools read
    """
    if find_spec("mcp") is None:
        raise SetupError("This command needs the package mcp: install kontobahn[mcp].")
    url, key = service_and_key(url, key, data)
    try:
        Rule(anywhere=True).parse(url)
    except Refused as error:
        raise SetupError(str(error)) from None
    asyncio.run(_answer(url, key, tools))


async def _answer(url: str, key: str, tools: Literal["read", "bookkeeping", "payments"]) -> None:
    from mcp.server.stdio import stdio_server

    from kontobahn.mcp.server import Rights, make_server

    outbound = OutboundClient(Rule(anywhere=True), user_agent="Kontobahn mcp")
    try:
        channel = HttpChannel(outbound, url, key)
        found = (await Caller(channel).get("/v2/assistants/access"))["data"]
        if not found["enabled"]:
            raise SetupError("Assistants are switched off. An administrator switches them on in the dashboard.")
        scopes = None if found["scopes"] is None else tuple(found["scopes"])
        server = make_server(lambda context: Rights(channel, found["role"], scopes, tools))
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    except CallFailed as error:
        raise SetupError(str(error)) from None
    finally:
        await outbound.close()
