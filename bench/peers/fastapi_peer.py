"""The same call as a competent team would write it with FastAPI and SQLAlchemy: what Kontobahn is compared with.

GET /v2/ledger-rewe-read/connections for the holder of an API key, rate-limited, with a request id, from SQLite. Run
as `fastapi_peer.py DATABASE KEY [granian]`; it makes the database with three connections and serves on a free port.
"""

import asyncio
import hashlib
import hmac
import re
import socket
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Annotated, Literal

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Query, Response
from pydantic import BaseModel
from sqlalchemy import Row, create_engine, event, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIMIT, WINDOW_SECONDS = 1_000_000_000, 900
HASH_KEY = b"a secret of the installation, as long as a hash"
REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Base(DeclarativeBase):
    pass


class ApiKey(Base):
    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str]
    token_hash: Mapped[str] = mapped_column(unique=True)
    role: Mapped[str]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Connection(Base):
    __tablename__ = "ledger_connections"

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    bezeichnung: Mapped[str | None]
    status: Mapped[str]
    verbunden_seit: Mapped[datetime | None]
    erstellt_am: Mapped[datetime]


class ConnectionOut(BaseModel):
    model_config = {"from_attributes": True}

    id: str
    bezeichnung: str | None
    status: Literal["pending", "connected", "expired", "revoked", "error"]
    verbunden_seit: datetime | None
    erstellt_am: datetime


class ConnectionsOut(BaseModel):
    connections: list[ConnectionOut]


class Windows:
    """Fixed windows in memory, shared by the threads that run the endpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, tuple[float, int]] = {}

    def hit(self, identity: str) -> tuple[int, int]:
        """Returns how many requests are left, and in how many seconds the window ends."""
        now = time.monotonic()
        with self._lock:
            ends_at, count = self._open.get(identity, (0.0, 0))
            if ends_at <= now:
                ends_at, count = now + WINDOW_SECONDS, 0
            count += 1
            self._open[identity] = (ends_at, count)
        return LIMIT - count, max(1, round(ends_at - now))


class RequestId:
    """Names every request. Plain ASGI: FastAPI's decorator for middleware costs several times as much."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id")
        request_id = given if given and REQUEST_ID.fullmatch(given) else f"req_{uuid.uuid4().hex[:20]}"

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        await self._app(scope, receive, send_named)


def token_hash(token: str) -> str:
    return hmac.digest(HASH_KEY, token.encode(), hashlib.sha256).hex()


def make_sessions(database: str) -> sessionmaker[Session]:
    engine = create_engine(f"sqlite:///{database}")

    @event.listens_for(engine, "connect")
    def on_connect(connection: object, record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    Base.metadata.create_all(engine)
    return sessionmaker(engine, expire_on_commit=False)


def seed(sessions: sessionmaker[Session], key: str) -> None:
    now, organization_id = datetime.now(UTC), str(uuid.uuid4())
    with sessions.begin() as session:
        session.add(
            ApiKey(id=str(uuid.uuid4()), organization_id=organization_id, token_hash=token_hash(key), role="admin")
        )
        for number in range(3):
            session.add(
                Connection(
                    organization_id=organization_id, id=str(uuid.uuid4()), bezeichnung=f"Muster GmbH {number}",
                    status="connected", verbunden_seit=now, erstellt_am=now,
                )
            )  # fmt: skip


def find_key(session: Session, token: str | None) -> Row[str, str, datetime | None, datetime | None]:
    if token is None:
        raise HTTPException(401, "The API key is missing.")
    key = session.execute(
        select(ApiKey.id, ApiKey.organization_id, ApiKey.expires_at, ApiKey.revoked_at).where(
            ApiKey.token_hash == token_hash(token)
        )
    ).one_or_none()
    if key is None or key.revoked_at is not None or (key.expires_at and key.expires_at <= datetime.now(UTC)):
        raise HTTPException(401, "This API key is not valid.")
    return key


def count(windows: Windows, response: Response, identity: str) -> None:
    remaining, reset_seconds = windows.hit(identity)
    headers = {
        "ratelimit-limit": str(LIMIT),
        "ratelimit-remaining": str(max(0, remaining)),
        "ratelimit-reset": str(reset_seconds),
        "ratelimit-policy": f"{LIMIT};w={WINDOW_SECONDS}",
    }
    if remaining < 0:
        raise HTTPException(429, "Too many requests.", headers | {"retry-after": str(reset_seconds)})
    response.headers.update(headers)


def make_app(sessions: sessionmaker[Session]) -> FastAPI:
    """Key and limit are checked in the endpoint: as dependencies each would cost another switch to a thread."""
    app = FastAPI()
    app.add_middleware(RequestId)
    windows = Windows()

    @app.get("/v2/ledger-rewe-read/connections")
    def list_connections(
        response: Response,
        x_api_key: Annotated[str | None, Header()] = None,
        quelle: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
    ) -> ConnectionsOut:
        with sessions() as session:
            key = find_key(session, x_api_key)
            count(windows, response, key.id)
            rows = session.execute(
                select(
                    Connection.id, Connection.bezeichnung, Connection.status, Connection.verbunden_seit,
                    Connection.erstellt_am,
                )
                .where(Connection.organization_id == key.organization_id)
                .order_by(Connection.erstellt_am, Connection.id)
            ).all()  # fmt: skip
        response.headers["cache-control"] = "no-store"
        response.headers["x-content-type-options"] = "nosniff"
        return ConnectionsOut(connections=[ConnectionOut.model_validate(row) for row in rows])

    return app


class AnnouncingServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            print(f"ready {sockets[0].getsockname()[1]}", flush=True)


def main() -> None:
    database, key, *server = sys.argv[1:]
    sessions = make_sessions(database)
    seed(sessions, key)
    app = make_app(sessions)
    if server == ["granian"]:
        from bench.peers.bare_asgi import serve_until_told
        from kontobahn.serve import reserve_port

        holder, port = reserve_port("127.0.0.1", 0)
        with holder:
            asyncio.run(serve_until_told(app, port))
        return
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        AnnouncingServer(uvicorn.Config(app, log_level="warning", access_log=False)).run([listening])


if __name__ == "__main__":
    main()
