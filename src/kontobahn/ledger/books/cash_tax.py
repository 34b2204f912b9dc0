"""The tax of a cash book line: a rate that was stated is booked, or the line is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn

from kontobahn.errors import BadRequest
from kontobahn.ledger.kassenbuch import CashLine
from kontobahn.ledger.kontenrahmen import Kontenrahmen
from kontobahn.ledger.kontierung import GROSS, PLAIN, split
from kontobahn.ledger.steuerschluessel import STEUERFREI, era_of, key_for


def key_of_line(rahmen: Kontenrahmen, number: int, line: CashLine, konto: str, gegenkonto: str, datum: str) -> str:
    """Returns the key to book the line by. Raises BadRequest if the stated rate contradicts it, or if no key fits the rate."""
    key = line.bu_schluessel or ""
    stated = line.prozent
    if stated is None or konto == gegenkonto:
        return key
    era = era_of(datum)
    found = split(rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=key, era=era)
    if key and found.text == GROSS:
        _refuse(number, "buSchluessel", f"the key {key} does not say how {_plain(stated)} % would be booked here")
    if key or found.text not in (PLAIN, GROSS):
        if stated != found.prozent:
            what = f"the key {key}" if key else f"the account {line.gegenkonto}"
            _refuse(number, "prozent", f"{_plain(stated)} % contradicts {what}, which stands for {found.prozent} %")
        return key
    if stated == 0:
        return ""
    chosen = key_for(int(stated), era, is_income=line.betrag > 0) if stated == int(stated) else None
    if chosen is None:
        _refuse(number, "prozent", f"no tax key stands for {_plain(stated)} % on {datum}")
    booked = split(rahmen, konto=konto, gegenkonto=gegenkonto, schluessel=chosen, era=era)
    if booked.text[0] in (GROSS, PLAIN, STEUERFREI):
        _refuse(number, "prozent", f"the account {line.gegenkonto} carries no tax")
    return chosen


def _refuse(number: int, name: str, reason: str) -> NoReturn:
    path = f"belegzeilen[{number}].steuersatz.{name}"
    raise BadRequest(f"The field `{path}`: {reason}.", field=path)


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
