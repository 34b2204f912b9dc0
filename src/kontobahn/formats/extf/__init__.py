"""DATEV-format files (EXTF): read row by row, and written so that they can be read again.

    with open_extf(path) as datei:
        for satz in datei.buchungssaetze():
            if isinstance(satz, Zeilenfehler): ...

Pure: no database, no HTTP. What is not one of the names below is not for others.
"""

from kontobahn.formats.extf.buchungsstapel import Buchungssatz, betrag
from kontobahn.formats.extf.format import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    ExtfError,
    Kategorie,
    Zeilenfehler,
)
from kontobahn.formats.extf.header import Kopf, make_kopf
from kontobahn.formats.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.formats.extf.personenkonten import Adresse, Bankverbindung, Personenkonto, bezeichnung
from kontobahn.formats.extf.reader import Datensatz, ExtfDatei, open_extf
from kontobahn.formats.extf.writer import (
    file_name,
    write_buchungsstapel,
    write_kontenbeschriftungen,
    write_personenkonten,
    write_zahlungsbedingungen,
)
from kontobahn.formats.extf.zahlungsbedingungen import ALS_ZEITRAUM, NACH_TAGEN, Zahlungsbedingung, Zeitraum

__all__ = [
    "ALS_ZEITRAUM",
    "BUCHUNGSSTAPEL",
    "KONTENBESCHRIFTUNGEN",
    "NACH_TAGEN",
    "PERSONENKONTEN",
    "ZAHLUNGSBEDINGUNGEN",
    "Adresse",
    "Bankverbindung",
    "Buchungssatz",
    "Datensatz",
    "ExtfDatei",
    "ExtfError",
    "Kategorie",
    "Kontobeschriftung",
    "Kopf",
    "Personenkonto",
    "Zahlungsbedingung",
    "Zeilenfehler",
    "Zeitraum",
    "betrag",
    "bezeichnung",
    "file_name",
    "make_kopf",
    "open_extf",
    "write_buchungsstapel",
    "write_kontenbeschriftungen",
    "write_personenkonten",
    "write_zahlungsbedingungen",
]
