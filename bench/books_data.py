"""Made-up bookings for the ledger's benchmarks: invoices of many debtors, all paid but a given number.

The same rows go into our books, into an EXTF file, into DuckDB and into a journal of the command line's `ledger`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kontobahn import credits
from kontobahn.access import audit, keys, organizations
from kontobahn.books import batches, posting, satz, setup, store
from kontobahn.clock import SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.formats import extf
from kontobahn.ledger.connections import find_for_operator
from kontobahn.settings import load
from kontobahn.vault import open_vault

START = date(2025, 1, 1)
CLIENT_ID = "1234-1"
DEBTORS = 20_000


class Booking(NamedTuple):
    """Debit of `konto` against `gegenkonto`, numbers of four and five digits."""

    konto: str
    gegenkonto: str
    cents: int
    datum: str
    beleg: str
    text: str


def bookings(count: int, open_items: int) -> Iterator[Booking]:
    """Pairs of invoice and payment; the last `open_items` invoices get an unrelated bank transfer instead of their payment."""
    rng = random.Random(7)
    pairs = count // 2
    for number in range(pairs):
        day = START + timedelta(days=rng.randrange(300))
        debtor = str(10_000 + rng.randrange(DEBTORS))
        cents = rng.randrange(100, 500_000)
        beleg = f"RE{number:07d}"
        yield Booking(debtor, "8400", cents, day.isoformat(), beleg, f"Rechnung {beleg}")
        later = (day + timedelta(days=rng.randrange(1, 60))).isoformat()
        if number < pairs - open_items:
            yield Booking("1200", debtor, cents, later, beleg, f"Zahlung {beleg}")
        else:
            yield Booking("1200", "1360", cents, later, "", "Umbuchung")


class Installation(NamedTuple):
    data: Path
    key: str
    connection_id: str


def create_installation(data: Path) -> Installation:
    """A data directory with one organisation, a key, credits and empty books."""
    settings = load({}, data=str(data))
    db = open_database(settings, SystemClock())
    try:
        migrate(db)
        vault = open_vault(settings)
        owner = db.write_now(organizations.create, "Bench", audit.SYSTEM)
        db.write_now(credits.grant, owner.id, 1_000_000_000)
        key = db.write_now(keys.create, vault, owner.id, "bench", audit.SYSTEM, role="admin").secret
        client = db.write_now(
            setup.create_books, owner.id, None,
            name="Bench", skr="SKR03", length=4, client_id=CLIENT_ID, year_start=START,
        )  # fmt: skip
        return Installation(data, key, client.connection_id)
    finally:
        db.close()


def post_into(installation: Installation, count: int, open_items: int) -> None:
    db = open_database(load({}, data=str(installation.data)), SystemClock())
    try:
        db.write_now(_post, installation.connection_id, count, open_items)
    finally:
        db.close()


def _post(tx: Tx, connection_id: str, count: int, open_items: int) -> None:
    client = store.find_client(tx, find_for_operator(tx, connection_id), CLIENT_ID)
    jahr = store.year_of_start(tx, client, START)
    poster = posting.begin(
        tx, client, batches.open_batch(tx, client, jahr, kind="bench", source="bench", sha256=f"{count}")
    )
    for booking in bookings(count, open_items):
        poster.add(
            satz.Satz(
                booking.cents, True, booking.konto + "0000", booking.gegenkonto + "0000", booking.datum,
                belegfeld1=booking.beleg, buchungstext=booking.text,
            )
        )  # fmt: skip
    poster.finish()


def write_extf(path: Path, count: int, open_items: int) -> None:
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2025, 12, 31), berater=1234, mandant=1, wj_beginn=START, sachkontenlaenge=4,
        datum_von=START, datum_bis=date(2025, 12, 31), skr="03",
    )  # fmt: skip
    extf.write_buchungsstapel(
        path,
        header,
        (
            extf.Buchungssatz(
                0, item.cents, True, "EUR", "", None, item.konto, item.gegenkonto, "", item.datum, item.beleg, "", 0, item.text,
                "", "", False, "",
            )
            for item in bookings(count, open_items)
        ),
    )  # fmt: skip


def write_partners(path: Path, count: int) -> None:
    """Debtors with an address, a bank account and what else most have."""
    header = extf.make_header(
        extf.PERSONENKONTEN, erzeugt_am=datetime(2025, 12, 31), berater=1234, mandant=1, wj_beginn=START, sachkontenlaenge=4,
        datum_von=None, datum_bis=None, skr="03",
    )  # fmt: skip
    extf.write_personenkonten(
        path,
        header,
        (
            extf.Personenkonto(
                line=0, konto=str(10_000 + number), name="", vorname="", firmenname=f"Firma {number} GmbH", name_ohne_angabe="",
                adressattyp="2", anrede="Firma", ust_id="DE123456789",
                adressen=(extf.Adresse(f"Weg {number}", "", "10115", "Berlin", "DE", ""),), telefon="030 123456",
                email=f"post@firma{number}.example", fax="",
                bankverbindungen=(extf.Bankverbindung(1, "DE89370400440532013000", "COBADEFFXXX", "Bank", haupt=True),),
                zahlungsbedingung=20, kurzbezeichnung=f"Firma {number}", weitere="",
            )
            for number in range(count)
        ),
    )  # fmt: skip


def write_journal(path: Path, count: int, open_items: int) -> None:
    """A journal for the command line's `ledger`, with a tag for the document, to group open items by."""
    with path.open("w", encoding="utf-8") as file:
        for item in bookings(count, open_items):
            euros = f"{item.cents // 100}.{item.cents % 100:02d}"
            file.write(f"{item.datum.replace('-', '/')} {item.text}\n")
            file.write(
                f"    {_account(item.konto, item.beleg)}  {euros} EUR\n    {_account(item.gegenkonto, item.beleg)}\n\n"
            )


def _account(konto: str, beleg: str) -> str:
    return f"Personen:{konto}:{beleg}" if len(konto) == 5 else f"Sachkonten:{konto}"
