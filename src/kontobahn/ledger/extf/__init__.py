"""DATEV-format files (EXTF): read row by row, and written so that they can be read again.

    with open_extf(path) as datei:
        for satz in datei.buchungssaetze():
            if isinstance(satz, Zeilenfehler): ...

Pure: no database, no HTTP. What is not one of the names below is not for others.
"""

from kontobahn.ledger.extf.buchungsstapel import Buchungssatz, betrag
from kontobahn.ledger.extf.format import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    ExtfError,
    Kategorie,
    Zeilenfehler,
)
from kontobahn.ledger.extf.kontenbeschriftungen import Kontobeschriftung
from kontobahn.ledger.extf.kopf import Kopf, make_kopf
from kontobahn.ledger.extf.personenkonten import Adresse, Bankverbindung, Personenkonto, bezeichnung
from kontobahn.ledger.extf.reader import Datensatz, ExtfDatei, open_extf
from kontobahn.ledger.extf.writer import (
    file_name,
    write_buchungsstapel,
    write_kontenbeschriftungen,
    write_personenkonten,
    write_zahlungsbedingungen,
)
from kontobahn.ledger.extf.zahlungsbedingungen import ALS_ZEITRAUM, NACH_TAGEN, Zahlungsbedingung, Zeitraum

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
