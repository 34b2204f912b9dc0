"""Account numbers. On the wire and in the database they have the technical length: 8 digits, 9 for person accounts.

A client with a number length of 4 writes 8400 and 10010; that is 84000000 and 100100000 here.
"""

from __future__ import annotations

from kontobahn.sentences import said

SACHKONTO_DIGITS = 8
PERSONENKONTO_DIGITS = 9
FIRST_CREDITOR = "700000000"


def is_personenkonto(konto: str) -> bool:
    return len(konto) == PERSONENKONTO_DIGITS


def is_debitor(konto: str) -> bool:
    """Returns whether a person account is a debtor: those start with 1 to 6, creditors with 7 to 9."""
    return konto[0] < "7"


def technical(nummer: str, laenge: int) -> str:
    """Returns the technical number for one in the client's own length or in full. Raises ValueError with the reason."""
    if not nummer.isascii() or not nummer.isdigit():
        raise ValueError("must be digits")
    if len(nummer) in (laenge, laenge + 1):
        padded = nummer + "0" * (SACHKONTO_DIGITS - laenge)
    elif len(nummer) in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS):
        padded = nummer
        if nummer[laenge - SACHKONTO_DIGITS :].strip("0"):
            raise ValueError(
                said(
                    "must end in {count} zeros: the client's numbers have {digits} digits",
                    count=SACHKONTO_DIGITS - laenge,
                    digits=laenge,
                )
            )
    else:
        raise ValueError(
            said(
                "must have {digits} digits, or {persons} for a person account (or {full} and"
                " {fullpersons} in full), not {found}",
                digits=laenge,
                persons=laenge + 1,
                full=SACHKONTO_DIGITS,
                fullpersons=PERSONENKONTO_DIGITS,
                found=len(nummer),
            )
        )
    if is_personenkonto(padded) and padded[0] == "0":
        raise ValueError("must not start with 0: a person account starts with 1 to 9")
    return padded


def readings(nummer: str, laenge: int) -> list[str]:
    """Returns the accounts that a number may mean, the form that answers use first. Raises ValueError with the reason if none.

    If a client's own numbers have seven digits, 84000000 may be a ledger account in full or one of its person accounts.
    """
    found = technical(nummer, laenge)
    is_full = len(nummer) == SACHKONTO_DIGITS and not nummer[laenge:].strip("0")
    return [nummer, found] if is_full and nummer != found else [found]


def functional(konto: str, laenge: int) -> str:
    """Returns the number as the client writes it."""
    return konto[: len(konto) - (SACHKONTO_DIGITS - laenge)]


def readable(konto: str, laenge: int) -> str:
    """Returns the number as the client writes it; in full if it would lose a digit."""
    short = functional(konto, laenge)
    return konto if konto[len(short) :].strip("0") else short
