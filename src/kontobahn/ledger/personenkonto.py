"""Rules of a person account that no single field can tell. Pure."""

from __future__ import annotations

from kontobahn.errors import BadRequest
from kontobahn.ledger.model import Personenkonto


def check(person: Personenkonto) -> None:
    """BadRequest that names the field; IBANs are written without blanks."""
    if not person.firmenname and not person.kontaktpersonen:
        raise BadRequest("The field `firmenname` is required, or one entry in `kontaktpersonen`.", field="firmenname")
    main_accounts = 0
    for number, konto in enumerate(person.bankkonten):
        konto.iban = _iban(f"bankkonten[{number}].iban", konto.iban)
        main_accounts += konto.istHauptkonto
    if main_accounts > 1:
        raise BadRequest("The field `bankkonten`: only one account can be the main one.", field="bankkonten")


def _iban(field: str, text: str) -> str:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        return str(IBAN(text))
    except SchwiftyException as error:
        raise BadRequest(f"The field `{field}` is no IBAN: {error}.", field=field) from None
