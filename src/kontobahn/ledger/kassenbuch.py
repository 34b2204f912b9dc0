"""Cash books: an entry as it is sent, checked to the last cent and byte, and answered; folders and document types.

Without the calls (`routes/duo.py`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, field

from kontobahn import money
from kontobahn.api.answers import NOT_YET_KNOWN, Platform
from kontobahn.api.wire import Answer, Body, Timestamp, Uuid, form
from kontobahn.clock import berlin_date, from_datetime
from kontobahn.errors import BadRequest, TooLarge
from kontobahn.ledger.steuer import is_reversal
from kontobahn.ledger.wire import Kontonummer, Meldung, booked_amount, check_booked, words_on_one_line
from kontobahn.sentences import said

# Choice 7: a receipt image may have 20 MB decoded.
MAX_IMAGE_BYTES = 20_000_000
# Four characters are three bytes, so a slice of a multiple of four stands for itself.
_BASE64_SLICE = 256 * 1024
_DATA_PREFIX = re.compile(r"data:[^,]{0,200};base64,")
_UNSAFE_IN_NAME = re.compile(r"[^ &()+\-._0-9A-Za-zÀ-ÿ]")
# Choice 13: the first bytes decide the type, and the extension must agree.
_MAGIC = (
    (b"%PDF-", "application/pdf", ("pdf",)),
    (b"\xff\xd8\xff", "image/jpeg", ("jpg", "jpeg")),
    (b"\x89PNG\r\n\x1a\n", "image/png", ("png",)),
    (b"GIF87a", "image/gif", ("gif",)),
    (b"GIF89a", "image/gif", ("gif",)),
    (b"II*\0", "image/tiff", ("tif", "tiff")),
    (b"MM\0*", "image/tiff", ("tif", "tiff")),
    (b"<?xml", "application/xml", ("xml",)),
    (b"\xef\xbb\xbf<?xml", "application/xml", ("xml",)),
)
MEDIA_TYPES = tuple(sorted({mime_typ for _, mime_typ, _ in _MAGIC}))

Kurztext = Annotated[str, words_on_one_line(60)]
Kassenname = Annotated[str, Meta(min_length=1, max_length=100)]
Kost = Annotated[str, words_on_one_line(36)]
# Choice 7 and 13: sizes of a cash book entry.
MAX_LINES, MAX_IMAGES = 5_000, 50


class Steuersatz(Body):
    prozent: Annotated[Decimal, Meta(description="Rate in percent.", examples=[19])] | None = None
    buSchluessel: Annotated[str, form("a tax key of up to 4 digits", r"^[0-9]{0,4}$", examples=["9"])] | None = None


class NeueBelegzeile(Body, kw_only=True):
    belegtext: Kurztext
    gegenkonto: Kontonummer
    betrag: Annotated[Decimal, booked_amount(description="Positive: income; negative: expense.", examples=[-11.9])]
    belegNummer: (
        Annotated[str, form("up to 36 of the characters A-Z a-z 0-9 $ & % * + - /", r"^[a-zA-Z0-9$&%+*/-]{1,36}$")]
        | None
    ) = None
    steuersatz: Steuersatz | None = None
    kostenstelle1: Kost | None = None
    kostenstelle2: Kost | None = None


class NeuesBelegbild(Body):
    content: Annotated[str, Meta(min_length=1, description="The file in base64.")]
    dateiname: Annotated[str, Meta(min_length=1, max_length=255, examples=["Quittung.pdf"])]


class NeuerKassenbucheintrag(Body, kw_only=True):
    # Choice 13: what a cash book entry must have.
    waehrung: Literal["EUR"]
    kassenname: Kassenname
    betrag: Annotated[Decimal, Meta(description="The sum of the lines.", examples=[-11.9])]
    transaktionsdatum: Timestamp
    belegzeilen: Annotated[list[NeueBelegzeile], Meta(min_length=1, max_length=MAX_LINES)]
    belegbilder: Annotated[list[NeuesBelegbild], Meta(max_length=MAX_IMAGES)] = field(default_factory=list)


class SteuersatzAngabe(Answer):
    prozent: Decimal | None
    buSchluessel: str | None


class Kostenstelle(Answer):
    name: str


class Belegzeile(Answer):
    gegenkonto: str
    erstellungsdatum: Timestamp
    waehrung: str
    belegtext: str
    belegnummer: str | None
    betrag: Decimal
    steuersatz: SteuersatzAngabe | None
    kostenstellen: list[Kostenstelle]


class Belegbild(Answer):
    id: Uuid
    dateiname: str
    groesse: int
    mimeTyp: str
    sha256: str


class KassenbuchErgebnis(Answer):
    status: str
    meldungen: list[Meldung]
    uebermittlungId: (
        Annotated[Uuid, Meta(description="Where the provider carries it out in its own time: what to ask after.")]
        | UnsetType
    ) = UNSET


class Kassenbucheintrag(Answer, kw_only=True):
    erstellungsdatum: Timestamp
    waehrung: str
    kassenname: str
    betrag: Decimal
    transaktionsdatum: Timestamp
    belegzeilen: list[Belegzeile]
    belegbilder: list[Belegbild]
    ledgerAntwort: KassenbuchErgebnis | None
    platform: Platform = NOT_YET_KNOWN


# An entry of the cash book, another booking on its account, or the opening balance of a fiscal year.
Kassenzeilenart = Literal["EINTRAG", "BUCHUNG", "SALDOVORTRAG"]


class Kassenbuchzeile(Answer, kw_only=True):
    """A row of the cash report: an entry as it is kept (one line of a call, with its number), or another booking on the account."""

    id: str
    art: Kassenzeilenart
    nummer: int | None = None
    buchungId: str | None = None
    datum: date
    betrag: Decimal
    saldo: Decimal
    belegtext: str
    gegenkonto: str
    belegnummer: str | None = None
    buSchluessel: str | None = None
    kostenstellen: list[Kostenstelle] = field(default_factory=list)
    belegbilder: list[Belegbild] = field(default_factory=list)
    gebuchtAm: Timestamp | None = None
    stornoVon: int | None = None
    storniertDurch: int | None = None


class Kassenbericht(Answer, kw_only=True):
    """The rows, and the balance before the first and after the last of them; null in the order of the numbers."""

    data: list[Kassenbuchzeile]
    anfangsbestand: Decimal | None
    endbestand: Decimal | None
    platform: Platform = NOT_YET_KNOWN


class CashReport(NamedTuple):
    """Rows of a cash book, and the balance before the first and after the last of them."""

    zeilen: list[Kassenbuchzeile]
    anfangsbestand: Decimal | None
    endbestand: Decimal | None


class KassenbuchSelection(NamedTuple):
    """The rows of a cash book that are asked for."""

    kassenname: str
    from_date: date | None = None
    to_date: date | None = None
    # The id of a row or the number of an entry; empty for the beginning.
    from_id: str = ""
    limit: int | None = None
    sort: Literal["datum", "nummer"] = "datum"


class Storno(Body, kw_only=True):
    kassenname: Kassenname
    grund: Annotated[Kurztext, Meta(examples=["Betrag falsch erfasst"])]


Ordnertyp = Literal["EINGANGSRECHNUNG", "AUSGANGSRECHNUNG"]


class Kassenbuch(Answer):
    bezeichnung: str


class Rechnungsordner(Answer):
    bezeichnung: str
    ordnertyp: Ordnertyp


class Belegtyp(Answer):
    bezeichnung: str
    kategorie: str


# --- From the body to an entry that can be booked


class CashLine(NamedTuple):
    """A line of an entry; `betrag` is in cents, positive for income."""

    belegtext: str
    gegenkonto: str
    betrag: int
    beleg_nummer: str | None
    prozent: Decimal | None
    bu_schluessel: str | None
    kostenstellen: tuple[str | None, str | None]


class ReceiptImage(NamedTuple):
    dateiname: str
    mime_typ: str
    sha256: str
    content: bytes


class CashEntry(NamedTuple):
    kassenname: str
    waehrung: str
    betrag: int
    transaktionsdatum: datetime
    lines: tuple[CashLine, ...]
    images: tuple[ReceiptImage, ...]
    # Lines that look booked already are other bookings.
    another: bool = False


def check(body: NeuerKassenbucheintrag) -> CashEntry:
    """Returns the entry in cents and bytes. Raises BadRequest that names the invalid field."""
    lines = tuple(_line(number, zeile) for number, zeile in enumerate(body.belegzeilen))
    betrag = money.to_minor(body.betrag)
    total = sum(line.betrag for line in lines)
    if total != betrag:
        raise BadRequest(
            said(
                "The field `betrag` must be the sum of the lines: it is {amount}, they add up to {amount_sum}.",
                amount=money.from_minor(betrag),
                amount_sum=money.from_minor(total),
            ),
            field="betrag",
        )
    return CashEntry(
        kassenname=body.kassenname,
        waehrung=body.waehrung,
        betrag=betrag,
        transaktionsdatum=body.transaktionsdatum,
        lines=lines,
        images=_images(body.belegbilder),
    )


def _line(number: int, zeile: NeueBelegzeile) -> CashLine:
    path = f"belegzeilen[{number}].betrag"
    check_booked(path, zeile.betrag)
    betrag = money.to_minor(zeile.betrag)
    if betrag == 0:
        raise BadRequest(said("The field `{path}` must not be 0.", path=path), field=path)
    steuersatz = zeile.steuersatz
    if steuersatz and is_reversal(steuersatz.buSchluessel or ""):
        path = f"belegzeilen[{number}].steuersatz.buSchluessel"
        raise BadRequest(
            said(
                "The field `{path}` is the key of a Generalumkehr: an entry of a cash book is reversed by its Storno.",
                path=path,
            ),
            field=path,
        )
    return CashLine(
        belegtext=zeile.belegtext,
        gegenkonto=zeile.gegenkonto,
        betrag=betrag,
        beleg_nummer=zeile.belegNummer,
        prozent=steuersatz.prozent if steuersatz else None,
        bu_schluessel=((steuersatz.buSchluessel or "").lstrip("0") or None) if steuersatz else None,
        kostenstellen=(zeile.kostenstelle1, zeile.kostenstelle2),
    )


def _images(belegbilder: list[NeuesBelegbild]) -> tuple[ReceiptImage, ...]:
    images: list[ReceiptImage] = []
    seen: dict[str, int] = {}
    for number, belegbild in enumerate(belegbilder):
        image = _image(f"belegbilder[{number}]", belegbild)
        if image.sha256 in seen:
            raise BadRequest(
                said(
                    "The field `belegbilder[{number}]` is the same file as `belegbilder[{other}]`.",
                    number=number,
                    other=seen[image.sha256],
                ),
                field=f"belegbilder[{number}]",
            )
        seen[image.sha256] = number
        images.append(image)
    return tuple(images)


def _image(name: str, belegbild: NeuesBelegbild) -> ReceiptImage:
    prefix = _DATA_PREFIX.match(belegbild.content)
    start = prefix.end() if prefix else 0
    if len(belegbild.content) - start > MAX_IMAGE_BYTES * 4 // 3 + 8:
        raise TooLarge(
            said("The field `{name}.content` is larger than {limit} bytes decoded.", name=name, limit=MAX_IMAGE_BYTES),
            field=f"{name}.content",
        )
    try:
        content = _from_base64(belegbild.content, start)
    except (binascii.Error, ValueError):
        raise BadRequest(
            said("The field `{name}.content` is not base64.", name=name), field=f"{name}.content"
        ) from None
    if not content:
        raise BadRequest(said("The field `{name}.content` is an empty file.", name=name), field=f"{name}.content")
    if len(content) > MAX_IMAGE_BYTES:
        raise TooLarge(
            said("The field `{name}.content` is larger than {limit} bytes decoded.", name=name, limit=MAX_IMAGE_BYTES),
            field=f"{name}.content",
        )
    # The call keeps its body to the end, and the text is larger than the file.
    belegbild.content = ""
    dateiname = safe_file_name(belegbild.dateiname)
    return ReceiptImage(dateiname, _mime_typ(name, dateiname, content), hashlib.sha256(content).hexdigest(), content)


def _from_base64(text: str, start: int) -> bytes:
    """Decodes in slices: each keeps Python's lock until it is done, and other calls run in between."""
    # One block, which goes back to the system whole.
    whole = BytesIO()
    for position in range(start, len(text), _BASE64_SLICE):
        part = text[position : position + _BASE64_SLICE]
        if part.endswith("=") and position + _BASE64_SLICE < len(text):
            raise ValueError("padding before the end")
        whole.write(base64.b64decode(part, validate=True))
    return whole.getvalue()


def safe_file_name(name: str) -> str:
    return _UNSAFE_IN_NAME.sub("_", unicodedata.normalize("NFC", name))


def _mime_typ(name: str, dateiname: str, content: bytes) -> str:
    _, dot, extension = dateiname.lower().rpartition(".")
    for magic, mime_typ, extensions in _MAGIC:
        if content.startswith(magic):
            if not dot or extension not in extensions:
                raise BadRequest(
                    said(
                        "The field `{name}.dateiname` must end in .{endings}: the file is {kind}.",
                        name=name,
                        endings=" or .".join(extensions),
                        kind=mime_typ,
                    ),
                    field=f"{name}.dateiname",
                )
            return mime_typ
    raise BadRequest(
        said("The field `{name}.content` is not a PDF, JPEG, PNG, GIF, TIFF or XML file.", name=name),
        field=f"{name}.content",
    )


def day_of_entry(entry: CashEntry, now: int) -> date:
    """Returns the entry's day in Berlin. Raises BadRequest if it has not come yet."""
    try:
        day = berlin_date(from_datetime(entry.transaktionsdatum))
    except (ValueError, OverflowError):
        raise BadRequest("The field `transaktionsdatum` is outside the calendar.", field="transaktionsdatum") from None
    if day > berlin_date(now):
        raise BadRequest("The field `transaktionsdatum` is in the future.", field="transaktionsdatum")
    return day


def unknown_cash_book(name: str, known: list[str]) -> BadRequest:
    names = ", ".join(f"“{one}”" for one in known) or "none"
    return BadRequest(
        said("The field `kassenname`: there is no cash book “{name}”. Known: {names}.", name=name, names=names),
        field="kassenname",
    )


# --- The answer to an entry


def line_answer(line: CashLine, entry: CashEntry, now: datetime) -> Belegzeile:
    steuersatz = None
    if line.prozent is not None or line.bu_schluessel is not None:
        steuersatz = SteuersatzAngabe(prozent=line.prozent, buSchluessel=line.bu_schluessel)
    return Belegzeile(
        gegenkonto=line.gegenkonto,
        erstellungsdatum=now,
        waehrung=entry.waehrung,
        belegtext=line.belegtext,
        belegnummer=line.beleg_nummer,
        betrag=money.to_wire(line.betrag),
        steuersatz=steuersatz,
        kostenstellen=[Kostenstelle(name=name) for name in line.kostenstellen if name],
    )
