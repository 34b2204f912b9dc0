"""Cash books: one entry per line, numbered without gaps, chained by hash, never negative, corrected by reversal only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Struct

from kontobahn import money
from kontobahn.books import batches, cash_days, claims, posting
from kontobahn.books.batches import Protocol
from kontobahn.books.duplicates import WAY_OUT_OF_CALL, BookedRows, Lookalikes, LooksBooked
from kontobahn.books.satz import Satz, split_of_booking
from kontobahn.books.store import SUCCESS, Client, FiscalYear, find_konto, lock_years, save_task, year_of_date
from kontobahn.clock import to_datetime
from kontobahn.db import Table, Tx, chunked
from kontobahn.errors import BadRequest, Conflict, NotFound
from kontobahn.ids import new_id
from kontobahn.ledger.kassenbuch import (
    Belegbild,
    CashEntry,
    CashLine,
    Kassenbuch,
    Kassenbucheintrag,
    KassenbuchErgebnis,
    ReceiptImage,
    day_of_entry,
    line_answer,
    unknown_cash_book,
)
from kontobahn.ledger.kontierung import GROSS, PLAIN, KontierungError, split
from kontobahn.ledger.konto import Kontenrahmen, functional
from kontobahn.ledger.provider import Author
from kontobahn.ledger.steuer import STEUERFREI, era_of, key_for
from kontobahn.ledger.wire import Meldung
from kontobahn.sentences import said

# Receipts of cash entries: bytes stored once for each client, filed with the entries of a call, never changed.


# An entry that a receipt was filed with and that is not reversed.
_STANDING = (
    "SELECT f.dateiname FROM books_receipt_filings f JOIN books_cash_entries e ON e.mandant = f.mandant AND e.task = f.task"
    " WHERE f.mandant = ? AND f.sha256 = ? AND e.storno_von IS NULL AND NOT EXISTS (SELECT 1 FROM books_cash_entries s"
    " WHERE s.mandant = e.mandant AND s.kassenname = e.kassenname AND s.storno_von = e.nummer) LIMIT 1"
)


def file_image(tx: Tx, client: Client, task: str, number: int, image: ReceiptImage) -> Belegbild:
    """Stores and files a receipt. Raises Conflict if it is filed with an entry that is not reversed."""
    # Another cash book may be filing the same receipt right now.
    tx.lock("belegbild", str(client.mandant), image.sha256)
    standing = tx.one(_STANDING, client.mandant, image.sha256)
    if standing is not None:
        raise Conflict(
            said(
                "The field `belegbilder[{number}]`: this file was stored before, as “{name}”, with an"
                " entry that is not reversed.",
                number=number,
                name=standing[0],
            ),
            field=f"belegbilder[{number}]",
        )
    tx.put_large(
        "INSERT INTO books_receipts (mandant, sha256, id, task, dateiname, groesse, mime_typ, content, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (mandant, sha256) DO NOTHING",
        client.mandant, image.sha256, new_id(), task, image.dateiname, len(image.content), image.mime_typ, image.content, tx.now,
    )  # fmt: skip
    tx.run(
        "INSERT INTO books_receipt_filings (mandant, task, platz, sha256, dateiname) VALUES (?, ?, ?, ?, ?)",
        client.mandant, task, number + 1, image.sha256, image.dateiname,
    )  # fmt: skip
    (row,) = tx.all("SELECT id FROM books_receipts WHERE mandant = ? AND sha256 = ?", client.mandant, image.sha256)
    return Belegbild(
        id=row[0], dateiname=image.dateiname, groesse=len(image.content), mimeTyp=image.mime_typ, sha256=image.sha256
    )


def find_image(tx: Tx, client: Client, image_id: str) -> ReceiptImage | None:
    row = tx.one(
        "SELECT dateiname, mime_typ, sha256, content FROM books_receipts WHERE mandant = ? AND id = ?",
        client.mandant, image_id.lower(),
    )  # fmt: skip
    return None if row is None else ReceiptImage(row[0], row[1], row[2], bytes(row[3]))


class Filing(NamedTuple):
    """A receipt as it was filed; `id` is that of its bytes."""

    task: str
    id: str
    dateiname: str
    groesse: int
    mime_typ: str
    sha256: str


def filings(tx: Tx, client: Client, tasks: Iterable[str]) -> dict[str, list[Filing]]:
    """Returns the receipts that were filed with these tasks, in the order in which they were sent."""
    found: dict[str, list[Filing]] = {}
    for some, is_one in chunked(sorted(set(tasks))):
        found.update(_filings(tx, client, f"f.task {is_one}", *some))
    return found


def filings_between(tx: Tx, client: Client, first_day: str, last_day: str) -> dict[str, list[Filing]]:
    """Returns the receipts of the entries of these days, in all cash books, by task."""
    entries = "f.task IN (SELECT task FROM books_cash_entries WHERE mandant = ? AND datum BETWEEN ? AND ?)"
    return _filings(tx, client, entries, client.mandant, first_day, last_day)


def _filings(tx: Tx, client: Client, condition: str, *params: str | int) -> dict[str, list[Filing]]:
    found: dict[str, list[Filing]] = {}
    for row in tx.all(
        "SELECT f.task, r.id, f.dateiname, r.groesse, r.mime_typ, f.sha256 FROM books_receipt_filings f"
        " JOIN books_receipts r ON r.mandant = f.mandant AND r.sha256 = f.sha256"
        f" WHERE f.mandant = ? AND {condition} ORDER BY f.task, f.platz",
        client.mandant, *params,
    ):  # fmt: skip
        found.setdefault(row[0], []).append(Filing._make(row))
    return found


def size_between(tx: Tx, client: Client, first_day: str, last_day: str) -> int:
    found = filings_between(tx, client, first_day, last_day).values()
    return sum({item.id: item.groesse for items in found for item in items}.values())


def receipt_differences(tx: Tx, client: Client) -> list[str]:
    """Compares the bytes of every receipt with its checksum, one receipt at a time: together they may be gigabytes."""
    found = []
    for sha256, image_id, groesse in tx.all(
        "SELECT sha256, id, groesse FROM books_receipts WHERE mandant = ? ORDER BY id", client.mandant
    ):
        ((content,),) = tx.all(
            "SELECT content FROM books_receipts WHERE mandant = ? AND sha256 = ?", client.mandant, sha256
        )
        if hashlib.sha256(content).hexdigest() != sha256 or len(content) != groesse:
            found.append(f"receipt {image_id}: its bytes are not those that were stored.")
    return found


def filed_receipts(tx: Tx, client: Client) -> dict[str, list[str]]:
    """Returns task → checksums of its receipts, if their bytes are stored."""
    found: dict[str, list[str]] = {}
    for task, sha256 in tx.all(
        "SELECT f.task, f.sha256 FROM books_receipt_filings f JOIN books_receipts r"
        " ON r.mandant = f.mandant AND r.sha256 = f.sha256 WHERE f.mandant = ? ORDER BY f.task, f.platz",
        client.mandant,
    ):
        found.setdefault(task, []).append(sha256)
    return found


CHAIN_START = "0" * 64


class CashBook(NamedTuple):
    mandant: int
    bezeichnung: str
    konto: str
    last_nummer: int
    last_hash: str
    saldo: int


class EntryRow(NamedTuple):
    mandant: int
    kassenname: str
    nummer: int
    task: str
    booking: int
    datum: str
    betrag: int
    storno_von: int | None
    record: str
    hash: str


class EntryRecord(Struct):
    """The part of an entry that is chained, as JSON in this order of fields; amounts in cents."""

    nummer: int
    datum: str
    betrag: int
    belegtext: str
    gegenkonto: str
    belegnummer: str | None
    bu_schluessel: str | None
    kost1: str | None
    kost2: str | None
    saldo: int
    gebucht_am: int
    storno_von: int | None
    # Checksums of the receipts.
    belege: list[str]


_CASH_BOOKS = Table("books_cash_books", CashBook, key=("mandant", "bezeichnung"))
ENTRIES = Table("books_cash_entries", EntryRow, key=("mandant", "kassenname", "nummer"))
decode_record = msgspec.json.Decoder(EntryRecord).decode


def create_cash_book(tx: Tx, client: Client, bezeichnung: str, konto: str) -> None:
    """Creates the cash book of an account, with what was booked on it. Raises Conflict if the account has one."""
    tx.lock("kassenbuecher", str(client.mandant))
    # A file that is being written would not count for it.
    claims.refuse(tx, client)
    other = cash_days.cash_book_of_account(tx, client).get(konto)
    if other is not None:
        raise Conflict(
            said(
                "The account {konto} is that of the cash book “{name}”.",
                konto=functional(konto, client.konto_laenge),
                name=other,
            )
        )
    _CASH_BOOKS.insert(tx, CashBook(client.mandant, bezeichnung, konto, 0, CHAIN_START, 0))
    cash_days.rewrite(tx, client)


def remove_cash_books(tx: Tx, client: Client) -> None:
    """Removes the cash books that new books begin with, before anything is entered."""
    tx.run("DELETE FROM books_cash_books WHERE mandant = ?", client.mandant)


def create_entry(tx: Tx, client: Client, entry: CashEntry, author: Author) -> Kassenbucheintrag:
    """Makes an entry of each line, all of them or none."""
    tx.lock("kassenbuch", str(client.mandant), entry.kassenname)
    cash_book = find_cash_book(tx, client, entry.kassenname)
    datum, jahr = _day(tx, client, entry)
    if not entry.another:
        _refuse_booked(tx, client, cash_book, entry, datum, jahr)
    _check_not_negative(tx, client, entry, datum)
    task = new_id()
    images = [file_image(tx, client, task, number, image) for number, image in enumerate(entry.images)]
    cash_book, warnings = _book(tx, client, cash_book, entry, datum, jahr, task)
    now = to_datetime(tx.now)
    meldungen = [
        Meldung(dateiname=image.dateiname, nachricht="Das Belegbild wurde gespeichert.", zeitstempel=now, typ="INFO")
        for image in images
    ]
    meldungen += [Meldung(dateiname=None, nachricht=text, zeitstempel=now, typ="WARNUNG") for text in warnings]
    last = cash_book.last_nummer
    first = last - len(entry.lines) + 1
    booked = f"Die Kassenbucheinträge {first} bis {last} wurden gebucht."
    if first == last:
        booked = f"Der Kassenbucheintrag {last} wurde gebucht."
    meldungen.append(Meldung(dateiname=None, nachricht=booked, zeitstempel=now, typ="INFO"))
    save_task(tx, client, task, "kassenbuch", SUCCESS, meldungen, author)
    return Kassenbucheintrag(
        erstellungsdatum=now,
        waehrung=entry.waehrung,
        kassenname=entry.kassenname,
        betrag=money.to_wire(entry.betrag),
        transaktionsdatum=entry.transaktionsdatum,
        belegzeilen=[line_answer(line, entry, now) for line in entry.lines],
        belegbilder=images,
        ledgerAntwort=KassenbuchErgebnis(status=SUCCESS, meldungen=meldungen),
    )


def reverse_entry(
    tx: Tx, client: Client, kassenname: str, nummer: int, reason: str, author: Author | None = None
) -> int:
    """Reverses an entry by its opposite, today, and returns the number of the reversal."""
    tx.lock("kassenbuch", str(client.mandant), kassenname)
    cash_book = find_cash_book(tx, client, kassenname)
    scope = (client.mandant, kassenname, nummer)
    found = ENTRIES.one(tx, "mandant = ? AND kassenname = ? AND nummer = ?", *scope)
    if found is None:
        raise NotFound(said("The cash book “{name}” has no entry {number}.", name=kassenname, number=nummer))
    reversal = ENTRIES.one(tx, "mandant = ? AND kassenname = ? AND storno_von = ?", *scope)
    if reversal is not None:
        raise Conflict(
            said("Entry {number} has already been reversed, by entry {by}.", number=nummer, by=reversal.nummer)
        )
    original = decode_record(found.record)
    line = CashLine(
        belegtext=f"Storno {nummer}: {reason}"[:60], gegenkonto=original.gegenkonto, betrag=-original.betrag,
        beleg_nummer=original.belegnummer, prozent=None, bu_schluessel=original.bu_schluessel,
        kostenstellen=(original.kost1, original.kost2),
    )  # fmt: skip
    entry = CashEntry(kassenname, "EUR", line.betrag, to_datetime(tx.now), (line,), ())
    datum, jahr = _day(tx, client, entry)
    _check_not_negative(tx, client, entry, datum)
    aufteilung = split_of_booking(tx, client, found.booking)
    task = new_id()
    cash_book, _ = _book(tx, client, cash_book, entry, datum, jahr, task, storno_von=nummer, aufteilung=aufteilung)
    if author is not None:
        text = f"Der Kassenbucheintrag {nummer} wurde durch {cash_book.last_nummer} storniert: {reason}"
        meldung = Meldung(dateiname=None, nachricht=text, zeitstempel=to_datetime(tx.now), typ="INFO")
        save_task(tx, client, task, "kassenbuch", SUCCESS, [meldung], author)
    return cash_book.last_nummer


def find_cash_book(tx: Tx, client: Client, name: str) -> CashBook:
    found = _CASH_BOOKS.one(tx, "mandant = ? AND bezeichnung = ?", client.mandant, name)
    if found is None:
        known = _CASH_BOOKS.all(tx, "mandant = ? ORDER BY bezeichnung", client.mandant)
        raise unknown_cash_book(name, [cash_book.bezeichnung for cash_book in known])
    return found


def _day(tx: Tx, client: Client, entry: CashEntry) -> tuple[str, FiscalYear]:
    """Returns the entry's day in Berlin and its fiscal year."""
    day = day_of_entry(entry, tx.now)
    lock_years(tx, client)
    jahr = year_of_date(tx, client, day.isoformat())
    if jahr is None:
        raise Conflict(
            said("The client has no fiscal year for {day}: it is opened in the books first.", day=day),
            field="transaktionsdatum",
        ).retryable()
    return day.isoformat(), jahr


def _refuse_booked(tx: Tx, client: Client, cash_book: CashBook, entry: CashEntry, datum: str, jahr: FiscalYear) -> None:
    """Raises LooksBooked if a file or call has booked what looks like a line. Equal entries of a cash book are no rarity."""
    booked = BookedRows(tx, client, jahr, claims.take_place(tx, client).last, cash_book.konto)
    rows = [
        (
            number,
            Satz(
                umsatz=abs(line.betrag), soll=line.betrag > 0, konto=cash_book.konto, belegdatum=datum,
                gegenkonto=find_konto(tx, client, line.gegenkonto, f"belegzeilen[{number}].gegenkonto"),
                belegfeld1=line.beleg_nummer or "", buchungstext=line.belegtext,
            ),
        )
        for number, line in enumerate(entry.lines)
    ]  # fmt: skip
    protocol, lookalikes = Protocol(), Lookalikes(booked)
    for number, like in sorted(booked.likes(rows).items()):
        lookalikes.add(number + 1, like)
    if lookalikes.count:
        lookalikes.refuse(protocol)
        raise LooksBooked(lookalikes, protocol, WAY_OUT_OF_CALL)


def _check_not_negative(tx: Tx, client: Client, entry: CashEntry, datum: str) -> None:
    """Raises Conflict if the cash balance would be negative after any line, or at the end of any later day.

    Files may have made it negative before; a line that takes nothing out is booked nevertheless.
    """
    # Choice 13: refused with 409.
    of_days = cash_days.days(tx, client, entry.kassenname)
    running = cash_days.balance_on(of_days, datum)
    for number, line in enumerate(entry.lines):
        running += line.betrag
        if running < 0 and line.betrag < 0:
            _refuse(f"belegzeilen[{number}].betrag", entry.kassenname, datum, running - line.betrag, line.betrag)
    for day in of_days:
        if day.datum <= datum:
            continue
        if day.eb is not None or entry.betrag >= 0:
            break
        running += day.bewegung
        if running < 0:
            _refuse("betrag", entry.kassenname, day.datum, running - entry.betrag, entry.betrag)


def _refuse(field: str, kassenname: str, day: str, saldo: int, betrag: int) -> NoReturn:
    raise Conflict(
        said(
            "The cash book “{name}” holds {amount} EUR on {day}; {amount_out} EUR would make it negative.",
            name=kassenname,
            amount=money.from_minor(saldo),
            day=day,
            amount_out=money.from_minor(betrag),
        ),
        field=field,
        kassensaldo=money.from_minor(saldo),
    )


def _book(
    tx: Tx, client: Client, cash_book: CashBook, entry: CashEntry, datum: str, jahr: FiscalYear, task: str,
    *, storno_von: int | None = None, aufteilung: str = "",
) -> tuple[CashBook, list[str]]:  # fmt: skip
    """Posts and numbers the lines. Returns the cash book after them, and warnings for the bookkeeper.

    A reversal is split as the entry was that it reverses: `aufteilung`.
    """
    batch = batches.open_batch(
        tx, client, jahr, kind=batches.CASH, source=f"cash book “{entry.kassenname}”", sha256=f"task {task}"
    )
    poster = posting.begin(tx, client, batch, cash_book=(cash_book.konto, entry.kassenname))
    before, warnings = cash_book, list[str]()
    belege = [image.sha256 for image in entry.images]
    for number, sent in enumerate(entry.lines):
        gegenkonto = find_konto(tx, client, sent.gegenkonto, f"belegzeilen[{number}].gegenkonto")
        key = key_of_line(client.rahmen, number, sent, cash_book.konto, gegenkonto, datum)
        line = sent._replace(bu_schluessel=key or None)
        satz = Satz(
            umsatz=abs(line.betrag), soll=line.betrag > 0, konto=cash_book.konto, gegenkonto=gegenkonto, belegdatum=datum,
            bu_schluessel=key, belegfeld1=line.beleg_nummer or "", buchungstext=line.belegtext,
            kost1=line.kostenstellen[0] or "", kost2=line.kostenstellen[1] or "",
        )  # fmt: skip
        try:
            booking = poster.add(satz, aufteilung=aufteilung)
        except KontierungError as error:
            name = "steuersatz.buSchluessel" if error.field == "BU-Schlüssel" else "gegenkonto"
            path = f"belegzeilen[{number}].{name}"
            raise BadRequest(
                said("The field `{path}`: {field} {reason}.", path=path, field=error.field, reason=error.reason),
                field=path,
            ) from None
        if poster.hint is not None:
            warnings.append(f"Zeile {number + 1}: {poster.hint.meldung}")
        cash_book = _append(tx, client, cash_book, line, satz, task, booking, storno_von, belege)
    poster.finish()
    _CASH_BOOKS.update(
        tx, before, last_nummer=cash_book.last_nummer, last_hash=cash_book.last_hash, saldo=cash_book.saldo
    )
    # An entry may take from another cash book by naming its account.
    others = poster.moved_cash_books - {entry.kassenname}
    warnings += map(cash_days.meldung, cash_days.negative(tx, client, others))
    return cash_book, warnings


def _append(
    tx: Tx, client: Client, cash_book: CashBook, line: CashLine, satz: Satz, task: str, booking: int,
    storno_von: int | None, belege: list[str],
) -> CashBook:  # fmt: skip
    """Writes the next entry of the chain, and returns the cash book that ends with it."""
    nummer, saldo = cash_book.last_nummer + 1, cash_book.saldo + line.betrag
    record = msgspec.json.encode(
        EntryRecord(
            nummer=nummer, datum=satz.belegdatum, betrag=line.betrag, belegtext=line.belegtext,
            gegenkonto=functional(satz.gegenkonto, client.konto_laenge), belegnummer=line.beleg_nummer,
            bu_schluessel=line.bu_schluessel, kost1=line.kostenstellen[0], kost2=line.kostenstellen[1], saldo=saldo,
            gebucht_am=tx.now, storno_von=storno_von, belege=belege,
        )
    )  # fmt: skip
    hashed = chain(cash_book.last_hash, record)
    ENTRIES.insert(
        tx,
        EntryRow(
            mandant=client.mandant, kassenname=cash_book.bezeichnung, nummer=nummer, task=task, booking=booking,
            datum=satz.belegdatum, betrag=line.betrag, storno_von=storno_von, record=record.decode(), hash=hashed,
        ),
    )  # fmt: skip
    return cash_book._replace(last_nummer=nummer, last_hash=hashed, saldo=saldo)


def chain(previous: str, record: bytes) -> str:
    """Returns the hash of an entry, which covers the one before it: a change anywhere shows in every later entry."""
    return hashlib.sha256(previous.encode() + b"\n" + record).hexdigest()


# --- The tax of a line: a rate that was stated is booked, or the line is refused


def key_of_line(rahmen: Kontenrahmen, number: int, line: CashLine, konto: str, gegenkonto: str, datum: str) -> str:
    """Returns the key to book the line by. Raises BadRequest if the stated rate contradicts it, or if no key fits the rate."""
    key = line.bu_schluessel or ""
    stated = line.prozent
    if stated is None or konto == gegenkonto:
        return key
    era = era_of(datum)
    found = split(rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=key, era=era)
    if key and found.text == GROSS:
        _refuse_tax(
            number,
            "buSchluessel",
            said("the key {key} does not say how {percent} % would be booked here", key=key, percent=_plain(stated)),
        )
    if key or found.text not in (PLAIN, GROSS):
        if stated != found.prozent:
            what = f"the key {key}" if key else f"the account {line.gegenkonto}"
            _refuse_tax(
                number,
                "prozent",
                said(
                    "{percent} % contradicts {what}, which stands for {meant} %",
                    percent=_plain(stated),
                    what=what,
                    meant=found.prozent,
                ),
            )
        return key
    if stated == 0:
        return ""
    chosen = key_for(int(stated), era, is_income=line.betrag > 0) if stated == int(stated) else None
    if chosen is None:
        _refuse_tax(
            number, "prozent", said("no tax key stands for {percent} % on {day}", percent=_plain(stated), day=datum)
        )
    booked = split(rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=chosen, era=era)
    if booked.text[0] in (GROSS, PLAIN, STEUERFREI):
        _refuse_tax(number, "prozent", said("the account {konto} carries no tax", konto=line.gegenkonto))
    return chosen


def _refuse_tax(number: int, name: str, reason: str) -> NoReturn:
    path = f"belegzeilen[{number}].steuersatz.{name}"
    raise BadRequest(said("The field `{path}`: {reason}.", path=path, reason=reason), field=path)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"


def kassenbuecher(tx: Tx, client: Client) -> list[Kassenbuch]:
    rows = tx.all("SELECT bezeichnung FROM books_cash_books WHERE mandant = ? ORDER BY bezeichnung", client.mandant)
    return [Kassenbuch(bezeichnung=name) for (name,) in rows]
