"""From the values of a file's terms to the invoice, for every syntax. Faults in the texts are collected on the way."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from kontobahn.formats.invoices.model import (
    Address,
    AllowanceCharge,
    Attachment,
    Card,
    Contact,
    CreditTransfer,
    Delivery,
    DirectDebit,
    Discount,
    ElectronicAddress,
    Fault,
    Identifier,
    Invoice,
    Line,
    Note,
    Party,
    Payee,
    Payment,
    Period,
    PrecedingInvoice,
    References,
    Totals,
    VatBreakdown,
    discounts_of,
)
from kontobahn.formats.invoices.source import (
    LINE,
    Flat,
    Scan,
    Source,
    Syntax,
    Values,
    fill,
    plain_places,
    tree_of,
    values_of,
)
from kontobahn.xml_text import Part, Unusual, decoded

_MAX_DIGITS = 14  # in hundredths: what money.MAX_AMOUNT allows
_MAX_FAULTS = 1_000  # of a file that is nothing but faults, the first thousand are reported
_DECIMAL = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})", re.ASCII)
_DAY = re.compile(r"(\d{4})(-?)(\d\d)\2(\d\d)(?:Z|[+-]\d\d:\d\d|T.*|\d{4,6})?", re.ASCII)
_BLANKS = re.compile(r"\s+")
# Rules about the decimals of an amount, by the term that has them.
_DECIMALS = {
    "BT-92": "01", "BT-93": "02", "BT-99": "05", "BT-100": "06", "BT-106": "09", "BT-107": "10", "BT-108": "11", "BT-109": "12",
    "BT-110": "13", "BT-112": "14", "BT-111": "15", "BT-113": "16", "BT-114": "17", "BT-115": "18", "BT-116": "19", "BT-117": "20",
    "BT-131": "23", "BT-136": "24", "BT-137": "25", "BT-141": "27", "BT-142": "28",
}  # fmt: skip
# A charge has the places of an allowance.
CHARGE_TERMS = {
    "BT-99": "BT-92", "BT-100": "BT-93", "BT-101": "BT-94", "BT-102": "BT-95", "BT-103": "BT-96", "BT-104": "BT-97", "BT-105": "BT-98",
    "BT-141": "BT-136", "BT-142": "BT-137", "BT-143": "BT-138", "BT-144": "BT-139", "BT-145": "BT-140", "BG-21": "BG-20",
    "BG-28": "BG-27",
}  # fmt: skip
_CHARGES = {allowance: charge for charge, allowance in CHARGE_TERMS.items()}
# Lines of these kinds group or explain others.
_NOT_COUNTED = ("GROUP", "INFORMATION")
# Terms of addresses and contacts, in the order of their fields.
_SELLER_ADDRESS = ("BT-35", "BT-38", "BT-37", "BT-40", "BT-36", "BT-162", "BT-39")
_SELLER_CONTACT = ("BT-41", "BT-41d", "BT-42", "BT-43")
_BUYER_ADDRESS = ("BT-50", "BT-53", "BT-52", "BT-55", "BT-51", "BT-163", "BT-54")
_BUYER_CONTACT = ("BT-56", "BT-56d", "BT-57", "BT-58")
_REPRESENTATIVE_ADDRESS = ("BT-64", "BT-67", "BT-66", "BT-69", "BT-65", "BT-164", "BT-68")
_DELIVERY_ADDRESS = ("BT-75", "BT-78", "BT-77", "BT-80", "BT-76", "BT-165", "BT-79")
_TENDER, _OBJECT = "50", "130"
_SEPA_CREDITOR = "SEPA"
_YES = ("true", "1")
# Terms of a line that are one field of it each, in the order of the fields, and the kind of their values.
_LINE_TERMS = {
    "BT-126": ("id", "text"), "BT-153": ("name", "text"), "BT-129": ("quantity", "decimal"), "BT-146": ("net_price", "decimal"),
    "BT-131": ("net_minor", "minor"), "BT-151": ("vat_category", "text"), "BT-152": ("vat_rate", "decimal"),
    "BT-130": ("unit_code", "text"), "BT-127": ("note", "text"), "BT-154": ("description", "text"),
    "BT-155": ("seller_item", "text"), "BT-156": ("buyer_item", "text"), "BT-132": ("order_line", "text"),
    "BT-133": ("accounting_reference", "text"), "BT-148": ("gross_price", "decimal"), "BT-147": ("price_discount", "decimal"),
    "BT-149": ("base_quantity", "decimal"), "BT-150": ("base_unit", "text"), "parent": ("parent_id", "text"),
}  # fmt: skip
_EMPTY_LINE = Line("", "", None, None, None, None, None, unit_code=None)
_EMPTY_COLUMNS = tuple(repeat(value) for value in _EMPTY_LINE)
# Lines of a supplier look alike: how one is read is remembered by its elements, up to this many elements and kinds of lines.
_MAX_ELEMENTS = 100
_MAX_SHAPES = 500
_MAX_TAGS = 10_000


class _Shape(NamedTuple):
    """Lines that have the same elements: where their terms are."""

    indexes: tuple[int, ...]  # of the elements whose texts are read
    attributes: tuple[tuple[int, str], ...]  # read after the texts
    terms: tuple[str, ...]


class _Pattern(NamedTuple):
    """Lines of a scan that have the same tags, and so the same attributes."""

    places: tuple[int, ...]  # of the tags whose texts are read
    terms: tuple[str, ...]
    stated: Mapping[str, str]  # by attributes


class Result(NamedTuple):
    invoice: Invoice
    faults: list[Fault]


def read(source: Source, syntax: Syntax) -> Result:
    """Returns the invoice in a file. Raises Refused if the file is not XML."""
    reader = _Reader(syntax)
    content, scan, tree, _ = source
    if scan is not None:
        try:
            return Result(reader.invoice(reader.scanned(scan)), reader.faults)
        except Unusual:
            reader, tree = _Reader(syntax), tree_of(content)
    values = values_of(content, tree, syntax, reader.take_line)
    return Result(reader.invoice(values), reader.faults)


class _Reader:
    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax
        self._at: dict[str, int] = {}
        self._lines: list[Line] = []
        self._batch_shape: _Shape | None = None
        self._batch: list[list[str | None]] = []
        self.faults: list[Fault] = []

    # --- Texts as values

    def _fault(self, rule: str, term: str, **values: object) -> None:
        if len(self.faults) < _MAX_FAULTS:
            path = self._syntax.path(CHARGE_TERMS.get(term, term), self._at)
            self.faults.append(Fault(rule, path, {name: str(value) for name, value in values.items()}))

    def _decimal(self, values: Values, term: str) -> Decimal | None:
        text = values.get(term)
        if not text:
            return None
        try:
            return _decimal_of(text)
        except ValueError:
            self._fault("not-a-number", term, value=_shown(text))
            return None

    def _minor(self, values: Values, place: str, term: str = "") -> int | None:
        """Returns an amount in hundredths, rounded if it has more decimals, which is a fault. `term` is that of the place."""
        text = values.get(place)
        if not text:
            return None
        try:
            return _usual_minor(text)
        except ValueError:
            value = self._decimal(values, place)
        if value is None:
            return None
        term = term or place
        minor = (value * 100).to_integral_value("ROUND_HALF_UP")
        if len(text.partition(".")[2]) > 2:
            self._fault(f"BR-DEC-{_DECIMALS.get(term, '00')}", term, value=text)
            if value * 100 != minor:
                self._fault("amount-rounded", term, value=text)
        if len(str(abs(minor))) > _MAX_DIGITS:
            self._fault("amount-too-large", term, value=text)
            return None
        return int(minor)

    def _number(self, values: Values, term: str, kind: str) -> Decimal | int | None:
        return self._minor(values, term) if kind == "minor" else self._decimal(values, term)

    def _whole(self, values: Values, term: str) -> int | None:
        text = values.get(term)
        if not text:
            return None
        if not (text.isdigit() and text.isascii() and len(text) <= 9):
            self._fault("not-a-number", term, value=_shown(text))
            return None
        return int(text)

    def _day(self, values: Values, term: str) -> date | None:
        text = values.get(term)
        if not text:
            return None
        day = _day_of(text)
        if day is None:
            self._fault("not-a-date", term, value=_shown(text))
        return day

    def _groups(self, values: Values, name: str) -> Iterable[Values]:
        """Yields each group of this name, and remembers which one it is for places."""
        for number, group in enumerate(values.get(name) or (), 1):
            self._at[name] = number
            yield group
        self._at.pop(name, None)

    # --- Lines

    def scanned(self, scan: Scan) -> Values:
        """Takes the lines of a scan. Returns the values of everything else."""
        runs = scan.runs(self._syntax)
        for start, end, size in runs:
            line = scan.whole.slice(start, start + size)
            pattern = self._pattern(scan, line)
            if pattern is None:
                for first in range(start, end, size):
                    self._take_any(scan.element(scan.whole.slice(first, first + size))[0])
                continue
            texts = scan.whole.texts
            columns = [decoded(texts[start + place : end : size]) for place in pattern.places]
            self._take_columns(pattern.terms, columns, pattern.stated)
        return scan.around(runs, self._syntax)

    def _pattern(self, scan: Scan, line: Part) -> _Pattern | None:
        """Returns how lines with these tags are read, or None if they have more than plain terms."""
        key = (scan.root, b"<".join(line.tags))
        patterns: dict[Any, _Pattern | None] = self._syntax.line_shapes
        try:
            return patterns[key]
        except KeyError:
            pattern = _pattern_of(scan, line, self._syntax)
            if len(patterns) < _MAX_SHAPES and len(key[1]) <= _MAX_TAGS:
                patterns[key] = pattern
            return pattern

    def take_line(self, flat: Flat, start: int, end: int) -> None:
        shape = self._shape(flat, start, end) if end - start <= _MAX_ELEMENTS else None
        if shape is not self._batch_shape:
            self._end_batch()
            self._batch_shape = shape
        if shape is not None:
            elements = flat.elements
            texts = [elements[start + index].text for index in shape.indexes]
            if shape.attributes:
                texts += [elements[start + index].get(attribute) for index, attribute in shape.attributes]
            self._batch.append(texts)
            return
        self._take_any(flat, start)

    def _take_any(self, flat: Flat, start: int = 0) -> None:
        values: Values = {}
        fill(values, flat, start, self._syntax.line_plan)
        self._add_line(values)

    def _add_line(self, values: Values) -> None:
        self._at[LINE] = len(self._lines) + 1
        self._lines.append(self._line(values))

    def _shape(self, flat: Flat, start: int, end: int) -> _Shape | None:
        key = (*flat.tags[start:end], *flat.sizes[start:end])
        shapes: dict[Any, _Shape | None] = self._syntax.line_shapes
        try:
            return shapes[key]
        except KeyError:
            shape = _shape_of(flat, start, self._syntax)
            if len(shapes) < _MAX_SHAPES:
                shapes[key] = shape
            return shape

    def _end_batch(self) -> None:
        shape, batch = self._batch_shape, self._batch
        if shape is not None and batch:
            self._batch = []
            self._take_columns(shape.terms, list(zip(*batch, strict=True)), {})

    def _take_columns(
        self, terms: Sequence[str], columns: Sequence[Sequence[str | None]], stated: Mapping[str, str]
    ) -> None:
        """Makes lines of some that have the same terms: a field of all at a time, or line by line if a text is no usual value."""
        fields: list[Iterable[Any]] = list(_EMPTY_COLUMNS)
        try:
            for term, column in zip(terms, columns, strict=True):
                position, usual = _LINE_FIELDS[term]
                if not all(column):
                    raise ValueError
                stripped = [text.strip() for text in column if text]
                fields[position] = stripped if usual is None else list(map(usual, stripped))
            for term, text in stated.items():
                position, usual = _LINE_FIELDS[term]
                fields[position] = repeat(text if usual is None else usual(text))
            self._lines += map(Line._make, zip(*fields, strict=False))
        except ValueError:
            for texts in zip(*columns, strict=True):
                values = {term: text.strip() for term, text in zip(terms, texts, strict=True) if text}
                self._add_line({**values, **stated})

    def _line(self, values: Values) -> Line:
        fields: dict[str, Any] = {}
        for term, (field, kind) in _LINE_TERMS.items():
            if term in values:
                fields[field] = values[term] if kind == "text" else self._number(values, term, kind)
        if "BT-149" not in values:
            fields["base_quantity"], fields["base_unit"] = self._decimal(values, "BT-149g"), values.get("BT-150g")
        return _EMPTY_LINE._replace(
            **fields,
            period=self._period(values, "BT-134", "BT-135"),
            attributes=tuple(
                (item.get("BT-160") or "", item.get("BT-161") or "") for item in values.get("BG-32") or ()
            ),
            standard_item=_identifier(values, "BT-157"),
            allowances_charges=tuple(map(self._line_allowance, self._groups(values, "BG-27"))),
            is_counted=values.get("kind") not in _NOT_COUNTED,
        )

    def _line_allowance(self, values: Values) -> AllowanceCharge:
        is_charge = values.get("is_charge") in _YES
        return AllowanceCharge(
            is_charge,
            self._minor(values, "BT-136", "BT-141" if is_charge else ""),
            self._minor(values, "BT-137", "BT-142" if is_charge else ""),
            self._decimal(values, "BT-138"),
            values.get("BT-139"),
            values.get("BT-140"),
        )

    def _period(self, values: Values, first: str, last: str) -> Period | None:
        if first not in values and last not in values:
            return None
        begins, ends = self._day(values, first), self._day(values, last)
        return Period(begins, ends) if begins or ends else None

    # --- The document

    def invoice(self, values: Values) -> Invoice:
        self._end_batch()
        self._at.clear()
        get = values.get
        documents = get("BG-24") or ()
        taxes = [tax for total in get("BT-110") or () for tax in total.get("BG-23") or ()] or get("BG-23") or ()
        return Invoice(
            number=get("BT-1") or "",
            type_code=self._whole(values, "BT-3"),
            issued_on=self._day(values, "BT-2"),
            currency=get("BT-5") or "",
            seller=self._seller(values),
            buyer=self._buyer(values),
            lines=tuple(self._lines),
            vat_breakdown=tuple(self._vat_breakdown(taxes)),
            totals=self._totals(values),
            payment=self._payment(values),
            buyer_reference=get("BT-10"),
            notes=tuple(Note(item["BT-22"], item.get("BT-21")) for item in get("BG-1") or () if "BT-22" in item),
            delivered_on=self._day(values, "BT-72"),
            period=self._period(values, "BT-73", "BT-74"),
            preceding=tuple(PrecedingInvoice(i.get("BT-25") or "", self._day(i, "BT-26")) for i in self._groups(values, "BG-3")),
            process=get("BT-23"),
            specification=get("BT-24"),
            vat_currency=get("BT-6"),
            vat_point_on=self._day(next((tax for tax in taxes if "BT-7" in tax), values), "BT-7"),
            vat_point_code=get("BT-8") or next((tax["BT-8"] for tax in taxes if "BT-8" in tax), None),
            payee=_payee(values),
            tax_representative=_representative(values),
            delivery=_delivery(values),
            allowances_charges=tuple(self._allowances_charges(values)),
            references=_references(values, documents),
            attachments=tuple(self._attachment(item) for item in self._groups(values, "BG-24") if _is_attachment(item)),
        )  # fmt: skip

    def _seller(self, values: Values) -> Party:
        get = values.get
        identifier, global_id = _identifiers(values, "BT-29")
        vat_id, tax_number = _tax_numbers(values, "BT-31")
        return Party(
            name=get("BT-27") or "",
            address=_address(values, _SELLER_ADDRESS),
            id=identifier,
            legal_information=get("BT-33"),
            contact=_contact(values, _SELLER_CONTACT),
            electronic_address=_electronic_address(values, "BT-34"),
            vat_id=vat_id,
            tax_number=tax_number,
            trading_name=get("BT-28"),
            registration=_identifier(values, "BT-30"),
            global_id=global_id,
        )

    def _buyer(self, values: Values) -> Party:
        get = values.get
        identifier, global_id = _identifiers(values, "BT-46")
        return Party(
            name=get("BT-44") or "",
            address=_address(values, _BUYER_ADDRESS),
            id=identifier,
            contact=_contact(values, _BUYER_CONTACT),
            electronic_address=_electronic_address(values, "BT-49"),
            vat_id=_tax_numbers(values, "BT-48")[0],
            trading_name=get("BT-45"),
            registration=_identifier(values, "BT-47"),
            global_id=global_id,
        )

    def _vat_breakdown(self, taxes: Iterable[Values]) -> Iterable[VatBreakdown]:
        for number, tax in enumerate(taxes, 1):
            self._at["BG-23"] = number
            yield VatBreakdown(
                tax.get("BT-118"),
                self._decimal(tax, "BT-119"),
                self._minor(tax, "BT-116"),
                self._minor(tax, "BT-117"),
                tax.get("BT-120"),
                tax.get("BT-121"),
            )
        self._at.pop("BG-23", None)

    def _totals(self, values: Values) -> Totals:
        currency, vat_currency = values.get("BT-5"), values.get("BT-6")
        vat = accounting = None
        for total in self._groups(values, "BT-110"):
            if vat_currency and vat_currency != currency and total.get("currency") == vat_currency:
                accounting = self._minor(total, "amount", "BT-111")
            elif vat is None:
                vat = self._minor(total, "amount", "BT-110")
        return Totals(
            lines_minor=self._minor(values, "BT-106"),
            net_minor=self._minor(values, "BT-109"),
            vat_minor=vat,
            gross_minor=self._minor(values, "BT-112"),
            due_minor=self._minor(values, "BT-115"),
            rounding_minor=self._minor(values, "BT-114") or 0,
            allowances_minor=self._minor(values, "BT-107"),
            charges_minor=self._minor(values, "BT-108"),
            prepaid_minor=self._minor(values, "BT-113"),
            vat_accounting_minor=accounting,
        )

    def _allowances_charges(self, values: Values) -> Iterable[AllowanceCharge]:
        for name in ("BG-20", "freight"):
            for item in self._groups(values, name):
                is_charge = name == "freight" or item.get("is_charge") in _YES
                yield AllowanceCharge(
                    is_charge,
                    self._minor(item, "BT-92", _CHARGES["BT-92"] if is_charge else ""),
                    self._minor(item, "BT-93", _CHARGES["BT-93"] if is_charge else ""),
                    self._decimal(item, "BT-94"),
                    item.get("BT-97"),
                    item.get("BT-98"),
                    item.get("BT-95"),
                    self._decimal(item, "BT-96"),
                )

    def _payment(self, values: Values) -> Payment:
        means, terms = values.get("BG-16") or [], values.get("terms") or []
        codes = list(dict.fromkeys(item["BT-81"] for item in means if item.get("BT-81")))
        text = "\n".join(_terms(item["BT-20"]) for item in terms if (item.get("BT-20") or "").strip()) or None
        return Payment(
            means_code=codes[0] if codes else None,
            reference=values.get("BT-83") or _first(means, "BT-83"),
            terms=text,
            due_on=self._first_day((values, *terms, *means), "BT-9"),
            transfers=tuple(
                CreditTransfer(number.replace(" ", ""), item.get("BT-85"), item.get("BT-86"))
                for item in means
                if (number := item.get("BT-84") or item.get("BT-84p"))
            ),
            means_text=_first(means, "BT-82"),
            card=next((Card(item["BT-87"], item.get("BT-88")) for item in means if item.get("BT-87")), None),
            direct_debit=_direct_debit(values, means, terms),
            discounts=(*discounts_of(text), *self._structured_discounts(values)),
            other_means_codes=tuple(codes[1:]),
        )

    def _first_day(self, groups: Iterable[Values], term: str) -> date | None:
        return next((day for group in groups if term in group and (day := self._day(group, term))), None)

    def _structured_discounts(self, values: Values) -> Iterable[Discount]:
        """Skonto of ZUGFeRD's EXTENDED: a period from a day, or until the due day of its own terms."""
        for terms in self._groups(values, "terms"):
            for item in self._groups(terms, "discount"):
                days = self._decimal(item, "days")
                is_days = days is not None and days == days.to_integral_value() and 0 <= days < 10_000
                is_days = is_days and item.get("unit", "DAY") == "DAY"
                yield Discount(
                    percent=self._decimal(item, "percent"),
                    days=int(days) if days is not None and is_days else None,
                    until=None if days is not None else self._first_day((item,), "from") or self._first_day((terms,), "BT-9"),
                    base_minor=self._minor(item, "base"),
                    amount_minor=self._minor(item, "amount"),
                )  # fmt: skip

    def _attachment(self, values: Values) -> Attachment:
        content = None
        if text := values.get("BT-125"):
            try:
                content = b64decode(_BLANKS.sub("", text), validate=True)
            except ValueError:
                self._fault("not-base64", "BT-125")
        return Attachment(
            id=values.get("BT-122"),
            description=values.get("BT-123"),
            uri=values.get("BT-124"),
            name=values.get("BT-125f"),
            media_type=values.get("BT-125m"),
            content=content,
        )


def _usual_minor(text: str) -> int:
    """Returns an amount in hundredths, if it has two decimals; checked without a pattern, which takes half the time. Raises ValueError."""
    if text[-3:-2] == "." and len(text) < 15:
        digits = text[:-3] + text[-2:]
        if digits.isdigit() and digits.isascii():
            return int(digits)
    raise ValueError


@lru_cache(4096)
def _decimal_of(text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return Decimal(text)


_USUAL: dict[str, Callable[[str], Any]] = {"decimal": _decimal_of, "minor": _usual_minor}
_LINE_FIELDS = {term: (Line._fields.index(field), _USUAL.get(kind)) for term, (field, kind) in _LINE_TERMS.items()}


@lru_cache(4096)
def _day_of(text: str) -> date | None:
    found = _DAY.fullmatch(text)
    try:
        return date(int(found[1]), int(found[3]), int(found[4])) if found else None
    except ValueError:
        return None


def _shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _terms(text: str) -> str:
    """Discounts end with their line, so that its end is kept."""
    return text if "#" in text else text.strip()


def _first(groups: Iterable[Values], term: str) -> str | None:
    return next((group[term] for group in groups if group.get(term)), None)


def _shape_of(flat: Flat, start: int, syntax: Syntax) -> _Shape | None:
    """Returns the shape of a line, or None if it has more than plain terms."""
    places = plain_places(flat, start, syntax.line_plan)
    if not places or not all(place.term in _LINE_TERMS for place in places):
        return None
    texts = [place for place in places if not place.attribute]
    attributes = [place for place in places if place.attribute]
    return _Shape(
        tuple(place.offset for place in texts),
        tuple((place.offset, place.attribute) for place in attributes),
        tuple(place.term for place in (*texts, *attributes)),
    )


def _pattern_of(scan: Scan, line: Part, syntax: Syntax) -> _Pattern | None:
    flat, places = scan.element(line)
    shape = _shape_of(flat, 0, syntax)
    if shape is None:
        return None
    attributes = zip(shape.attributes, shape.terms[len(shape.indexes) :], strict=True)
    stated = {term: text.strip() for (index, name), term in attributes if (text := flat.elements[index].get(name))}
    # In the order of the file. What ends where it begins has no text.
    read = sorted(
        (places[index], term)
        for index, term in zip(shape.indexes, shape.terms, strict=False)
        if not line.tags[places[index]].endswith(b"/")
    )
    return _Pattern(tuple(place for place, _ in read), tuple(term for _, term in read), stated) if read else None


# --- Parties, references


def _identifier(values: Values, term: str) -> Identifier | None:
    value = values.get(term)
    return Identifier(value, values.get(f"{term}s")) if value else None


def _identifiers(values: Values, term: str) -> tuple[str | None, Identifier | None]:
    """Returns a party's own identifier, and one of a known list. UBL has a group for each."""
    found = values.get(term)
    if not isinstance(found, list):
        scheme = values.get(f"{term}g")
        return found, Identifier(scheme, values.get(f"{term}s")) if scheme else None
    own = next((item["id"] for item in found if item.get("id") and "scheme" not in item), None)
    listed = (item for item in found if item.get("id") and item.get("scheme") not in (None, _SEPA_CREDITOR))
    return own, next((Identifier(item["id"], item["scheme"]) for item in listed), None)


def _tax_numbers(values: Values, term: str) -> tuple[str | None, str | None]:
    """Returns VAT id and tax number."""
    vat_id = tax_number = None
    for item in values.get(term) or ():
        if item.get("scheme") in ("VA", "VAT"):
            vat_id = vat_id or item.get("id")
        else:
            tax_number = tax_number or item.get("id")
    return vat_id, tax_number


def _address(values: Values, terms: tuple[str, ...]) -> Address | None:
    found = list(map(values.get, terms))
    if not any(found):
        return None
    street, postal_code, city, country, *more = found
    return Address(street or "", postal_code or "", city or "", country or "", *more)


def _contact(values: Values, terms: tuple[str, ...]) -> Contact | None:
    person, department, phone, email = map(values.get, terms)
    return (
        Contact(person or department or "", phone or "", email or "")
        if person or department or phone or email
        else None
    )


def _electronic_address(values: Values, term: str) -> ElectronicAddress | None:
    address = values.get(term)
    return ElectronicAddress(values.get(f"{term}s") or "", address) if address else None


def _payee(values: Values) -> Payee | None:
    own, listed = _identifiers(values, "BT-60")
    name, registration = values.get("BT-59"), _identifier(values, "BT-61")
    if not (name or own or listed or registration):
        return None
    return Payee(name or "", listed or (Identifier(own) if own else None), registration)


def _representative(values: Values) -> Party | None:
    address = _address(values, _REPRESENTATIVE_ADDRESS)
    vat_id, name = _tax_numbers(values, "BT-63")[0], values.get("BT-62")
    return Party(name=name or "", address=address, vat_id=vat_id) if name or address or vat_id else None


def _delivery(values: Values) -> Delivery | None:
    own, listed = _identifiers(values, "BT-71")
    address = _address(values, _DELIVERY_ADDRESS)
    found = Delivery(values.get("BT-70"), listed or (Identifier(own) if own else None), address)
    return found if any(found) else None


def _direct_debit(values: Values, means: list[Values], terms: list[Values]) -> DirectDebit | None:
    parties = (*(values.get("BT-60") or () if isinstance(values.get("BT-60"), list) else ()),
               *(values.get("BT-29") or () if isinstance(values.get("BT-29"), list) else ()))  # fmt: skip
    creditor = next((item.get("id") for item in parties if item.get("scheme") == _SEPA_CREDITOR), None)
    found = DirectDebit(_first((*terms, *means), "BT-89"), values.get("BT-90") or creditor, _first(means, "BT-91"))
    return found if any(found) else None


def _references(values: Values, documents: Iterable[Values]) -> References:
    by_type = {item.get("type"): item for item in documents}
    tender, object_ = by_type.get(_TENDER), by_type.get(_OBJECT)
    number = object_.get("BT-122") if object_ else None
    get = values.get
    return References(
        order=get("BT-13"),
        sales_order=get("BT-14"),
        contract=get("BT-12"),
        project=get("BT-11"),
        despatch=get("BT-16"),
        receipt=get("BT-15"),
        tender=get("BT-17") or (tender.get("BT-122") if tender else None),
        object=Identifier(number, object_.get("BT-18s")) if object_ and number else None,
        accounting=get("BT-19"),
    )


def _is_attachment(values: Values) -> bool:
    return values.get("type") not in (_TENDER, _OBJECT) or "BT-125" in values
