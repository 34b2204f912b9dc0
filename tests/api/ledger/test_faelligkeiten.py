"""GET /v2/ledger-rewe-read/faelligkeiten."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.json_text import encode_text
from kontobahn.ledger.books import importing, persons, reading
from kontobahn.ledger.books.importing import zahlungsbedingung
from tests.harness import Service
from tests.ledger_builder import Books

PATH = "/v2/ledger-rewe-read/faelligkeiten"
BY_DAYS = extf.Zahlungsbedingung(
    line=0, nummer=11, bezeichnung="5 Tage 3 %, 10 Tage 2 %, 30 Tage netto", faelligkeitstyp=1, skonto1_prozent=Decimal("3.00"),
    skonto1_tage=5, skonto2_prozent=Decimal("2.00"), skonto2_tage=10, faellig_tage=30, zeitraeume=(), verwendung=0,
)  # fmt: skip
BY_PERIOD = BY_DAYS._replace(
    nummer=14, faelligkeitstyp=2, skonto2_prozent=Decimal("0.00"), faellig_tage=0,
    zeitraeume=(extf.Zeitraum(10, 20, 0, 0, 0, 31, 0), extf.Zeitraum(20, 31, 0, 0, 0, 10, 1), extf.Zeitraum(31, 10, 1, 0, 0, 20, 1)),
)  # fmt: skip


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def give_terms(books: Books, konto: str, terms: extf.Zahlungsbedingung) -> None:
    """A partner whose row of a file names these terms."""

    def write(tx: Tx) -> None:
        reading.save_zahlungsbedingung(tx, books.client, zahlungsbedingung(terms))
        row = extf.Personenkonto(
            line=0, konto=konto, name="", vorname="", firmenname="Beispiel GmbH", name_ohne_angabe="", adressattyp="2", anrede="",
            ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=terms.nummer,
            kurzbezeichnung="", weitere="",
        )  # fmt: skip
        header = extf.make_header(
            extf.PERSONENKONTEN, erzeugt_am=None, berater=29098, mandant=55003, wj_beginn=date(2026, 1, 1), sachkontenlaenge=4,
        ) if False else None  # fmt: skip
        del header
        person = importing._as_personenkonto(books.client, _File(), row)  # type: ignore[arg-type]
        persons.store(tx, books.client, f"{konto}0000", person, extf=encode_text(row))

    books.service.db.write_now(write)


class _File:
    class header:
        wj_beginn = date(2026, 1, 1)
