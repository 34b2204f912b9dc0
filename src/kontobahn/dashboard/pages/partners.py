"""Business partners: found by number or name, with address and bank account, and changed without losing what the form does not show."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.api.wire import BodyDecoder
from kontobahn.dashboard import books
from kontobahn.dashboard.books import ChosenBooks, plain
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.json_text import encode
from kontobahn.ledger.faelligkeiten import END_OF_MONTH, day_and_months, days_of
from kontobahn.ledger.konto import functional
from kontobahn.ledger.personenkonto import Partner, PartnerOrder, Personenkonto
from kontobahn.ledger.routes import rewe, rewe_read
from kontobahn.ledger.routes.rewe_read import JahrDropdownQuery
from kontobahn.ledger.wire import Zahlungsbedingung

PATH = f"{ROOT}/partners"
_MONTHS = (N_("of the month"), N_("of the following month"), N_("of the month after next"))
_DECODER = BodyDecoder(Personenkonto)
# The field of the form that shows a field of the record.
_FIELDS = {
    "personenkontoNummer": "number",
    "firmenname": "name",
    "ustId": "vat_id",
    "adressen[0].adresszeile": "street",
    "adressen[0].postleitzahl": "postal_code",
    "adressen[0].ort": "city",
    "emailAdressen[0].email": "email",
    "telefonnummern[0].nummer": "phone",
    "bankkonten[0].iban": "iban",
}


class PartnerFilter(Struct):
    connection: str = ""
    client: str = ""
    year: str = ""
    search: str = ""
    sort: str = ""


_SORTS: dict[str, PartnerOrder] = {"account": "konto", "name": "name"}


class PartnerForm(Struct):
    number: Annotated[str, Meta(max_length=9)]
    name: Annotated[str, Meta(max_length=50)]
    street: Annotated[str, Meta(max_length=36)] = ""
    postal_code: Annotated[str, Meta(max_length=10)] = ""
    city: Annotated[str, Meta(max_length=30)] = ""
    email: Annotated[str, Meta(max_length=60)] = ""
    phone: Annotated[str, Meta(max_length=60)] = ""
    iban: Annotated[str, Meta(max_length=42)] = ""
    vat_id: Annotated[str, Meta(max_length=15)] = ""


# The most characters of each field.
_LENGTHS: dict[str, int] = {
    one.name: one.type.max_length
    for one in cast(msgspec.inspect.StructType, msgspec.inspect.type_info(PartnerForm)).fields
    if isinstance(one.type, msgspec.inspect.StrType) and one.type.max_length
}


def proposal_url(connection_id: str, client_id: str, payable_id: str, proposed: dict[str, str | None]) -> str:
    """The address of the form for a supplier, filled in with what a received invoice says of it."""
    fitting = {name: value[: _LENGTHS[name]] for name, value in proposed.items() if value}
    place = {"connection": connection_id, "client": client_id, "payable": payable_id}
    return f"{PATH}/new?{urlencode(place | fitting)}"


@page("/partners", help="partners")
async def partners(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    filters = visit.filters(PartnerFilter)
    search, after, wanted = filters.wanted.search, filters.after, filters.wanted.sort
    order = _SORTS.get(wanted.removeprefix("-"), "konto")
    found = await books.ask(
        visit, chosen, "personenkonten",
        lambda opened: opened.partners(search, after, PAGE_SIZE + 1, order, descending=wanted.startswith("-")),
    )  # fmt: skip
    chips = [chip for chip in filters.chips({"search": _("Search")}) if chip.label == _("Search")]
    return visit.show(
        "partners.html", chosen=chosen, filters=filters, chips=chips, list=filters.first_page(found, lambda row: row.konto),
        sorts=filters.sort_links(_SORTS, "account"),
    )  # fmt: skip


@page("/partners/terms", help="partners")
async def payment_terms(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    query = JahrDropdownQuery(**chosen.query, geschaeftsjahr_start_datum=chosen.year.start)
    answer = await visit.ask(rewe_read.list_zahlungsbedingungen, query=query)
    return visit.show(
        "payment_terms.html", chosen=chosen, terms=plain(answer.data, list[Zahlungsbedingung]), invoices_words=_invoices_words,
        deadline_words=_deadline_words,
    )  # fmt: skip


def _invoices_words(rechnungsbereich: str) -> str:
    """`Rechnungen vom 1. bis 15.` in the language of the page."""
    days = days_of(rechnungsbereich)
    if days is None:
        return rechnungsbereich
    return _("invoices from day %(first)s to day %(last)s", first=days[0], last=days[1])


def _deadline_words(text: str) -> str:
    """`15. des Folgemonats` in the language of the page."""
    found = day_and_months(text)
    if found is None:
        return text
    day, months = found
    later = _(_MONTHS[months]) if months < len(_MONTHS) else _("of the month %(months)s months later", months=months)
    return f"{_('the end') if day == END_OF_MONTH else _('day %(day)s', day=day)} {later}"


@page("/partners/new", role="bookkeeping", help="partners")
async def new_partner_page(visit: Visit) -> Response:
    chosen = await books.choose(visit)
    payable = visit.query.get("payable", [""])[-1]
    if not payable:
        return visit.show("partner.html", chosen=chosen, partner=None, payable="")
    proposed = {name: visit.query.get(name, [""])[-1][:length] for name, length in _LENGTHS.items()}
    proposed["number"] = await _next_supplier(visit, chosen)
    form = Form({name: [value] for name, value in proposed.items()})
    return visit.show("partner.html", chosen=chosen, partner=None, form=form, payable=payable)


async def _next_supplier(visit: Visit, chosen: ChosenBooks) -> str:
    """The number after the last supplier's; empty if there is none left."""
    found = await books.ask(
        visit, chosen, "personenkonten", lambda opened: opened.partners("", "", 1, "konto", descending=True)
    )
    length = chosen.year.konto_laenge + 1
    last = functional(found[0].konto, chosen.year.konto_laenge) if found else ""
    after = str(int(last) + 1) if last[:1] in ("7", "8", "9") else f"7{1:0{length - 1}}"
    return after if len(after) == length else ""


@action("/partners/new")
async def make_partner(visit: Visit) -> Response:
    return await _save(visit, None)


@page("/partners/{konto}", help="partners")
async def partner_page(visit: Visit, konto: str) -> Response:
    chosen, found = await _find(visit, konto)
    return visit.show("partner.html", chosen=chosen, partner=found, payable="", form=_form_of(chosen, found))


@action("/partners/{konto}")
async def change_partner(visit: Visit, konto: str) -> Response:
    _, found = await _find(visit, konto)
    return await _save(visit, found)


async def _save(visit: Visit, found: Partner | None) -> Response:
    chosen = await books.choose(visit)
    wanted = visit.form.read(PartnerForm)
    if wanted is not None:
        with visit.form.refusals(**_FIELDS):
            body = _body(chosen, wanted, found)
            await visit.ask(rewe.save_personenkonto, query=books.query_of(chosen), body=body)
            return visit.redirect(_after_saving(visit, chosen, wanted.number), _("The partner is saved."))
    return visit.show("partner.html", chosen=chosen, partner=found, payable=visit.form.text("payable"))


def _after_saving(visit: Visit, chosen: ChosenBooks, number: str) -> str:
    """Back to the invoice that the supplier was made for, with its number filled in, or to the list."""
    payable = visit.form.text("payable")
    if re.fullmatch(r"[0-9a-f-]{36}", payable):
        return f"{ROOT}/payables/{payable}?{urlencode({'konto': number})}"
    return chosen.url(PATH, search=number)


def _body(chosen: ChosenBooks, wanted: PartnerForm, found: Partner | None) -> Personenkonto:
    """The record that was there with what the form shows changed; what it does not show stays."""
    old = record_of(found)
    changed = {
        **old,
        "personenkontoNummer": wanted.number,
        "kontaktTyp": old.get("kontaktTyp", "COMPANY"),
        "kontenrahmen": chosen.year.kontenrahmen,
        "kontonummernLaenge": chosen.year.konto_laenge,
        "geschaeftsjahrStartDatum": chosen.year.start,
        "firmenname": wanted.name,
        "ustId": wanted.vat_id or None,
        "adressen": _first(old, "adressen", _address(wanted)),
        "emailAdressen": _first(old, "emailAdressen", {"email": wanted.email} if wanted.email else None),
        "telefonnummern": _first(old, "telefonnummern", {"nummer": wanted.phone} if wanted.phone else None),
        "bankkonten": _first(old, "bankkonten", {"iban": wanted.iban} if wanted.iban else None),
    }
    return cast(Personenkonto, _DECODER.decode(encode(changed)))


def record_of(found: Partner | None) -> dict[str, Any]:
    """Returns a partner's record as it is kept. It was checked when it was written, and is shown even if today's rules are others."""
    kept: dict[str, Any] = msgspec.json.decode(found.record) if found and found.record else {}
    return kept


def _address(wanted: PartnerForm) -> dict[str, str] | None:
    if not (wanted.street or wanted.postal_code or wanted.city):
        return None
    return {"adresszeile": wanted.street, "postleitzahl": wanted.postal_code, "ort": wanted.city}


def _first(old: dict[str, Any], name: str, new: dict[str, str] | None) -> list[dict[str, Any]]:
    """The list of this name with its first element changed, added or taken out."""
    kept: list[dict[str, Any]] = old.get(name) or []
    if new is None:
        return kept[1:]
    return [{**(kept[0] if kept else {}), **new}, *kept[1:]]


def first_of(record: dict[str, Any], name: str, field: str) -> str:
    """Returns a field of the first element of a list in a record; empty if there is none."""
    kept = record.get(name) or [{}]
    return str(kept[0].get(field) or "")


def _form_of(chosen: ChosenBooks, found: Partner) -> Form:
    record = record_of(found)

    first = partial(first_of, record)
    shown = {
        "number": functional(found.konto, chosen.year.konto_laenge),
        "name": str(record.get("firmenname") or found.name),
        "street": first("adressen", "adresszeile"),
        "postal_code": first("adressen", "postleitzahl"),
        "city": first("adressen", "ort"),
        "email": first("emailAdressen", "email"),
        "phone": first("telefonnummern", "nummer"),
        "iban": first("bankkonten", "iban"),
        "vat_id": str(record.get("ustId") or ""),
    }
    return Form({name: [value] for name, value in shown.items()})


async def _find(visit: Visit, konto: str) -> tuple[ChosenBooks, Partner]:
    chosen = await books.choose(visit)
    found = await books.ask(visit, chosen, "personenkonten", lambda opened: opened.partner(konto))
    if found is None:
        raise visit.principal.missing("Partner")
    return chosen, found
