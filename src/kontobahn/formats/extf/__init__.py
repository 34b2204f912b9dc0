"""DATEV-format files (EXTF): read row by row, and written so that they can be read again.

    with open_extf(path) as file:
        for record in file.buchungssaetze():
            if isinstance(record, RowError): ...  # refused
            elif isinstance(record, RowWarning): ...  # about the record that follows

Pure: no database, no HTTP. Other packages import only the names below.
"""

from kontobahn.formats.extf.buchungsstapel import Buchungssatz, unusual_belegfeld1
from kontobahn.formats.extf.format import (
    BUCHUNGSSTAPEL,
    CATEGORIES,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Category,
    ExtfError,
    RowError,
    RowWarning,
)
from kontobahn.formats.extf.header import Header, make_header
from kontobahn.formats.extf.reader import ExtfFile, Record, open_extf
from kontobahn.formats.extf.rows import Inspection
from kontobahn.formats.extf.stammdaten import (
    ALS_ZEITRAUM,
    NACH_TAGEN,
    Adresse,
    Bankverbindung,
    Kontobeschriftung,
    Personenkonto,
    Zahlungsbedingung,
    Zeitraum,
    display_name,
    renewed,
)
from kontobahn.formats.extf.values import decode_weitere, encode_weitere
from kontobahn.formats.extf.writer import (
    file_name,
    write_buchungsstapel,
    write_kontenbeschriftungen,
    write_personenkonten,
    write_zahlungsbedingungen,
)

__all__ = [
    "ALS_ZEITRAUM",
    "BUCHUNGSSTAPEL",
    "CATEGORIES",
    "KONTENBESCHRIFTUNGEN",
    "NACH_TAGEN",
    "PERSONENKONTEN",
    "ZAHLUNGSBEDINGUNGEN",
    "Adresse",
    "Bankverbindung",
    "Buchungssatz",
    "Category",
    "ExtfError",
    "ExtfFile",
    "Header",
    "Inspection",
    "Kontobeschriftung",
    "Personenkonto",
    "Record",
    "RowError",
    "RowWarning",
    "Zahlungsbedingung",
    "Zeitraum",
    "decode_weitere",
    "display_name",
    "encode_weitere",
    "file_name",
    "make_header",
    "open_extf",
    "renewed",
    "unusual_belegfeld1",
    "write_buchungsstapel",
    "write_kontenbeschriftungen",
    "write_personenkonten",
    "write_zahlungsbedingungen",
]
