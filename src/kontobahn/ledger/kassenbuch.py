"""A cash book entry checked to the last cent and byte, before anything is written. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from kontobahn import money
from kontobahn.errors import BadRequest, TooLarge
from kontobahn.ledger.model import NeueBelegzeile, NeuerKassenbucheintrag, NeuesBelegbild

# Choice 7: a receipt image may have 20 MB decoded.
LARGEST_IMAGE_BYTES = 20_000_000
_DATA_PREFIX = re.compile(r"^data:[^,]{0,200};base64,")
_UNSAFE_IN_NAME = re.compile(r"[^ &()+\-._0-9A-Za-zÀ-ÿ]")
# Choice 13: the type is told by the first bytes, and the extension must agree.
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


class Zeile(NamedTuple):
    belegtext: str
    gegenkonto: str
    betrag: int
    beleg_nummer: str | None
    prozent: Decimal | None
    bu_schluessel: str | None
    kostenstellen: tuple[str | None, str | None]


class Bild(NamedTuple):
    dateiname: str
    mime_typ: str
    sha256: str
    content: bytes


class Eintrag(NamedTuple):
    kassenname: str
    waehrung: str
    betrag: int
    transaktionsdatum: datetime
    zeilen: tuple[Zeile, ...]
    bilder: tuple[Bild, ...]


def check(body: NeuerKassenbucheintrag) -> Eintrag:
    """The entry in cents and bytes; BadRequest that names the field where it cannot be one."""
    zeilen = tuple(_zeile(number, zeile) for number, zeile in enumerate(body.belegzeilen))
    betrag = money.to_minor(body.betrag)
    total = sum(zeile.betrag for zeile in zeilen)
    if total != betrag:
        raise BadRequest(
            f"The field `betrag` must be the sum of the lines: it is {money.from_minor(betrag)}, they come to "
            f"{money.from_minor(total)}.",
            field="betrag",
        )
    return Eintrag(
        kassenname=body.kassenname,
        waehrung=body.waehrung,
        betrag=betrag,
        transaktionsdatum=body.transaktionsdatum,
        zeilen=zeilen,
        bilder=_bilder(body.belegbilder),
    )


def _zeile(number: int, zeile: NeueBelegzeile) -> Zeile:
    betrag = money.to_minor(zeile.betrag)
    if betrag == 0:
        raise BadRequest(
            f"The field `belegzeilen[{number}].betrag` must not be 0.", field=f"belegzeilen[{number}].betrag"
        )
    steuersatz = zeile.steuersatz
    return Zeile(
        belegtext=zeile.belegtext,
        gegenkonto=zeile.gegenkonto,
        betrag=betrag,
        beleg_nummer=zeile.belegNummer,
        prozent=steuersatz.prozent if steuersatz else None,
        bu_schluessel=((steuersatz.buSchluessel or "").lstrip("0") or None) if steuersatz else None,
        kostenstellen=(zeile.kostenstelle1, zeile.kostenstelle2),
    )


def _bilder(neue: list[NeuesBelegbild]) -> tuple[Bild, ...]:
    bilder: list[Bild] = []
    seen: dict[str, int] = {}
    for number, neues in enumerate(neue):
        bild = _bild(f"belegbilder[{number}]", neues)
        if bild.sha256 in seen:
            raise BadRequest(
                f"The field `belegbilder[{number}]` is the same file as `belegbilder[{seen[bild.sha256]}]`.",
                field=f"belegbilder[{number}]",
            )
        seen[bild.sha256] = number
        bilder.append(bild)
    return tuple(bilder)


def _bild(name: str, neues: NeuesBelegbild) -> Bild:
    text = _DATA_PREFIX.sub("", neues.content, count=1)
    if len(text) > LARGEST_IMAGE_BYTES * 4 // 3 + 8:
        raise TooLarge(
            f"The field `{name}.content` is larger than {LARGEST_IMAGE_BYTES} bytes decoded.", field=f"{name}.content"
        )
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"The field `{name}.content` is not base64.", field=f"{name}.content") from None
    if not content:
        raise BadRequest(f"The field `{name}.content` is an empty file.", field=f"{name}.content")
    if len(content) > LARGEST_IMAGE_BYTES:
        raise TooLarge(
            f"The field `{name}.content` is larger than {LARGEST_IMAGE_BYTES} bytes decoded.", field=f"{name}.content"
        )
    dateiname = safe_file_name(neues.dateiname)
    return Bild(dateiname, _mime_typ(name, dateiname, content), hashlib.sha256(content).hexdigest(), content)


def safe_file_name(name: str) -> str:
    return _UNSAFE_IN_NAME.sub("_", unicodedata.normalize("NFC", name))


def _mime_typ(name: str, dateiname: str, content: bytes) -> str:
    _, dot, extension = dateiname.lower().rpartition(".")
    for magic, mime_typ, extensions in _MAGIC:
        if content.startswith(magic):
            if not dot or extension not in extensions:
                raise BadRequest(
                    f"The field `{name}.dateiname` must end in .{' or .'.join(extensions)}: the file is {mime_typ}.",
                    field=f"{name}.dateiname",
                )
            return mime_typ
    raise BadRequest(
        f"The field `{name}.content` is no PDF, JPEG, PNG, GIF, TIFF or XML file.", field=f"{name}.content"
    )
