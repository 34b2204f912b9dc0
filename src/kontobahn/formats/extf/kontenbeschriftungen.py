"""Category 20, Kontenbeschriftungen: the names of accounts."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kontobahn.formats.extf.format import KONTENBESCHRIFTUNGEN, Abgelehnt, Zeilenfehler
from kontobahn.formats.extf.header import Kopf
from kontobahn.formats.extf.values import check_lengths, kontonummer, quote

_SHORT, _LONG = 40, 300
_LONGEST = {2: _SHORT, 3: 5, 4: _LONG}


class Kontobeschriftung(NamedTuple):
    """``beschriftung`` is the long one where there is one; ``sprache`` is like de-DE."""

    zeile: int
    konto: str
    beschriftung: str
    sprache: str


def parser(kopf: Kopf) -> Callable[[int, list[str]], Kontobeschriftung | Zeilenfehler]:
    parse_konto = kontonummer(kopf.sachkontenlaenge)

    def parse(zeile: int, felder: list[str]) -> Kontobeschriftung | Zeilenfehler:
        try:
            konto = parse_konto(felder[0])
            check_lengths(felder, _LONGEST)
            beschriftung = felder[3] or felder[1]
            if not beschriftung:
                raise Abgelehnt(f"The name of the account '{konto}' is missing.", 2)
            return Kontobeschriftung(zeile, konto, beschriftung, felder[2])
        except Abgelehnt as refusal:
            return Zeilenfehler(zeile, KONTENBESCHRIFTUNGEN.titel[(refusal.spalte or 1) - 1], str(refusal))

    return parse


def formatter(_kopf: Kopf) -> Callable[[Kontobeschriftung], str]:
    def write(konto: Kontobeschriftung) -> str:
        text = konto.beschriftung
        return ";".join((
            konto.konto, quote(text[:_SHORT]), quote(konto.sprache), quote(text if len(text) > _SHORT else ""),
        ))  # fmt: skip

    return write
