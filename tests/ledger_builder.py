"""A ledger written as text, for tests: one booking a line.

    2024-01-01 S 10010 9008 300,00 EB            debit of 10010 against 9008
    2024-02-10 S 1200 10010 200,00 RE-ALT text   a payment: debit of 1200, credit of 10010, document RE-ALT
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.ledger.books import cash, posting, store
from kontobahn.ledger.books.posting import Satz
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.konto import technical
from tests.harness import Organization, Service


class Books:
    """A connection with one client, to post into."""

    def __init__(
        self, service: Service, owner: Organization, *, skr: str = "SKR03", laenge: int = 4, years: Iterable[str] = ("2026-01-01",)
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
        cash.create_cash_book(tx, client, "Hauptkasse", technical(client.rahmen.kasse.ljust(laenge, "0"), laenge))
        return client

    def another_client(self, client_id: str, *, subscriptions: tuple[str, ...] = store.SUBSCRIPTIONS) -> Client:
        def create(tx: Tx) -> Client:
            connection = find_for_operator(tx, self.connection_id)
            client = store.create_client(
                tx, connection, client_id=client_id, bezeichnung="Zweite", kontenrahmen="SKR03", konto_laenge=4
            )
            store.subscribe(tx, client, *subscriptions)
            return client

        return self.service.db.write_now(create)

    def post(self, text: str) -> None:
        """Post the bookings; each into the fiscal year of its date, which must exist."""
        self.service.db.write_now(post_text, self.client, text)

    def query(self, **more: str) -> dict[str, str]:
        return {"connectionId": self.connection_id, **more}


def post_text(tx: Tx, client: Client, text: str) -> None:
    by_year: dict[str, list[Satz]] = {}
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        satz = parse(line, client)
        jahr = store.year_of_date(tx, client, satz.belegdatum)
        assert jahr is not None, line
        by_year.setdefault(jahr.start, []).append(satz)
    for start, saetze in by_year.items():
        jahr = store.year_of_start(tx, client, date.fromisoformat(start))
        batch = posting.open_batch(tx, client, jahr, kind="test", source="test", sha256=new_id())
        poster = posting.Poster(tx, client, batch)
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
