"""Kontobahn on one worker, as `serve` runs it, on the data directory given; settings come from the environment."""

from __future__ import annotations

import sys

from kontobahn import app, log, serve, settings


def main() -> None:
    chosen = settings.load(data=sys.argv[1])
    log.configure(chosen.log_level)
    holder, port = serve.reserve_port("127.0.0.1", 0)
    with holder:
        serve.serve_one(app.Application(chosen), "127.0.0.1", port, lambda: print(f"ready {port}", flush=True))


if __name__ == "__main__":
    main()
