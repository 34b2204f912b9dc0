"""The least a service can do on the same server: answer every request with the same bytes.

The answer is a JSON file: its headers as pairs, and its body. On Python's own event loop, or with `--our-loop` on the one that our
service runs on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server

from kontobahn import serve


def main() -> None:
    answer = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer["headers"]],
    }
    body = {"type": "http.response.body", "body": answer["body"].encode()}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(start)
        await send(body)

    holder, port = serve.reserve_port("127.0.0.1", 0)
    with holder:
        run = serve.run if "--our-loop" in sys.argv else asyncio.run
        run(serve_until_told(application, port))


async def serve_until_told(application: Any, port: int) -> None:
    # As serve.EmbeddedServer starts it, without the bounds on connections, which are part of what our service does.
    server = Server(
        application, address="127.0.0.1", port=port, interface=Interfaces.ASGINL, http=HTTPModes.http1, websockets=False,
        backlog=serve.BACKLOG, log_enabled=False,
    )  # fmt: skip
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    serving = asyncio.create_task(server.serve())
    await serve.wait_until_accepting("127.0.0.1", port, serving)
    print(f"ready {port}", flush=True)
    await serving


if __name__ == "__main__":
    main()
