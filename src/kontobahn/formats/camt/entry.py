"""One camt entry (Ntry) as one Entry, or as one for each transaction of a batch if their amounts make up the whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import cache, lru_cache
from typing import Annotated, Any, TypeAlias, get_type_hints

import msgspec
from lxml import etree

from kontobahn.formats.statements import NOBODY, Amount, Entry, Opening, Party, StatementAccount, StatementError, Status
from kontobahn.formats.statements.purpose import Purpose, join_lines, parse, provided, reference
from kontobahn.formats.statements.source import (
    Remark,
    amount_beside,
    currency_of,
    day_of,
    minor_of,
    nearly_day_of,
    whole_number,
)
from kontobahn.sentences import said

_STATUSES: dict[str, Status] = {"BOOK": "posted", "PDNG": "pending", "FUTR": "pending"}
_SIGNS = {"CRDT": 1, "DBIT": -1}
_TRUE = ("true", "1")
_CREDITOR_ID = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{3}[A-Z0-9]{1,28}", re.ASCII | re.IGNORECASE)
Steps: TypeAlias = dict[Any, Any]
Text: TypeAlias = str | None
Lines: TypeAlias = list[str] | None

# A path ends in `@` if its element is an amount, whose currency goes into the next field; in `*` if the element repeats.
_CURRENCY = ""
_CHARGES = ("Chrgs/TtlChrgsAndTaxAmt@", "Chrgs/Amt@", "Chrgs/Rcrd/Amt@")
_DETAILS = "NtryDtls/TxDtls"


# --- The elements that are read: `EntryFields` and `DetailFields` are the one list, for all versions.
#
# Each field names its paths. Several paths are where different versions put the same thing; the first one present wins.
# Elements that are not listed here are skipped.


def _identification(role: str) -> tuple[str, ...]:
    return tuple(f"RltdPties/{role}/{of}Id/{kind}/Othr/Id" for of in ("", "Pty/") for kind in ("PrvtId", "OrgId"))


class EntryFields(msgspec.Struct, frozen=True, gc=False):
    """The texts of an entry (Ntry) as a whole."""

    amount: Annotated[Text, "Amt@"]
    currency: Annotated[Text, _CURRENCY]
    direction: Annotated[Text, "CdtDbtInd"]
    status: Annotated[Text, "Sts", "Sts/Cd"]
    booking_date: Annotated[Text, "BookgDt/Dt", "BookgDt/DtTm"]
    value_date: Annotated[Text, "ValDt/Dt", "ValDt/DtTm"]
    reversal: Annotated[Text, "RvslInd"]
    reference: Annotated[Text, "NtryRef"]
    bank_reference: Annotated[Text, "AcctSvcrRef"]
    domain: Annotated[Text, "BkTxCd/Domn/Cd"]
    family: Annotated[Text, "BkTxCd/Domn/Fmly/Cd"]
    subfamily: Annotated[Text, "BkTxCd/Domn/Fmly/SubFmlyCd"]
    proprietary_code: Annotated[Text, "BkTxCd/Prtry/Cd"]
    information: Annotated[Text, "AddtlNtryInf"]
    charges: Annotated[Text, *_CHARGES]
    charges_currency: Annotated[Text, _CURRENCY]
    batch_count: Annotated[Text, "NtryDtls/Btch/NbOfTxs"]
    batch_id: Annotated[Text, "NtryDtls/Btch/PmtInfId"]


class DetailFields(msgspec.Struct, frozen=True, gc=False):
    """The texts of one of an entry's transactions (TxDtls)."""

    amount: Annotated[Text, "Amt@", "AmtDtls/TxAmt/Amt@"]
    currency: Annotated[Text, _CURRENCY]
    direction: Annotated[Text, "CdtDbtInd"]
    original: Annotated[Text, "AmtDtls/InstdAmt/Amt@"]
    original_currency: Annotated[Text, _CURRENCY]
    end_to_end_id: Annotated[Text, "Refs/EndToEndId"]
    mandate: Annotated[Text, "Refs/MndtId"]
    instruction_id: Annotated[Text, "Refs/InstrId"]
    transaction_id: Annotated[Text, "Refs/TxId"]
    payment_information_id: Annotated[Text, "Refs/PmtInfId"]
    bank_reference: Annotated[Text, "Refs/AcctSvcrRef"]
    proprietary_reference: Annotated[Text, "Refs/Prtry/Ref"]
    debtor: Annotated[Text, "RltdPties/Dbtr/Nm", "RltdPties/Dbtr/Pty/Nm", "RltdPties/Dbtr/Agt/FinInstnId/Nm"]
    debtor_id: Annotated[Text, *_identification("Dbtr")]
    debtor_iban: Annotated[Text, "RltdPties/DbtrAcct/Id/IBAN"]
    debtor_account: Annotated[Text, "RltdPties/DbtrAcct/Id/Othr/Id"]
    debtor_bic: Annotated[Text, "RltdAgts/DbtrAgt/FinInstnId/BICFI", "RltdAgts/DbtrAgt/FinInstnId/BIC"]
    creditor: Annotated[Text, "RltdPties/Cdtr/Nm", "RltdPties/Cdtr/Pty/Nm", "RltdPties/Cdtr/Agt/FinInstnId/Nm"]
    creditor_id: Annotated[Text, *_identification("Cdtr")]
    creditor_iban: Annotated[Text, "RltdPties/CdtrAcct/Id/IBAN"]
    creditor_account: Annotated[Text, "RltdPties/CdtrAcct/Id/Othr/Id"]
    creditor_bic: Annotated[Text, "RltdAgts/CdtrAgt/FinInstnId/BICFI", "RltdAgts/CdtrAgt/FinInstnId/BIC"]
    ultimate_debtor: Annotated[Text, "RltdPties/UltmtDbtr/Nm", "RltdPties/UltmtDbtr/Pty/Nm"]
    ultimate_creditor: Annotated[Text, "RltdPties/UltmtCdtr/Nm", "RltdPties/UltmtCdtr/Pty/Nm"]
    lines: Annotated[Lines, "RmtInf/Ustrd*"]
    structured: Annotated[Lines, "RmtInf/Strd/CdtrRefInf/Ref*", "RmtInf/Strd/AddtlRmtInf*"]
    purpose_code: Annotated[Text, "Purp/Cd", "Purp/Prtry"]
    domain: Annotated[Text, "BkTxCd/Domn/Cd"]
    family: Annotated[Text, "BkTxCd/Domn/Fmly/Cd"]
    subfamily: Annotated[Text, "BkTxCd/Domn/Fmly/SubFmlyCd"]
    proprietary_code: Annotated[Text, "BkTxCd/Prtry/Cd"]
    return_reason: Annotated[Text, "RtrInf/Rsn/Cd", "RtrInf/Rsn/Prtry"]
    charges: Annotated[Text, *_CHARGES]
    charges_currency: Annotated[Text, _CURRENCY]
    information: Annotated[Text, "AddtlTxInf"]


NO_DETAILS = DetailFields(*[None] * len(DetailFields.__struct_fields__))


# A leaf of the tree of steps is the position of its field; its type says how the element is read.
class _Single(int):
    pass


class _Amount(int):
    pass


class _Repeated(int):
    pass


class _Transaction:
    """The leaf of an element whose children fill a `DetailFields` of their own."""


_LEAVES = {"@": _Amount, "*": _Repeated}


@cache
def _steps_of(fields: type[EntryFields] | type[DetailFields], space: str, nested_status: bool) -> Steps:
    """Returns the fields' paths as a tree. `nested_status`: the version writes `Sts/Cd` for `Sts`."""
    tree: Steps = {}
    hints = get_type_hints(fields, include_extras=True)
    for position, name in enumerate(fields.__struct_fields__):
        for path in filter(None, hints[name].__metadata__):
            if path.startswith("Sts") and nested_status != (path == "Sts/Cd"):
                continue
            _add(tree, path.rstrip("@*"), space, _LEAVES.get(path[-1], _Single)(position))
    if fields is EntryFields:
        _add(tree, _DETAILS, space, _Transaction())
    return tree


def _add(tree: Steps, path: str, space: str, leaf: Any) -> None:
    *above, last = path.split("/")
    for name in above:
        tree = tree.setdefault(space + name, {})
    tree[space + last] = leaf


class _Layout:
    """The field that each of an entry's elements goes into, counted in document order."""

    __slots__ = ("_again", "_amounts", "_lines", "_make", "_size", "_texts", "details")

    def __init__(self, fields: type[EntryFields] | type[DetailFields]) -> None:
        self._make: Callable[..., Any] = fields
        self._size = len(fields.__struct_fields__)
        self._texts: dict[int, int] = {}
        self._again: list[tuple[int, int]] = []  # used if the elements before left the field empty
        self._amounts: list[tuple[int, int]] = []
        self._lines: dict[int, list[int]] = {}
        self.details: list[_Layout] = []

    def add(self, leaf: Any, index: int) -> None:
        kind, position = type(leaf), int(leaf)
        if kind is _Amount:
            self._amounts.append((position, index))
        elif kind is _Repeated:
            self._lines.setdefault(position, []).append(index)
        elif position in self._texts:
            self._again.append((position, index))
        else:
            self._texts[position] = index

    def read(self, elements: list[etree._Element]) -> Any:
        values: list[Any] = [None] * self._size
        for position, index in self._texts.items():
            values[position] = elements[index].text
        for position, index in self._again:
            if values[position] is None:
                values[position] = elements[index].text
        for position, index in self._amounts:
            if values[position] is None:
                values[position], values[position + 1] = elements[index].text, elements[index].get("Ccy")
        for position, indices in self._lines.items():
            values[position] = [elements[index].text or "" for index in indices]
        return self._make(*values)


class FieldReader:
    """Reads entries by the paths above. A bank's entries have few different shapes, so each layout is worked out once."""

    def __init__(self, space: str, *, nested_status: bool) -> None:
        self._steps = _steps_of(EntryFields, space, nested_status)
        self._detail_steps = _steps_of(DetailFields, space, nested_status)
        self._layouts: dict[Any, _Layout] = {}

    def read(self, entry: etree._Element) -> tuple[EntryFields, list[DetailFields]]:
        """Returns the fields of the entry, and those of each of its transactions."""
        elements = list(entry.iterdescendants())
        if len(elements) > _MAX_SHAPE_ELEMENTS:
            layout = self._layout(entry, elements)
        else:
            # Names in document order and how many children each has: together they are the shape.
            shape = (tuple([element.tag for element in elements]), tuple([len(element) for element in elements]))
            known = self._layouts.get(shape)
            if known is None:
                if len(self._layouts) >= _MAX_SHAPES:
                    self._layouts.clear()
                known = self._layouts[shape] = self._layout(entry, elements)
            layout = known
        return layout.read(elements), [details.read(elements) for details in layout.details]

    def _layout(self, entry: etree._Element, elements: list[etree._Element]) -> _Layout:
        whole = _Layout(EntryFields)
        inside: dict[etree._Element | None, tuple[Steps, _Layout]] = {entry: (self._steps, whole)}
        for index, element in enumerate(elements):
            steps, layout = inside.get(element.getparent(), (_NOWHERE, whole))
            step = steps.get(element.tag)
            if step is None:
                continue
            if isinstance(step, dict):
                inside[element] = (step, layout)
            elif isinstance(step, _Transaction):
                whole.details.append(_Layout(DetailFields))
                inside[element] = (self._detail_steps, whole.details[-1])
            else:
                layout.add(step, index)
        return whole


_MAX_SHAPE_ELEMENTS = 150
_MAX_SHAPES = 500
_NOWHERE: Steps = {}


# --- From their texts to entries


class EntryReader:
    def __init__(self, space: str, *, nested_status: bool) -> None:
        self._space = space
        self._fields = FieldReader(space, nested_status=nested_status)

    def read(
        self, element: etree._Element, number: int, account: StatementAccount, opening: Opening, remarks: list[Remark]
    ) -> list[Entry]:
        """Returns no entry for one that only informs. Raises StatementError if something is missing or wrong."""
        fields, details = self._fields.read(element)
        status = _STATUSES.get(fields.status or "")
        if status is None:
            code = self._status_code(element, fields.status)
            if code == "INFO":
                return []
            status = _STATUSES[code]
        whole = _Whole(fields, status, number, element.sourceline or 0, account, opening, remarks)
        if len(details) == 1:
            return [whole.entry(details[0])]
        if len(details) > 1 and (amounts := whole.amounts_of(details)):
            return [
                whole.entry(part, amount, len(details), number)
                for number, (part, amount) in enumerate(zip(details, amounts, strict=True), 1)
            ]
        return [whole.entry(NO_DETAILS, None, len(details))]

    def _status_code(self, element: etree._Element, text: str | None) -> str:
        """Returns the status even if the bank writes it as another version of the format does."""
        nested = element.findtext(f"{self._space}Sts/{self._space}Cd")
        direct = element.findtext(f"{self._space}Sts")
        for code in ((text or "").strip(), (nested or "").strip(), (direct or "").strip()):
            if code == "INFO" or code in _STATUSES:
                return code
        raise StatementError("The entry's status (Sts) is missing or none of BOOK, PDNG, FUTR and INFO.")


class _Whole:
    """The facts of the entry as a whole, which each of its parts shares."""

    __slots__ = ("_account", "_booked", "_currency", "_fields", "_line", "_number", "_remarks", "_reversal", "_sign", "_status",
                 "_value", "amount")  # fmt: skip

    def __init__(
        self,
        fields: EntryFields,
        status: Status,
        number: int,
        line: int,
        account: StatementAccount,
        opening: Opening,
        remarks: list[Remark],
    ) -> None:
        self._fields = fields
        self._remarks = remarks
        self._status = status
        self._number = number
        self._line = line
        self._account = account
        if fields.amount is None:
            raise StatementError("The entry has no amount (Amt).")
        sign = fields.direction or ""
        direction = _SIGNS.get(sign) or _SIGNS.get(sign.strip())
        if direction is None:
            raise StatementError("The entry is neither credit nor debit (CdtDbtInd).")
        currency = fields.currency
        if currency is None or currency != account.currency:
            if account.currency is not None:
                raise StatementError(
                    said(
                        "The account is kept in {currency}, but the entry is in {other}.",
                        currency=account.currency,
                        other=currency,
                    )
                )
            currency = currency_of(currency)
        self._sign = direction
        self.amount = direction * minor_of(fields.amount)
        self._currency = currency
        value, booked = fields.value_date, fields.booking_date
        self._value = nearly_day_of(value, remarks) if value and value.strip() else None
        self._booked = (
            nearly_day_of(booked, remarks) if booked and booked.strip() else self._without_booking_date(opening)
        )
        self._reversal = fields.reversal is not None and fields.reversal.strip() in _TRUE

    def _without_booking_date(self, opening: Opening) -> date:
        if self._value is not None:
            return self._value
        if self._status == "pending" and opening.created_at:
            return day_of(opening.created_at)
        raise StatementError("The entry has no booking date (BookgDt), and no value date (ValDt) either.")

    def amounts_of(self, details: list[DetailFields]) -> list[int] | None:
        """Returns the parts' amounts if they make up the whole; money is never guessed."""
        amounts = []
        for part in details:
            if part.amount is None or part.currency != self._currency:
                return None
            own = amount_beside(part.amount, part.currency, self._remarks)
            if own is None:
                return None
            amounts.append(_SIGNS.get(part.direction or "", self._sign) * own.amount_minor)
        return amounts if sum(amounts) == self.amount else None

    def entry(self, details: DetailFields, amount: int | None = None, count: int = 1, part: int = 0) -> Entry:
        fields = self._fields
        description = _description(details.lines, details.structured)
        code = details if details.domain is not None else fields
        german = details.proprietary_code or fields.proprietary_code
        gvc, primanota = german_code(german) if german else (None, None)
        charges = original = None
        charged = details if details.charges is not None else fields
        if charged.charges is not None:
            charges = amount_beside(charged.charges, charged.charges_currency, self._remarks)
        if details.original is not None:
            original = amount_beside(details.original, details.original_currency, self._remarks)
        payer = _party(details.debtor, details.debtor_iban, details.debtor_account, details.debtor_bic)
        payee = _party(details.creditor, details.creditor_iban, details.creditor_account, details.creditor_bic)
        amount = self.amount if amount is None else amount
        purpose = _purpose(description, details, original, charges)
        other = self._counterparty(payer, payee, amount, self._reversal or details.return_reason is not None)
        if purpose.iban is not None and other.iban is None:
            payer, payee, other = _with_account(payer, payee, other, purpose)
        if fields.batch_count is not None and part == 0:
            count = max(count, whole_number(fields.batch_count) or 1)
        return Entry(
            status=self._status,
            amount_minor=amount,
            currency=self._currency,
            booking_date=self._booked,
            value_date=self._value,
            description=description or details.information or fields.information or "",
            purpose=purpose,
            counterparty=other,
            payer=payer,
            payee=payee,
            booking_text=fields.information or details.information,
            bank_reference=_reference(details.bank_reference, fields.bank_reference, details.proprietary_reference),
            entry_reference=fields.reference,
            customer_reference=details.instruction_id,
            transaction_id=details.transaction_id,
            payment_information_id=details.payment_information_id or fields.batch_id,
            transaction_code=None if code.domain is None else f"{code.domain}-{code.family}-{code.subfamily}",
            gvc=gvc,
            primanota=primanota,
            reversal=self._reversal,
            return_reason=details.return_reason,
            original_amount=original,
            charges=charges,
            batch_size=max(count, 1),
            part=part,
            number=self._number,
            line=self._line,
        )

    def _counterparty(self, payer: Party, payee: Party, amount: int, returned: bool) -> Party:
        """Returns whichever is not the account itself. A returned payment keeps the payer and payee of the original."""
        if payer is NOBODY or (payer.iban is not None and payer.iban == self._account.iban):
            return payee
        if payee is NOBODY or (payee.iban is not None and payee.iban == self._account.iban):
            return payer
        return payer if (amount >= 0) != returned else payee


def _reference(*candidates: str | None) -> str | None:
    """Returns the first real reference: NONREF on every entry would make them all the same."""
    for candidate in candidates:
        if candidate is not None and (reference := candidate.strip()) and reference != "NONREF":
            return reference
    return None


def _description(lines: list[str] | None, structured: list[str] | None) -> str:
    if structured is None:
        if lines is None:
            return ""
        return lines[0] if len(lines) == 1 else join_lines(lines)
    unstructured = join_lines(lines or ())
    return " ".join([*filter(None, [unstructured]), *(line for line in structured if line not in unstructured)])


def _party(name: str | None, iban: str | None, account: str | None, bic: str | None) -> Party:
    if name is None and iban is None and account is None and bic is None:
        return NOBODY
    return Party(name and provided(name), iban and iban.strip(), account, bic and provided(bic))


def _with_account(payer: Party, payee: Party, other: Party, purpose: Purpose) -> tuple[Party, Party, Party]:
    """Adds the account to the counterparty if only the purpose text names it."""
    named = other._replace(iban=purpose.iban, bic=other.bic or purpose.bic)
    return named if payer is other else payer, named if payee is other and payer is not other else payee, named


def _purpose(description: str, details: DetailFields, original: Amount | None, charges: Amount | None) -> Purpose:
    """Structured fields win; the text fills the rest."""
    if "+" in description or ":" in description or "\n" in description:
        text = parse(description)
        svwz = text.svwz
    else:
        text = _NO_TAGS
        svwz = provided(description)
    creditor_id, mandate, instruction_id = details.creditor_id, details.mandate, details.instruction_id
    debtor_id, by, to = details.debtor_id, details.ultimate_debtor, details.ultimate_creditor
    code, end_to_end_id = details.purpose_code, details.end_to_end_id
    return Purpose(
        cred=(creditor_id and _creditor_id(creditor_id)) or text.cred,
        mref=(mandate and reference(mandate)) or text.mref,
        kref=(instruction_id and reference(instruction_id)) or text.kref,
        debt=(debtor_id and provided(debtor_id)) or text.debt,
        svwz=svwz,
        abwa=(by and provided(by)) or text.abwa,
        abwe=(to and provided(to)) or text.abwe,
        bic=text.bic,
        oamt=(original and original.text) or text.oamt,
        coam=(charges and charges.text) or text.coam,
        purp=(code and provided(code)) or text.purp,
        end_to_end_id=(end_to_end_id and reference(end_to_end_id)) or text.end_to_end_id,
        iban=text.iban,
        mdat=text.mdat,
        sqtp=text.sqtp,
        orcr=text.orcr,
        ormr=text.ormr,
        ddat=text.ddat,
        bref=text.bref,
        rref=text.rref,
        additional=text.additional,
    )


_NO_TAGS = Purpose()


@lru_cache(4096)
def _creditor_id(text: str) -> str | None:
    """Returns the identification if it is that of a SEPA creditor; parties have others too."""
    text = text.strip()
    return text if _CREDITOR_ID.fullmatch(text) else None


@lru_cache(4096)
def german_code(code: str) -> tuple[str | None, str | None]:
    """Returns Geschäftsvorfallcode and primanota from `NTRF+166+00931+997`, or from the code alone."""
    pieces = code.strip().split("+")
    for index, piece in enumerate(pieces):
        if len(piece) == 3 and piece.isdigit():
            return piece, (pieces[index + 1] or None) if index + 1 < len(pieces) else None
    return None, None
