"""Person accounts: a business partner as it is sent, checked, and answered.

Without the call (`routes/rewe.py`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from msgspec import Meta, field

from kontobahn.api.answers import NOT_YET_KNOWN, Platform
from kontobahn.api.wire import CONTROL, Answer, Body, Timestamp, form
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.errors import BadRequest
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.wire import Meldung, words_on_one_line
from kontobahn.sentences import said

_NO_BLANK = f"[^@ {CONTROL}]"
Land = Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$", examples=["DE"])]
EmailTyp = Literal["BUSINESS", "PRIVATE", "OFFICE", "INVOICE", "PAYMENT", "OTHER"]
TelefonTyp = Literal["BUSINESS", "MOBILE", "OFFICE", "FAX", "PRIVATE", "OTHER"]
AdressTyp = Literal["BILLING", "DELIVERY", "PRIVATE", "WORK", "PICKUP"]
MaxSixty = Annotated[str, words_on_one_line(60)]


class Email(Body):
    email: Annotated[
        str,
        form("an e-mail address", f"^{_NO_BLANK}+@{_NO_BLANK}+$", max_length=60, examples=["info@muster.example"]),
    ]
    typ: EmailTyp = "BUSINESS"


class Telefon(Body):
    nummer: MaxSixty
    typ: TelefonTyp = "BUSINESS"


class Bankkonto(Body, kw_only=True):
    iban: Annotated[str, Meta(min_length=15, max_length=42, examples=["DE02120300000000202051"])]
    bic: Annotated[str, form("a BIC", r"^[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?$", examples=["BYLADEM1001"])] | None = None
    name: Annotated[str, words_on_one_line(70)] | None = None
    istHauptkonto: bool = False


class Kontaktperson(Body, kw_only=True):
    nachname: Annotated[str, words_on_one_line(30)]
    vorname: Annotated[str, words_on_one_line(30)] | None = None
    anrede: Annotated[str, words_on_one_line(30)] | None = None
    emailAdressen: list[Email] = field(default_factory=list)
    telefonnummern: list[Telefon] = field(default_factory=list)


class Adresse(Body, kw_only=True):
    adresszeile: Annotated[str, words_on_one_line(36)]
    adresszeile2: Annotated[str, words_on_one_line(36)] | None = None
    postleitzahl: Annotated[str, words_on_one_line(10)]
    ort: Annotated[str, words_on_one_line(30)]
    laendercode: Land = "DE"
    typ: AdressTyp = "BILLING"


class Personenkonto(Body, kw_only=True):
    # Choice 15: what a person account must have and which values its fields take.
    personenkontoNummer: Annotated[
        str,
        form("a person account of 5 to 9 digits that does not start with 0", r"^[1-9][0-9]{4,8}$", examples=["10010"]),
    ]
    kontaktTyp: Literal["COMPANY", "CONTACT_PERSON", "UNDEFINED"]
    kontenrahmen: Literal["SKR03", "SKR04", "SKR14", "SKR42", "SKR51"]
    kontonummernLaenge: Annotated[int, Meta(ge=4, le=8)]
    geschaeftsjahrStartDatum: date
    firmenname: Annotated[str, words_on_one_line(50)] | None = None
    ustId: Annotated[str, form("a VAT id", r"^[A-Z]{2}[0-9A-Za-z+*]{2,13}$", examples=["DE136695976"])] | None = None
    emailAdressen: Annotated[list[Email], Meta(max_length=20)] = field(default_factory=list)
    telefonnummern: Annotated[list[Telefon], Meta(max_length=20)] = field(default_factory=list)
    bankkonten: Annotated[list[Bankkonto], Meta(max_length=10)] = field(default_factory=list)
    kontaktpersonen: Annotated[list[Kontaktperson], Meta(max_length=50)] = field(default_factory=list)
    adressen: Annotated[list[Adresse], Meta(max_length=20)] = field(default_factory=list)


class PersonenkontoEintrag(Answer, kw_only=True):
    id: str | None
    kontaktTyp: str
    personenkontoNummer: int
    nummer: str | None
    firmenname: str | None
    ustId: str | None
    aktualisiertAm: Timestamp | None
    projektId: str | None
    bankkonten: list[Bankkonto]
    emailAdressen: list[Email]
    telefonnummern: list[Telefon]
    kontaktpersonen: list[Kontaktperson]
    adressen: list[Adresse]


class PersonenkontoDaten(Answer):
    id: str | None
    kontonummernLaenge: int
    kontenrahmen: str
    erstelltAm: Timestamp
    geschaeftsjahrStartDatum: date
    eintraege: list[PersonenkontoEintrag]


class PersonenkontoErgebnis(Answer):
    status: str
    antwortDaten: dict[str, Any] | None
    meldungen: list[Meldung]


class PersonenkontoAntwort(Answer, kw_only=True):
    data: PersonenkontoDaten
    ledgerAntwort: PersonenkontoErgebnis
    platform: Platform = NOT_YET_KNOWN


def answer_of(
    person: Personenkonto, konto: str, task_id: str, kept_id: str, created_at: int, updated_at: int | None,
    ergebnis: PersonenkontoErgebnis,
) -> PersonenkontoAntwort:  # fmt: skip
    """Returns the answer to a person account that was sent; `konto` is its technical number."""
    eintrag = PersonenkontoEintrag(
        id=kept_id,
        kontaktTyp=person.kontaktTyp,
        personenkontoNummer=int(person.personenkontoNummer),
        nummer=konto,
        firmenname=person.firmenname,
        ustId=person.ustId,
        aktualisiertAm=optional_datetime(updated_at),
        projektId=None,
        bankkonten=person.bankkonten,
        emailAdressen=person.emailAdressen,
        telefonnummern=person.telefonnummern,
        kontaktpersonen=person.kontaktpersonen,
        adressen=person.adressen,
    )
    daten = PersonenkontoDaten(
        id=task_id,
        kontonummernLaenge=person.kontonummernLaenge,
        kontenrahmen=person.kontenrahmen,
        erstelltAm=to_datetime(created_at),
        geschaeftsjahrStartDatum=person.geschaeftsjahrStartDatum,
        eintraege=[eintrag],
    )
    return PersonenkontoAntwort(data=daten, ledgerAntwort=ergebnis)


def check_fits(person: Personenkonto, laenge: int, kontenrahmen: str, years: list[str]) -> str:
    """Returns the technical number. Raises BadRequest if the record does not fit the client's books."""
    if person.kontonummernLaenge != laenge:
        _refuse("kontonummernLaenge", said("must be {value}, as in the client's books", value=laenge))
    if person.kontenrahmen != kontenrahmen:
        _refuse("kontenrahmen", said("must be {value}, as in the client's books", value=kontenrahmen))
    if person.geschaeftsjahrStartDatum.isoformat() not in years:
        known = ", ".join(years) or "none yet"
        _refuse("geschaeftsjahrStartDatum", said("must be the start of a fiscal year: {known}", known=known))
    if len(person.personenkontoNummer) != laenge + 1:
        text = said("must have {count} digits, one more than kontonummernLaenge", count=laenge + 1)
        _refuse("personenkontoNummer", text)
    konto = technical(person.personenkontoNummer, laenge)
    assert is_personenkonto(konto)
    return konto


def _refuse(field: str, reason: str) -> NoReturn:
    raise BadRequest(said("The field `{path}` {reason}.", path=field, reason=reason), field=field)


class Geschaeftspartner(NamedTuple):
    """The owner of a person account, as far as payments need it: the number in full and as the client writes it."""

    konto: str
    nummer: str
    name: str
    ibans: tuple[str, ...]
    ust_id: str = ""


def check(person: Personenkonto) -> None:
    """Checks the rules that concern several fields, and writes IBANs without blanks. Raises BadRequest that names the field."""
    if not person.firmenname and not person.kontaktpersonen:
        raise BadRequest("The field `firmenname` is required, or one entry in `kontaktpersonen`.", field="firmenname")
    main_accounts = 0
    for number, konto in enumerate(person.bankkonten):
        konto.iban = _iban(f"bankkonten[{number}].iban", konto.iban)
        main_accounts += konto.istHauptkonto
    if main_accounts > 1:
        raise BadRequest("The field `bankkonten`: only one account can be the main one.", field="bankkonten")


def _iban(path: str, text: str) -> str:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        return str(IBAN(text))
    except SchwiftyException as error:
        raise BadRequest(
            said("The field `{field}` is not a valid IBAN: {why}.", field=path, why=error), field=path
        ) from None


# The column that partners are listed by.
PartnerOrder = Literal["konto", "name"]


class Partner(NamedTuple):
    """A person account as people find it."""

    konto: str
    name: str
    # The record as it was sent or read, in JSON; empty if only a name is known.
    record: str
