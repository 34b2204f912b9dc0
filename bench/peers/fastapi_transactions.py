"""A paid list of transactions as a competent team would write it with FastAPI and SQLAlchemy.

GET /v2/banking/transactions of an account for the holder of an API key, rate-limited; a credit is reserved before and
confirmed after, each in a durable transaction. Run as `fastapi_transactions.py DATABASE KEY ROWS.json`.
"""

import json
import socket
import sys
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Literal

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Query, Response
from pydantic import BaseModel
from sqlalchemy import JSON, Index, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column, sessionmaker

from bench.peers.fastapi_peer import (
    AnnouncingServer,
    ApiKey,
    Base,
    RequestId,
    Windows,
    count,
    find_key,
    make_sessions,
    token_hash,
)  # fmt: skip


class CreditAccount(Base):
    __tablename__ = "credit_accounts"

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    available: Mapped[int]
    reserved: Mapped[int]
    spent: Mapped[int]
    last_line: Mapped[int]


class CreditHold(Base):
    __tablename__ = "credit_holds"

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str]
    amount: Mapped[int]
    state: Mapped[str]
    created_at: Mapped[datetime]


class CreditMovement(Base):
    __tablename__ = "credit_movements"

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    amount: Mapped[int]
    hold_id: Mapped[str]
    at: Mapped[datetime]


class BankTransaction(Base):
    __tablename__ = "transactions"
    __table_args__ = (Index("transactions_by_day", "account_id", "made_on", "id"),)

    account_id: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[int] = mapped_column(primary_key=True)
    organization_id: Mapped[str]
    payment_id: Mapped[str | None]
    duplicated: Mapped[bool]
    mode: Mapped[str]
    status: Mapped[str]
    made_on: Mapped[date]
    amount: Mapped[Decimal]
    currency_code: Mapped[str]
    description: Mapped[str]
    description_parsed: Mapped[dict[str, str | None]] = mapped_column(JSON)
    category: Mapped[str]
    extra: Mapped[dict[str, object]] = mapped_column(JSON)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Parsed(BaseModel):
    cred: str | None
    mref: str | None
    kref: str | None
    debt: str | None
    svwz: str | None
    abwa: str | None
    abwe: str | None
    bic: str | None
    oamt: str | None
    coam: str | None
    purp: str | None


class Extra(BaseModel):
    time: str | None
    payee: str | None
    payer: str | None
    additional: str | None
    merchant_id: str | None
    posting_date: date | None
    end_to_end_id: str | None
    payee_information: str | None
    payer_information: str | None
    account_balance_snapshot: float | None
    categorization_confidence: float | None


class TransactionOut(BaseModel):
    model_config = {"from_attributes": True, "coerce_numbers_to_str": True}

    id: str
    account_id: str
    payment_id: str | None
    duplicated: bool
    mode: Literal["normal", "fee", "transfer"]
    status: Literal["posted", "pending"]
    made_on: date
    amount: Decimal
    currency_code: str
    description: str
    description_parsed: Parsed
    category: str
    extra: Extra
    created_at: datetime
    updated_at: datetime


class TransactionsOut(BaseModel):
    data: list[TransactionOut]


def move(session: Session, organization_id: str, hold_id: str, kind: str, **changes: object) -> None:
    row = session.execute(
        update(CreditAccount)
        .where(CreditAccount.organization_id == organization_id)
        .values(last_line=CreditAccount.last_line + 1, **changes)
        .returning(CreditAccount.last_line)
    ).one()
    session.add(
        CreditMovement(
            organization_id=organization_id,
            line=row.last_line,
            kind=kind,
            amount=1,
            hold_id=hold_id,
            at=datetime.now(UTC),
        )
    )


def make_app(sessions: sessionmaker[Session]) -> FastAPI:
    app = FastAPI()
    app.add_middleware(RequestId)
    windows = Windows()

    @app.get("/v2/banking/transactions")
    def list_transactions(
        response: Response,
        account_id: Annotated[int, Query()],
        from_id: Annotated[int, Query()] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        sort: Annotated[Literal["made_on", "id"], Query()] = "made_on",
        x_api_key: Annotated[str | None, Header()] = None,
    ) -> TransactionsOut:
        hold_id = str(uuid.uuid4())
        with sessions() as session:
            key = find_key(session, x_api_key)
            count(windows, response, key.id)
        with sessions.begin() as session:
            move(
                session, key.organization_id, hold_id, "reserve",
                available=CreditAccount.available - 1, reserved=CreditAccount.reserved + 1,
            )  # fmt: skip
            session.add(
                CreditHold(
                    id=hold_id,
                    organization_id=key.organization_id,
                    amount=1,
                    state="reserved",
                    created_at=datetime.now(UTC),
                )
            )
        with sessions() as session:
            wanted = select(BankTransaction).where(
                BankTransaction.organization_id == key.organization_id,
                BankTransaction.account_id == account_id,
                BankTransaction.id > from_id,
            )
            order = (BankTransaction.id,) if sort == "id" else (BankTransaction.made_on, BankTransaction.id)
            rows = session.scalars(wanted.order_by(*order).limit(limit)).all()
            if not rows:
                raise HTTPException(404, "There is no such account.")
            answer = TransactionsOut(data=[TransactionOut.model_validate(row) for row in rows])
        with sessions.begin() as session:
            session.execute(update(CreditHold).where(CreditHold.id == hold_id).values(state="confirmed"))
            move(
                session, key.organization_id, hold_id, "confirm",
                reserved=CreditAccount.reserved - 1, spent=CreditAccount.spent + 1,
            )  # fmt: skip
        return answer

    return app


def seed(sessions: sessionmaker[Session], key: str, rows: list[dict[str, object]]) -> None:
    organization_id = str(uuid.uuid4())
    with sessions.begin() as session:
        session.add(
            ApiKey(id=str(uuid.uuid4()), organization_id=organization_id, token_hash=token_hash(key), role="admin")
        )
        session.add(CreditAccount(organization_id=organization_id, available=10**12, reserved=0, spent=0, last_line=0))
        for row in rows:
            values = TransactionOut.model_validate(row).model_dump(exclude={"description_parsed", "extra"})
            session.add(
                BankTransaction(
                    **{**values, "id": int(values["id"]), "account_id": int(values["account_id"])},
                    organization_id=organization_id, description_parsed=row["description_parsed"], extra=row["extra"],
                )
            )  # fmt: skip


def main() -> None:
    database, key, rows = sys.argv[1:]
    sessions = make_sessions(database)
    with open(rows, encoding="utf-8") as file:
        seed(sessions, key, json.load(file))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        AnnouncingServer(uvicorn.Config(make_app(sessions), log_level="warning", access_log=False)).run([listening])


if __name__ == "__main__":
    main()
