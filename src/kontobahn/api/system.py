"""Pages outside /v2: health, metrics, the OpenAPI document and the documentation page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sized

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kontobahn import __version__, jobs
from kontobahn.db import Database, Tx
from kontobahn.errors import Unavailable
from kontobahn.jobs import Overdue
from kontobahn.metrics import Metrics
from kontobahn.webhooks import outbox

# Prometheus asks every few seconds; it must hear of a database that hangs, not hang with it.
METRICS_SECONDS = 2

# Whoever asks wants to know now, not when the database answers.
READY_SECONDS = 1.5


def system_routes(
    db: Database, current_metrics: Callable[[], Metrics], openapi: Callable[[], bytes], jobs_overdue: Callable[[], Iterable[Overdue]],
    given_up: Callable[[Tx], Sized],
) -> list[Route]:  # fmt: skip
    async def healthz(request: Request) -> Response:
        """Answers while the process is alive."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def readyz(request: Request) -> Response:
        """Answers 200 if the process can serve: its database answers."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await db.read(_touch)
        except TimeoutError:
            return JSONResponse(
                {"status": "unavailable", "error": "The database does not answer."}, 503, {"Retry-After": "5"}
            )
        except Unavailable as error:
            headers = {"Retry-After": str(error.retry_after_seconds)}
            return JSONResponse({"status": "unavailable", "error": str(error)}, 503, headers)
        # Told, but still ready: calls are answered, and a balancer that took the process away would answer none.
        return JSONResponse({"status": "ready", "jobs_overdue": [job.name for job in jobs_overdue()]})

    async def metrics_page(request: Request) -> Response:
        metrics = current_metrics()
        try:
            async with asyncio.timeout(METRICS_SECONDS):
                documents = len(await db.read(given_up))
                metrics.note_installation(await db.read(jobs.lags), await db.read(outbox.measure_backlog), documents)
        except (Unavailable, TimeoutError):
            metrics.note_database_away()
        return Response(metrics.render(), media_type=metrics.content_type)

    # A plain function: Starlette runs it in a thread, where making the document does not hold up other calls.
    def openapi_document(request: Request) -> Response:
        return Response(openapi(), media_type="application/json")

    pages: dict[str, Callable[[Request], Awaitable[Response] | Response]] = {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics_page,
        "/openapi.json": openapi_document,
    }
    return [Route(path, page, methods=["GET"]) for path, page in pages.items()]


def _touch(tx: Tx) -> None:
    tx.one("SELECT version FROM schema_migrations LIMIT 1")
