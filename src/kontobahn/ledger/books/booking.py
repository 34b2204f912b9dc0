"""Bookings that are sent by call: the same rules, warnings and look at what is booked already as for a file. All of them or none."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.extf import RowWarning
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.accounting import Meldung
from kontobahn.ledger.books import batches, cash_days, posting
from kontobahn.ledger.books.booked import BookedRows, Lookalikes, LooksBooked
from kontobahn.ledger.books.konten import find_konto
from kontobahn.ledger.books.posting import Poster, Satz
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.store import Client, FiscalYear, lock_years, years
from kontobahn.ledger.books.tasks import SUCCESS, save_task
from kontobahn.ledger.buchung import BuchungenErgebnis, GebuchteBuchungen, NeueBuchung, cents
from kontobahn.ledger.kontierung import KontierungError
from kontobahn.ledger.provider import Author
from kontobahn.ledger.steuerschluessel import is_reversal

_FIELDS = {"BU-Schlüssel": "buSchluessel", "Gegenkonto": "gegenkonto", "Konto": "konto", "Skonto": "skonto"}
_WAY_OUT = "If they are other bookings, say so with another=true."
# The column of a file that says when an invoice is due, written TTMMJJJJ.
_FAELLIGKEIT = "117"


class _Findings(NamedTuple):
    """What is found about the bookings: line by line, and in the words of the contract's messages."""

    protocol: Protocol
    meldungen: list[str]


class _Numbered(NamedTuple):
    """A booking with its place in the body."""

    number: int
    satz: Satz


def book(tx: Tx, client: Client, buchungen: list[NeueBuchung], author: Author, *, another: bool) -> GebuchteBuchungen:
    lock_years(tx, client)
    of_year: dict[FiscalYear, list[_Numbered]] = {}
    known = years(tx, client)
    for number, buchung in enumerate(buchungen):
        jahr = _year(known, number, buchung)
        of_year.setdefault(jahr, []).append(_Numbered(number, _as_satz(tx, client, number, buchung)))
    findings = _Findings(Protocol(), [])
    ids: dict[int, int] = {}
    made = [
        _book_year(tx, client, jahr, of_year[jahr], author, findings, ids, another=another) for jahr in sorted(of_year)
    ]
    for batch_id in made:
        batches.describe(tx, client, batch_id, 0, findings.protocol)
    return _answer(tx, client, author, [str(ids[number]) for number in range(len(buchungen))], made, findings)


def _book_year(
    tx: Tx, client: Client, jahr: FiscalYear, numbered: list[_Numbered], author: Author, findings: _Findings,
    ids: dict[int, int], *, another: bool,
) -> str:  # fmt: skip
    """Posts the bookings of one fiscal year, and returns their batch."""
    batch = posting.open_batch(
        tx,
        client,
        jahr,
        kind=batches.CALL,
        source=author.quelle,
        author=author.actor,
        sha256=f"call {author.request_id}",
    )
    poster = Poster(tx, client, batch)
    booked = BookedRows(tx, client, jahr, poster)
    lookalikes = Lookalikes(booked, findings.protocol)
    for number, satz in numbered:
        like = None if another else booked.take(satz)
        if like is not None:
            lookalikes.refuse(number + 1, like, "booking")
            continue
        try:
            ids[number] = poster.add(satz)
            if poster.hint is not None:
                findings.protocol.add(RowWarning(number + 1, *poster.hint[:3]))
                findings.meldungen.append(f"Buchung {number + 1}: {poster.hint.meldung}")
        except KontierungError as error:
            path = f"buchungen[{number}].{_FIELDS.get(error.field, 'konto')}"
            raise BadRequest(f"The field `{path}`: {error.field} {error.reason}.", field=path) from None
    if lookalikes.count:
        raise LooksBooked(lookalikes, _WAY_OUT)
    poster.finish()
    for negative in cash_days.negative(tx, client, poster.moved_cash_books):
        findings.protocol.add(cash_days.warning(negative))
        findings.meldungen.append(cash_days.meldung(negative))
    return batch.id


def _year(known: list[FiscalYear], number: int, buchung: NeueBuchung) -> FiscalYear:
    day = buchung.belegdatum.isoformat()
    for jahr in known:
        if jahr.start <= day <= jahr.end:
            return jahr
    raise Conflict(
        f"The client has no fiscal year for {day}: it is opened in the books first.",
        field=f"buchungen[{number}].belegdatum",
    ).retryable()


def _as_satz(tx: Tx, client: Client, number: int, buchung: NeueBuchung) -> Satz:
    path = f"buchungen[{number}]"
    konto = find_konto(tx, client, buchung.konto, f"{path}.konto")
    gegenkonto = find_konto(tx, client, buchung.gegenkonto, f"{path}.gegenkonto")
    kost = buchung.kostenstellen
    return Satz(
        umsatz=cents(buchung.umsatz) or 0,
        soll=buchung.sollHabenKennzeichen == "SOLL",
        konto=konto,
        gegenkonto=gegenkonto,
        belegdatum=buchung.belegdatum.isoformat(),
        bu_schluessel=(buchung.buSchluessel or "").lstrip("0"),
        belegfeld1=buchung.belegfeld1 or "",
        buchungstext=buchung.buchungstext or "",
        waehrung=buchung.waehrung,
        kurs=(buchung.kurs or "").replace(".", ","),
        basis_umsatz=cents(buchung.basisUmsatz),
        belegfeld2=buchung.belegfeld2 or "",
        skonto=cents(buchung.skonto) or 0,
        kost1=(kost.kost1 if kost else None) or "",
        kost2=(kost.kost2 if kost else None) or "",
        # As in a file: the keys 2x, 3x, 6x, 7x and 8x say it as well.
        generalumkehr=buchung.generalumkehr or is_reversal(buchung.buSchluessel or ""),
        weitere=encode({_FAELLIGKEIT: f"{buchung.faelligkeit:%d%m%Y}"}).decode() if buchung.faelligkeit else "",
    )


def _answer(
    tx: Tx, client: Client, author: Author, ids: list[str], made: list[str], findings: _Findings
) -> GebuchteBuchungen:
    now = to_datetime(tx.now)
    booked = f"{len(ids)} Buchungen wurden gebucht." if len(ids) > 1 else f"Die Buchung {ids[0]} wurde gebucht."
    meldungen = [Meldung(dateiname=None, nachricht=text, zeitstempel=now, typ="WARNUNG") for text in findings.meldungen]
    meldungen.append(Meldung(dateiname=None, nachricht=booked, zeitstempel=now, typ="INFO"))
    save_task(tx, client, new_id(), batches.CALL, SUCCESS, meldungen, author)
    return GebuchteBuchungen(
        ids=ids,
        importe=made,
        protokoll=findings.protocol.lines(),
        ledgerAntwort=BuchungenErgebnis(status=SUCCESS, meldungen=meldungen),
    )
