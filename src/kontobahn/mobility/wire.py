"""Fields that several nouns share on the wire, and the examples that the documentation of the mobility calls shows."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from kontobahn.api.wire import CONTROL, form
from kontobahn.errors import BadRequest
from kontobahn.sentences import said

# Fields that several nouns share on the wire: one line of text, addresses, codes. What a pattern cannot check is
# checked here too.


_BLANK = r" \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
one_line = form("one line of text that does not begin with a blank", rf"^[^{_BLANK}{CONTROL}][^{CONTROL}]*$")
Line70 = Annotated[str, one_line, Meta(max_length=70, examples=["Musterbetrieb GmbH"])]
Line100 = Annotated[str, one_line, Meta(max_length=100, examples=["Deutschlandticket Job"])]
Line200 = Annotated[str, one_line, Meta(max_length=200, examples=["Umsatzsteuerfrei nach § 4 UStG"])]
Reference = Annotated[str, one_line, Meta(max_length=64, examples=["PN-10423"])]
PostalCode = Annotated[str, one_line, Meta(max_length=12, examples=["10115"])]
City = Annotated[str, one_line, Meta(max_length=70, examples=["Berlin"])]
Street = Annotated[str, one_line, Meta(max_length=70, examples=["Musterstraße 1"])]
Country = Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$", examples=["DE"])]
Email = Annotated[
    str,
    form(
        "an e-mail address",
        rf"^[^@{_BLANK}{CONTROL}]{{2,64}}@([^@.{_BLANK}{CONTROL}]+\.){{1,60}}[^@.{_BLANK}{CONTROL}]{{2,}}$",
        max_length=120,
        examples=["rechnung@musterbetrieb.example"],
    ),
]
Phone = Annotated[
    str, form("a phone number with at least three digits", r"^[+0-9][ ()/-]*([0-9][ ()/-]*){3,}$", max_length=40,
              examples=["+49 30 1234567"])
]  # fmt: skip
VatId = Annotated[str, form("a VAT id like DE123456789", r"^[A-Z]{2}[A-Z0-9]{2,12}$", examples=["DE123456789"])]

# Prefixes of VAT ids that are not a country code: Greece and Northern Ireland.
_OTHER_PREFIXES = ("EL", "XI")


def check_codes(country_code: str, vat_id: str | None) -> None:
    """Raises BadRequest, naming the field, if there is no such country or no such VAT id."""
    if not _is_country(country_code):
        raise BadRequest(
            said("The field `country_code` is wrong: there is no country {code}.", code=country_code),
            field="country_code",
        )
    if vat_id is None:
        return
    prefix = vat_id[:2]
    if not _is_country(prefix) and prefix not in _OTHER_PREFIXES:
        raise BadRequest(said("The field `vat_id` is wrong: there is no country {code}.", code=prefix), field="vat_id")
    if not _has_form_of_its_country(vat_id):
        raise BadRequest(
            said("The field `vat_id` is wrong: a VAT id of {code} looks different.", code=prefix), field="vat_id"
        )


def _has_form_of_its_country(vat_id: str) -> bool:
    """Returns whether length and characters fit. Only the forms of the EU and Northern Ireland are known; others pass."""
    # Imported late, like the list of countries below: neither is needed when the service starts.
    from stdnum.eu import vat
    from stdnum.exceptions import InvalidChecksum, InvalidComponent, ValidationError

    try:
        vat.validate(vat_id)
    except (InvalidChecksum, InvalidComponent):
        # Check digits are not enforced: whether an id exists is for the tax office to say, and made-up ones are used in trials.
        return True
    except ValidationError:
        return False
    return True


def _is_country(code: str) -> bool:
    import pycountry

    return pycountry.countries.get(alpha_2=code) is not None


# The examples in the documentation of the mobility calls: one small case from customer to invoice, the same in every
# call.


Example = dict[str, Any]

_AT = "2026-03-31T09:30:00Z"
_ORGANIZATION = "01930000-0000-7000-8000-000032c8a3de"
_CUSTOMER = "01930000-0000-7000-8000-00009395c3f3"
_TICKET = "01930000-0000-7000-8000-0000700047d2"
_INVOICE = "01930000-0000-7000-8000-00002989f1fd"
_URL = f"https://kontobahn.example/v2/mobility/invoices/{_INVOICE}"

NEW_CUSTOMER: Example = {
    "name": "Krüger & Söhne GmbH", "street": "Industriestraße 12", "postal_code": "70565", "city": "Stuttgart",
    "email": "rechnung@krueger.example",
}  # fmt: skip
CUSTOMER: Example = {
    "id": _CUSTOMER, "organization_id": _ORGANIZATION, "mobility_customer_id": None, "name": NEW_CUSTOMER["name"],
    "address_lines": {name: NEW_CUSTOMER[name] for name in ("street", "postal_code", "city")}, "created_at": _AT, "updated_at": _AT,
}  # fmt: skip
NEW_TICKET: Example = {
    "product": "Deutschlandticket Job", "holder_reference": "PN-10423", "valid_from": "2026-03", "price_in_cents": 6300,
    "vat_rate": 7, "discount_in_cents": 315, "employer_share_in_cents": 1575,
}  # fmt: skip
TICKET: Example = {
    "id": _TICKET, "customer_id": _CUSTOMER, "reference": None, "product": "Deutschlandticket Job", "holder_reference": "PN-10423",
    "valid_from": "2026-03", "valid_to": "2026-03", "price_in_cents": 6300, "discount_in_cents": 315,
    "employer_share_in_cents": 1575, "amount_in_cents": 5985, "vat_rate": 7, "status": "open", "invoice_id": None,
    "credit_invoice_id": None, "created_at": _AT, "updated_at": _AT,
}  # fmt: skip
CANCELLED: Example = {**TICKET, "status": "cancelled", "invoice_id": _INVOICE}
CUSTOMER_WITH_TICKETS: Example = {
    **CUSTOMER, "customer_number": "K10001", "country_code": "DE", "email": NEW_CUSTOMER["email"], "buyer_reference": None,
    "vat_id": None, "tickets": [TICKET],
}  # fmt: skip
INVOICE: Example = {
    "id": _INVOICE, "organization_id": _ORGANIZATION, "customer_id": _CUSTOMER, "mobility_invoice_id": _INVOICE,
    "invoice_number": "RE-2026-00001", "invoice_pdf_url": f"{_URL}/pdf", "amount_in_cents": 5985, "ticket_count": 1,
    "invoiced_at": _AT, "created_at": _AT,
}  # fmt: skip
_SUMS: Example = {"net_in_cents": 5593, "vat_in_cents": 392, "rounding_in_cents": 0}
INVOICE_WITH_LINES: Example = {
    **INVOICE, "type": "invoice", "issued_on": "2026-03-31", "due_on": "2026-04-14", **_SUMS,
    "vat_sums": [{"vat_rate": 7, **_SUMS, "amount_in_cents": 5985}],
    "lines": [
        {"position": 1, "ticket_id": _TICKET, "product": "Deutschlandticket Job", "holder_reference": "PN-10423",
         "valid_from": "2026-03", "valid_to": "2026-03", "vat_rate": 7, "net_in_cents": 5593, "amount_in_cents": 5985,
         "credited_invoice_number": None},
    ],
    "invoice_xml_url": f"{_URL}/xml",
}  # fmt: skip
LOGO: Example = {
    "media_type": "image/png", "width": 640, "height": 160,
    "sha256": "5b1f2f0c7d3e4a6988b7c6d5e4f3a2b1908f7e6d5c4b3a29181716151413121f",
}  # fmt: skip
NEW_SELLER: Example = {
    "name": "Muster Verkehrs GmbH", "street": "Bahnhofsplatz 4", "postal_code": "10557", "city": "Berlin", "country_code": "DE",
    "vat_id": "DE136695976", "tax_number": "37/123/45678", "iban": "DE02120300000000202051", "bic": "BYLADEM1001",
    "bank_name": "Musterbank", "contact_name": "Firmenservice", "contact_phone": "+49 30 1234567",
    "contact_email": "firmen@muster.example", "website": "www.muster.example",
    "register_entry": "Amtsgericht Charlottenburg, HRB 12345", "managing_directors": "Geschäftsführung: Erika Mustermann",
    "vat_exemption_reason": None, "payment_days": 14, "invoice_number_prefix": "RE-{year}-", "invoice_number_digits": 5,
}  # fmt: skip
SELLER: Example = {"seller": NEW_SELLER, "missing": []}
