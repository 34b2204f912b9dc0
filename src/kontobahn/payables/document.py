"""A received invoice in a form that a person reads: every group of the standard that is filled, in German or English. Pure.

As sections, which pages set in their own way, or as one page by itself. What the seller wrote is text and nothing else: it is escaped,
and the page has no scripts, styles of others or links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from html import escape
from typing import Literal, NamedTuple

from kontobahn.clock import ENGLISH_MONTHS
from kontobahn.formats.invoices.checks import is_iban
from kontobahn.formats.invoices.model import Address, AllowanceCharge, Invoice, Line, Party, Period, discounts_of
from kontobahn.money import MINUS, SIGNS

Language = Literal["de", "en"]
# Longer invoices are cut here, which the page says; the file has all of it.
MAX_LINES = 5_000

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse;width:100%;margin:.5rem 0 1.25rem}th,td{padding:.25rem .6rem;text-align:left;"
    "vertical-align:top;border-bottom:1px solid #ddd}th{font-weight:600}.n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:1.5rem}.m{white-space:pre-line}"
)
_WORDS: dict[str, tuple[str, str]] = {
    "invoice": ("Rechnung", "Invoice"), "credit_note": ("Gutschrift", "Credit note"),
    "seller": ("Verkäufer", "Seller"), "buyer": ("Käufer", "Buyer"), "payee": ("Zahlungsempfänger", "Payee"),
    "representative": ("Steuervertreter", "Tax representative"), "delivery": ("Lieferung", "Delivery"),
    "head": ("Angaben", "Details"), "number": ("Rechnungsnummer", "Number"), "issued": ("Rechnungsdatum", "Date of issue"),
    "due": ("Fällig am", "Due on"), "delivered": ("Leistungsdatum", "Delivered on"), "period": ("Zeitraum", "Period"),
    "buyer_reference": ("Leitweg-ID oder Referenz", "Buyer reference"), "order": ("Bestellung", "Order"),
    "contract": ("Vertrag", "Contract"), "project": ("Projekt", "Project"), "sales_order": ("Auftrag", "Sales order"),
    "despatch": ("Lieferschein", "Despatch advice"), "receipt": ("Wareneingang", "Receiving advice"),
    "tender": ("Ausschreibung", "Tender"), "accounting": ("Kontierung des Käufers", "Buyer's accounting reference"),
    "preceding": ("Bezug auf Rechnung", "Preceding invoice"), "notes": ("Bemerkungen", "Notes"),
    "lines": ("Positionen", "Lines"), "position": ("Pos.", "No."), "name": ("Name", "Name"), "place": ("Anschrift", "Address"),
    "contact": ("Ansprechpartner", "Contact"), "legal": ("Weitere Angaben", "Legal information"),
    "description": ("Bezeichnung", "Description"), "quantity": ("Menge", "Quantity"),
    "price": ("Einzelpreis", "Unit price"), "vat": ("USt.", "VAT"), "net": ("Netto", "Net"),
    "allowances": ("Nachlässe und Zuschläge", "Allowances and charges"), "allowance": ("Nachlass", "Allowance"),
    "charge": ("Zuschlag", "Charge"), "taxes": ("Umsatzsteuer", "VAT"), "category": ("Kategorie", "Category"),
    "rate": ("Satz", "Rate"), "reason": ("Grund", "Reason"), "totals": ("Summen", "Totals"),
    "lines_minor": ("Summe der Positionen", "Sum of lines"), "allowances_minor": ("Nachlässe", "Allowances"),
    "charges_minor": ("Zuschläge", "Charges"), "net_minor": ("Summe netto", "Total without VAT"),
    "vat_minor": ("Umsatzsteuer", "VAT"), "gross_minor": ("Summe brutto", "Total with VAT"),
    "prepaid_minor": ("Bereits gezahlt", "Paid already"), "rounding_minor": ("Rundung", "Rounding"),
    "due_minor": ("Zahlbetrag", "Amount due"), "payment": ("Zahlung", "Payment"), "terms": ("Zahlungs\u00adbedingungen", "Terms"),
    "means": ("Zahlungsart", "Means of payment"), "reference": ("Verwendungszweck", "Remittance information"),
    "iban": ("Konto", "Account"), "mandate": ("Lastschriftmandat", "Direct debit mandate"),
    "attachments": ("Anlagen", "Attachments"), "vat_id": ("USt-IdNr.", "VAT id"), "tax_number": ("Steuernummer", "Tax number"),
    "discount": ("{percent} Skonto{base} bei Zahlung innerhalb von {days} Tagen", "{percent} Skonto{base} if paid within {days} days"),
    "base": (" auf {amount}", " on {amount}"),
    "cut": ("Weitere Positionen stehen in der Datei.", "Further lines are in the file."),
    "readable": (
        "Lesbare Fassung der E-Rechnung. Maßgeblich ist die Datei, die der Verkäufer gesandt hat.",
        "Readable form of the e-invoice. The file that the seller sent is what counts.",
    ),
}  # fmt: skip


# UNTDID 4461: the means of payment that invoices name, by their codes.
_MEANS: dict[str, tuple[str, str]] = {
    "1": ("nicht festgelegt", "not defined"), "10": ("bar", "cash"), "20": ("Scheck", "cheque"),
    "30": ("Überweisung", "credit transfer"), "31": ("Lastschriftauftrag", "debit transfer"),
    "42": ("Zahlung auf ein Bankkonto", "payment to a bank account"), "48": ("Karte", "card"),
    "49": ("Lastschrift", "direct debit"), "54": ("Kreditkarte", "credit card"), "55": ("Debitkarte", "debit card"),
    "57": ("Dauerauftrag", "standing agreement"), "58": ("SEPA-Überweisung", "SEPA credit transfer"),
    "59": ("SEPA-Lastschrift", "SEPA direct debit"), "68": ("Onlinezahlung", "online payment"),
    "97": ("Verrechnung", "clearing between partners"),
}  # fmt: skip
# UNTDID 5305: the categories of VAT.
_CATEGORIES: dict[str, tuple[str, str]] = {
    "S": ("steuerpflichtig", "taxed"), "Z": ("Nullsatz", "zero rated"), "E": ("steuerfrei", "exempt"),
    "AE": ("Steuerschuld beim Käufer", "reverse charge"), "K": ("innergemeinschaftlich", "intra-community supply"),
    "G": ("Ausfuhr", "export"), "O": ("nicht steuerbar", "not subject to VAT"), "L": ("IGIC", "IGIC"), "M": ("IPSI", "IPSI"),
}  # fmt: skip


# UN/ECE Recommendations 20 and 21: the units that invoices of small companies name.
_UNITS: dict[str, tuple[str, str]] = {
    "C62": ("Stück", "pcs"), "H87": ("Stück", "pcs"), "EA": ("Stück", "pcs"), "XPP": ("Stück", "pcs"), "NAR": ("Stück", "pcs"),
    "MIN": ("Min.", "min"), "HUR": ("Std.", "h"), "DAY": ("Tage", "days"), "WEE": ("Wochen", "weeks"), "MON": ("Monate", "months"),
    "ANN": ("Jahre", "years"), "GRM": ("g", "g"), "KGM": ("kg", "kg"), "TNE": ("t", "t"), "MLT": ("ml", "ml"), "LTR": ("l", "l"),
    "CMT": ("cm", "cm"), "MTR": ("m", "m"), "KMT": ("km", "km"), "MTK": ("m²", "m²"), "MTQ": ("m³", "m³"), "KWH": ("kWh", "kWh"),
    "SET": ("Satz", "set"), "LS": ("pauschal", "lump sum"), "XPK": ("Pakete", "packages"), "XBX": ("Kartons", "boxes"),
    "PR": ("Paar", "pairs"), "P1": ("%", "%"),
}  # fmt: skip


class Section(NamedTuple):
    """A heading, and rows below it: with the titles of their columns, or each with its name in front."""

    heading: str
    titles: tuple[str, ...]
    rows: list[tuple[str, ...]]
    # The columns that hold figures.
    figures: frozenset[int] = frozenset()


def as_page(invoice: Invoice, language: Language) -> bytes:
    title = title_of(invoice, language)
    parts = [
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
    ]
    for section in sections(invoice, language):
        titles = "".join(f"<th>{escape(one)}</th>" for one in section.titles)
        parts.append(f"<h2>{escape(section.heading)}</h2><table>{f'<tr>{titles}</tr>' if titles else ''}")
        for row in section.rows:
            cells = (
                f'<td class="{"n" if place in section.figures else "m"}">{escape(cell)}</td>'
                for place, cell in enumerate(row)
            )
            parts.append(f"<tr>{''.join(cells)}</tr>")
        parts.append("</table>")
    return "".join([*parts, "</body></html>"]).encode()


def title_of(invoice: Invoice, language: Language) -> str:
    return f"{_words(language)['credit_note' if invoice.is_credit_note else 'invoice']} {invoice.number}"


def note_of(language: Language) -> str:
    """Returns the sentence at the foot of a copy that people read."""
    return _words(language)["readable"]


def sections(invoice: Invoice, language: Language) -> list[Section]:
    """Returns what the invoice says, in the order in which people read it; nothing of what is empty."""
    return [section for section in _Sections(invoice, language).all() if section.rows]


def _words(language: Language) -> dict[str, str]:
    return {name: words[language == "en"] for name, words in _WORDS.items()}


class _Sections:
    def __init__(self, invoice: Invoice, language: Language) -> None:
        self._invoice = invoice
        self._language = language
        self._words = _words(language)

    def all(self) -> Iterator[Section]:
        invoice, totals = self._invoice, self._invoice.totals._asdict()
        yield self._facts("head", self._head())
        yield self._party("seller", invoice.seller)
        yield self._party("buyer", invoice.buyer)
        if invoice.payee:
            yield self._facts("payee", [("name", invoice.payee.name)])
        if invoice.tax_representative:
            yield self._party("representative", invoice.tax_representative)
        if invoice.delivery:
            yield self._facts(
                "delivery", [("name", invoice.delivery.name or ""), ("place", _address(invoice.delivery.address))]
            )
        yield self._lines()
        yield self._texts("allowances", (self._allowance(one) for one in invoice.allowances_charges))
        yield self._taxes()
        sums = [
            (name, self._money(totals[name])) for name in totals if name in _WORDS and totals[name] not in (None, 0)
        ]
        yield self._facts("totals", sums)._replace(figures=frozenset((1,)))
        yield self._facts("payment", self._payment())
        yield self._texts("notes", (note.text for note in invoice.notes))
        yield self._texts(
            "attachments", (one.description or one.name or one.id or one.uri or "" for one in invoice.attachments)
        )

    def _facts(self, heading: str, rows: Iterable[tuple[str, str]]) -> Section:
        return Section(self._words[heading], (), [(self._words[name], text) for name, text in rows if text])

    def _texts(self, heading: str, texts: Iterable[str]) -> Section:
        return Section(self._words[heading], (), [(text,) for text in texts if text])

    def _head(self) -> Iterator[tuple[str, str]]:
        invoice = self._invoice
        yield "number", invoice.number
        yield "issued", self._day(invoice.issued_on)
        yield "due", self._day(invoice.payment.due_on)
        yield "delivered", self._day(invoice.delivered_on)
        yield "period", self._period(invoice.period)
        yield "buyer_reference", invoice.buyer_reference or ""
        for name in ("order", "sales_order", "contract", "project", "despatch", "receipt", "tender", "accounting"):
            yield name, getattr(invoice.references, name) or ""
        for one in invoice.preceding:
            yield "preceding", " ".join(filter(None, (one.number, self._day(one.issued_on))))

    def _party(self, heading: str, party: Party) -> Section:
        contact = party.contact
        rows = [
            ("name", "\n".join(filter(None, (party.name, party.trading_name)))),
            ("place", _address(party.address)),
            ("contact", "\n".join(filter(None, contact)) if contact else ""),
            ("vat_id", party.vat_id or ""),
            ("tax_number", party.tax_number or ""),
            ("legal", party.legal_information or ""),
        ]
        return self._facts(heading, rows)

    def _lines(self) -> Section:
        lines, words = self._invoice.lines, self._words
        rows = [self._line(line) for line in lines[:MAX_LINES]]
        if len(lines) > MAX_LINES:
            rows.append(("", words["cut"], "", "", "", ""))
        titles = (words["position"], *(words[name] for name in ("description", "quantity", "price", "vat", "net")))
        return Section(words["lines"], titles, rows, frozenset((2, 3, 4, 5)))

    def _line(self, line: Line) -> tuple[str, ...]:
        texts = [line.name, line.description, line.note, self._period(line.period)]
        texts += [f"{name}: {value}" for name, value in line.attributes]
        texts += [self._allowance(one) for one in line.allowances_charges]
        unit = self._unit(line.unit_code) if line.quantity is not None else ""
        return (
            line.id,
            "\n".join(filter(None, texts)),
            " ".join(filter(None, (self._number(line.quantity), unit))),
            self._with_currency(line.net_price),
            self._rate(line.vat_rate),
            self._money(line.net_minor),
        )

    def _unit(self, code: str | None) -> str:
        return _UNITS[code][self._language == "en"] if code in _UNITS else code or ""

    def _allowance(self, one: AllowanceCharge) -> str:
        word = self._words["charge" if one.is_charge else "allowance"]
        return " ".join(filter(None, (f"{word}:", self._money(one.amount_minor), self._rate(one.percent), one.reason)))

    def _taxes(self) -> Section:
        rows: list[tuple[str, ...]] = [
            (
                self._coded(one.category, _CATEGORIES), self._rate(one.rate), self._money(one.net_minor), self._money(one.vat_minor),
                one.exemption_reason or "",
            )
            for one in self._invoice.vat_breakdown
        ]  # fmt: skip
        titles = tuple(self._words[name] for name in ("category", "rate", "net", "vat", "reason"))
        return Section(self._words["taxes"], titles, rows, frozenset((1, 2, 3)))

    def _payment(self) -> Iterator[tuple[str, str]]:
        payment = self._invoice.payment
        yield "means", self._coded(payment.means_code, _MEANS, payment.means_text)
        yield "terms", "\n".join(self._term(line) for line in (payment.terms or "").splitlines())
        yield "reference", payment.reference or ""
        for one in payment.transfers:
            yield "iban", " · ".join(filter(None, (_grouped(one.iban), one.account_name, one.bic)))
        if payment.direct_debit:
            yield "mandate", payment.direct_debit.mandate or ""

    def _term(self, line: str) -> str:
        """Returns a line of the terms; a discount in the form that XRechnung prescribes, as a sentence."""
        for discount in discounts_of(line):
            base = (
                ""
                if discount.base_minor is None
                else self._words["base"].format(amount=self._money(discount.base_minor))
            )
            return self._words["discount"].format(percent=self._rate(discount.percent), days=discount.days, base=base)
        return line

    def _coded(self, code: str | None, known: dict[str, tuple[str, str]], own_words: str | None = None) -> str:
        """Returns what the code stands for, or what the seller calls it, with the code itself behind it."""
        words = own_words or (known[code][self._language == "en"] if code in known else "")
        return " ".join(filter(None, (words, f"({code})" if code and words else code)))

    def _money(self, cents: int | None) -> str:
        if cents is None:
            return ""
        return self._with_currency(Decimal(cents).scaleb(-2))

    def _with_currency(self, value: Decimal | None) -> str:
        """Returns the amount with all its decimals and its currency, as it is written in the language."""
        if value is None:
            return ""
        text, sign = self._number(abs(value)), SIGNS.get(self._invoice.currency)
        before = MINUS if value < 0 else ""
        if sign and self._language == "en":
            return f"{before}{sign}{text}"
        return f"{before}{text}\N{NO-BREAK SPACE}{sign or self._invoice.currency}"

    def _number(self, value: Decimal | None) -> str:
        if value is None:
            return ""
        text = f"{value:,f}"
        return text if self._language == "en" else text.translate(str.maketrans(",.", ".,"))

    def _rate(self, value: Decimal | None) -> str:
        return "" if value is None else f"{self._number(value.normalize())} %"

    def _day(self, day: date | None) -> str:
        if day is None:
            return ""
        if self._language == "de":
            return day.strftime("%d.%m.%Y")
        return f"{day.day} {ENGLISH_MONTHS[day.month - 1]} {day.year}"

    def _period(self, period: Period | None) -> str:
        return "" if period is None else f"{self._day(period.first)} – {self._day(period.last)}"


def _address(address: Address | None) -> str:
    if address is None:
        return ""
    place = " ".join(filter(None, (address.postal_code, address.city)))
    parts = (address.street, address.street_2, address.street_3, place, address.region, address.country_code)
    return "\n".join(filter(None, parts))


def _grouped(account: str | None) -> str:
    """An IBAN in groups of four; the number of another account as it is."""
    text = account or ""
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4)) if is_iban(text) else text
