"""A ledger written as text, for tests: one booking per line.

2024-01-01 S 10010 9008 300,00 EB            debit of 10010 against 9008
2024-02-10 S 1200 10010 200,00 RE-ALT text   a payment: debit of 1200, credit of 10010, document RE-ALT
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import httpx

from kontobahn.books import batches, cash_book, posting, store, verification
from kontobahn.books.imports import Job, Report, run_import
from kontobahn.books.satz import Satz
from kontobahn.books.store import Client
from kontobahn.db import Tx
from kontobahn.formats.extf import open_extf
from kontobahn.ids import new_id
from kontobahn.ledger.connections import ConnectionStatus, find_for_operator, set_status
from kontobahn.ledger.errors import Area
from kontobahn.ledger.konto import technical
from tests.harness import Organization, Service

KASSENBUCH = "/v2/ledger-duo/kassenbuch-advanced"
PERSONENKONTO = "/v2/ledger-rewe/personenkonto"
# Texts that no line of a DATEV-format file can hold.
NOT_ONE_LINE = ("a\nb", "a\r", "a\n", "\t", "a\x7f", "a\x85b", "a\u2028b")


class Books:
    """A connection with one client, to post into."""

    def __init__(
        self,
        service: Service,
        owner: Organization,
        *,
        skr: str = "SKR03",
        laenge: int = 4,
        years: Iterable[str] = ("2026-01-01",),
    ) -> None:
        self.service = service
        self.owner = owner
        self.connection_id = service.ledger_connection(owner)
        self.client = service.db.write_now(self._create, "29098-55003", skr, laenge, tuple(years))

    def _create(self, tx: Tx, client_id: str, skr: str, laenge: int, years: tuple[str, ...]) -> Client:
        connection = find_for_operator(tx, self.connection_id)
        client = store.create_client(
            tx, connection, client_id=client_id, bezeichnung="Muster GmbH", kontenrahmen=skr, konto_laenge=laenge
        )
        store.subscribe(tx, client, *store.SUBSCRIPTIONS)
        for start in years:
            store.ensure_year(tx, client, date.fromisoformat(start))
        cash_book.create_cash_book(tx, client, "Hauptkasse", technical(client.rahmen.kasse.ljust(laenge, "0"), laenge))
        return client

    def another_client(
        self, client_id: str, *, subscriptions: tuple[str, ...] = store.SUBSCRIPTIONS, years: Iterable[str] = ()
    ) -> Client:
        def create(tx: Tx) -> Client:
            connection = find_for_operator(tx, self.connection_id)
            client = store.create_client(
                tx, connection, client_id=client_id, bezeichnung="Zweite", kontenrahmen="SKR03", konto_laenge=4
            )
            store.subscribe(tx, client, *subscriptions)
            for start in years:
                store.ensure_year(tx, client, date.fromisoformat(start))
            return client

        return self.service.db.write_now(create)

    def open_year(self, start: str) -> None:
        self.service.db.write_now(store.ensure_year, self.client, date.fromisoformat(start))

    def post(self, text: str, *, is_closing: bool = False) -> None:
        """Post the bookings; each into the fiscal year of its date, which must exist."""
        self.service.db.write_now(post_text, self.client, text, is_closing=is_closing)

    def import_extf(self, content: bytes, name: str = "file.csv", **options: Any) -> Report:
        """Import a DATEV-format file for this client; afterwards the books must agree with their bookings."""

        with open_extf(io.BytesIO(content)) as file:
            report = run_import(self.service.db, lambda tx: self.client, file, Job(name, "test", **options))
        assert self.service.db.read_now(verification.find_differences, self.client.mandant) == []
        return report

    def query(self, **more: str) -> dict[str, str]:
        return {"connectionId": self.connection_id, **more}

    def get(self, path: str, **query: str) -> httpx.Response:
        return self.service.get(path, self.owner.key, params=self.query(**query))

    def read(self, path: str, **query: str) -> Any:
        """Returns the `data` of an answer that must succeed."""
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def send(self, path: str, body: Any, **options: Any) -> httpx.Response:
        query = self.query(**options.pop("query", {}))
        return self.service.post(path, self.owner.key, params=query, json=body, **options)

    def cash_book(self, name: str, konto: str) -> None:
        number = technical(konto, self.client.konto_laenge)
        self.service.db.write_now(cash_book.create_cash_book, self.client, name, number)

    def set_status(self, status: ConnectionStatus) -> None:
        self.service.db.write_now(lambda tx: set_status(tx, find_for_operator(tx, self.connection_id), status))

    def unsubscribe(self, name: str) -> None:
        self.service.db.write_now(store.unsubscribe, self.client, name)

    def deny(self, area: Area) -> None:
        self.service.db.write_now(store.deny, self.client, area)

    def rows(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return self.service.db.read_now(lambda tx: tx.all(sql, *params))

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table of the books."""
        return {table: self._content(table) for table in self._tables()}

    def _tables(self) -> list[str]:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        if self.service.db.engine.name == "sqlite":
            names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return sorted(name for (name,) in self.rows(names) if name.startswith("books_"))

    def _content(self, table: str) -> list[str]:
        return sorted(repr(row) for row in self.rows(f"SELECT * FROM {table}"))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing is written, nothing charged and nothing left reserved."""
        books, balance = self.everything(), self.service.balance(self.owner)
        assert len(books) > 15
        yield
        assert self.everything() == books
        assert self.service.balance(self.owner) == balance


def refusal(answer: httpx.Response, status: int, field: str | None = None) -> dict[str, Any]:
    """Returns the body of an answer that must be this refusal, free of charge; its message must name the field too."""
    assert answer.status_code == status, answer.text
    assert answer.headers["x-credits-charged"] == "0"
    body: dict[str, Any] = answer.json()
    assert body["error"]
    if field is not None:
        assert body.get("field") == field, body
        # An unknown field is named alone, beside the nearest known one.
        names = (f"`{field}`", f"`{field.rpartition('.')[2]}`")
        assert status == 409 or any(name in body["error"] for name in names), body
    return body


def post_text(tx: Tx, client: Client, text: str, *, is_closing: bool = False) -> None:
    by_year: dict[str, list[Satz]] = {}
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        satz = parse(line, client)
        jahr = store.year_of_date(tx, client, satz.belegdatum)
        assert jahr is not None, line
        by_year.setdefault(jahr.start, []).append(satz)
    for start, saetze in by_year.items():
        jahr = store.year_of_start(tx, client, date.fromisoformat(start))
        batch = batches.open_batch(tx, client, jahr, kind="test", source="test", sha256=new_id(), is_closing=is_closing)
        poster = posting.begin(tx, client, batch)
        for satz in saetze:
            poster.add(satz)
        poster.finish()


def parse(line: str, client: Client) -> Satz:
    datum, side, konto, gegenkonto, betrag, *rest = line.split()
    options = dict(item.split("=") for item in rest if "=" in item)
    words = [item for item in rest if "=" not in item]
    cents = int(betrag.replace(",", ""))
    return Satz(
        umsatz=cents,
        soll=side == "S",
        konto=technical(konto, client.konto_laenge),
        gegenkonto=technical(gegenkonto, client.konto_laenge),
        belegdatum=datum,
        belegfeld1=words[0] if words else "",
        buchungstext=" ".join(words[1:]) or "Buchung",
        bu_schluessel=options.get("bu", ""),
        skonto=int(options.get("skonto", "0").replace(",", "")),
        generalumkehr=options.get("gu") == "1",
    )


def line(betrag: float, gegenkonto: str = "8400", **fields: Any) -> dict[str, Any]:
    """A line of a cash book entry."""
    return {"belegtext": "Barverkauf", "gegenkonto": gegenkonto, "betrag": betrag, **fields}


def entry(*lines: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a cash book entry of today, with the sum of its lines."""
    return {
        "waehrung": "EUR",
        "kassenname": "Hauptkasse",
        "betrag": round(sum(item["betrag"] for item in lines), 2),
        "transaktionsdatum": "2026-03-02T10:00:00+01:00",
        "belegzeilen": list(lines),
        **fields,
    }
