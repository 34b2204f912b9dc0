"""The books of clients: cash book, person accounts, open items, trial balance.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn_client.calls.declarations import get, pages, post
from kontobahn_client.models.books import (
    Belegtyp,
    Buchung,
    GebuchteBuchungen,
    Import,
    ImportMitProtokoll,
    Kassenbericht,
    Kassenbuch,
    Kassenbucheintrag,
    Kassenbuchzeile,
    Kontozeile,
    LedgerConnections,
    NeueBuchungen,
    NeuerKassenbucheintrag,
    Personenkonto,
    PersonenkontoAntwort,
    Rechnungsordner,
    Rechte,
    Storno,
    Uebermittlung,
)
from kontobahn_client.models.common import Data, File, Page
from kontobahn_client.models.reports import Bwa, Faelligkeiten, Opos, SusaZeile, Umsatzsteuer, Zahlungsbedingung
from kontobahn_client.transport.exchange import FileBody


class LedgerCalls:
    @get("/v2/ledger-rewe-read/connections")
    def list_rewe_connections(self, *, organization_id: str | None = None) -> LedgerConnections:
        """List the organisation's accounting connections."""

    @get("/v2/ledger-duo/connections")
    def list_duo_connections(self, *, organization_id: str | None = None) -> LedgerConnections:
        """List the organisation's cash book and document connections."""

    @post("/v2/ledger-duo/kassenbuch-advanced")
    def create_kassenbucheintrag(
        self,
        connection_id: str,
        body: NeuerKassenbucheintrag,
        *,
        client_id: str | None = None,
        another: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Kassenbucheintrag:
        """Create a cash book entry, with receipt images."""

    @pages("/v2/ledger-duo/kassenbuch", Kassenbuchzeile, limit=1000)
    def list_kassenbucheintraege(
        self,
        connection_id: str,
        kassenname: str,
        *,
        client_id: str | None = None,
        from_date: date | None = None,
        to_date: date | None = None,
        from_id: str | None = None,
        sort: Literal["datum", "nummer"] | None = None,
        limit: int | None = None,
    ) -> Kassenbericht:
        """List what is on the account of a cash book, by day, with the balance after each row."""

    @post("/v2/ledger-duo/kassenbuch/{nummer}/storno")
    def reverse_kassenbucheintrag(
        self,
        nummer: str,
        connection_id: str,
        body: Storno,
        *,
        client_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Data[Kassenbuchzeile]:
        """Reverse a cash book entry by its opposite, dated today."""

    @get("/v2/ledger-duo/kassenbuecher")
    def list_kassenbuecher(
        self, connection_id: str, *, client_id: str | None = None, zweck: Literal["dropdown"] | None = None
    ) -> Page[Kassenbuch]:
        """List the cash books."""

    @get("/v2/ledger-duo/rechnungsordner")
    def list_rechnungsordner(
        self,
        connection_id: str,
        *,
        client_id: str | None = None,
        zweck: Literal["dropdown"] | None = None,
        ordnertyp: Literal["AUSGANGSRECHNUNG", "EINGANGSRECHNUNG"] | None = None,
    ) -> Page[Rechnungsordner]:
        """List the invoice folders, of one kind or both."""

    @get("/v2/ledger-duo/belegtypen")
    def list_belegtypen(self, connection_id: str, *, client_id: str | None = None) -> Page[Belegtyp]:
        """List the document types."""

    @pages("/v2/ledger-duo/uebermittlungen", Uebermittlung)
    def list_uebermittlungen(
        self, connection_id: str, *, client_id: str | None = None, from_id: str | None = None, limit: int | None = None
    ) -> Page[Uebermittlung]:
        """List what was sent to a provider that carries it out in its own time, the latest first, with what became of it."""

    @get("/v2/ledger-duo/uebermittlungen/{id}")
    def get_uebermittlung(self, id: str, connection_id: str) -> Data[Uebermittlung]:
        """Read one of them, with its status and the provider's protocol."""

    @get("/v2/ledger-duo/belegbilder/{id}")
    def get_belegbild(self, id: str, connection_id: str, *, client_id: str | None = None) -> File:
        """Read a receipt image back, byte for byte."""

    @post("/v2/ledger-rewe/personenkonto")
    def save_personenkonto(
        self,
        connection_id: str,
        body: Personenkonto,
        *,
        client_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> PersonenkontoAntwort:
        """Create or replace a business partner."""

    @get("/v2/ledger-rewe-read/opos")
    def get_opos(
        self,
        connection_id: str,
        *,
        client_id: str | None = None,
        stichtag: date | None = None,
        filter: Literal["all", "creditors", "debitors"] | None = None,
        eb_modus: Literal["raw", "reconcile"] | None = None,
        kontonummer: str | None = None,
    ) -> Data[Opos]:
        """Open items per person account at a cut-off date."""

    @get("/v2/ledger-rewe-read/faelligkeiten")
    def get_faelligkeiten(
        self,
        connection_id: str,
        *,
        client_id: str | None = None,
        stichtag: date | None = None,
        filter: Literal["all", "creditors", "debitors"] | None = None,
        eb_modus: Literal["raw", "reconcile"] | None = None,
        kontonummer: str | None = None,
    ) -> Data[Faelligkeiten]:
        """Open items with due dates, days overdue and discounts, and their sums by age."""

    @get("/v2/ledger-rewe-read/zahlungsbedingungen")
    def list_zahlungsbedingungen(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        zweck: Literal["dropdown"] | None = None,
    ) -> Page[Zahlungsbedingung]:
        """List the payment terms of a fiscal year."""

    @get("/v2/ledger-rewe-read/susa")
    def get_susa(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        kontonummer: str | None = None,
    ) -> Page[SusaZeile]:
        """Trial balance of a fiscal year, or of one account in it."""

    @pages("/v2/ledger-rewe-read/buchungen", Buchung, limit=1000)
    def list_buchungen(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
    ) -> Page[Buchung]:
        """List the bookings of a fiscal year, ascending by id."""

    @pages("/v2/ledger-rewe-read/konten", Kontozeile, limit=1000)
    def list_konten(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        from_id: str | None = None,
        limit: int | None = None,
    ) -> Page[Kontozeile]:
        """List the accounts, ledger accounts before person accounts."""

    @get("/v2/ledger-rewe-read/umsatzsteuer")
    def get_umsatzsteuer(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        von_datum: date | None = None,
        bis_datum: date | None = None,
    ) -> Data[Umsatzsteuer]:
        """VAT figures of a fiscal year, or of days of it, by tax key and automatic account."""

    @get("/v2/ledger-rewe-read/bwa")
    def get_bwa(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        bis_periode: int | None = None,
    ) -> Data[Bwa]:
        """A simple profit and loss of a fiscal year, by period and cumulated."""

    @post("/v2/ledger-rewe/imports")
    def create_import(
        self,
        connection_id: str,
        file: FileBody,
        *,
        client_id: str | None = None,
        partial: bool | None = None,
        another: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Data[ImportMitProtokoll]:
        """Import a DATEV-format file: bookings, person accounts, account labels or payment terms."""

    @pages("/v2/ledger-rewe/imports", Import)
    def list_imports(
        self, connection_id: str, *, client_id: str | None = None, from_id: str | None = None, limit: int | None = None
    ) -> Page[Import]:
        """List what was brought into the books at once, the latest first."""

    @get("/v2/ledger-rewe/imports/{id}")
    def get_import(self, id: str, connection_id: str, *, client_id: str | None = None) -> Data[ImportMitProtokoll]:
        """Read an import with its protocol: refused rows and warnings, by line and column."""

    @post("/v2/ledger-rewe/imports/{id}/undo")
    def undo_import(
        self, id: str, connection_id: str, *, client_id: str | None = None, idempotency_key: str | None = None
    ) -> Data[ImportMitProtokoll]:
        """Undo an import of bookings."""

    @post("/v2/ledger-rewe/buchungen")
    def create_buchungen(
        self,
        connection_id: str,
        body: NeueBuchungen,
        *,
        client_id: str | None = None,
        another: bool | None = None,
        idempotency_key: str | None = None,
    ) -> GebuchteBuchungen:
        """Book: one booking or many, all of them or none."""

    @get("/v2/ledger-rewe/exports")
    def export_year(
        self,
        connection_id: str,
        geschaeftsjahr_start_datum: date,
        *,
        client_id: str | None = None,
        belege: bool | None = None,
    ) -> File:
        """Take a fiscal year out as a zip of files that can be imported again."""

    @get("/v2/ledger-rewe-read/permissions")
    def get_permissions(self, connection_id: str, *, client_id: str | None = None) -> Data[Rechte]:
        """Probe what may be read and written, area by area."""
