"""Which elements of a camt entry are read: `EntryFields` and `DetailFields` are the one list, for all versions.

Each field names its paths. Several paths are where different versions put the same thing; the first one present wins.
Elements that are not listed here are skipped. What the texts mean is decided in `entry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeAlias, get_type_hints

import msgspec
from lxml import etree

Steps: TypeAlias = dict[Any, Any]
Text: TypeAlias = str | None
Lines: TypeAlias = list[str] | None

# A path ends in `@` if its element is an amount, whose currency goes into the next field; in `*` if the element repeats.
_CURRENCY = ""
_CHARGES = ("Chrgs/TtlChrgsAndTaxAmt@", "Chrgs/Amt@", "Chrgs/Rcrd/Amt@")
_DETAILS = "NtryDtls/TxDtls"


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
    """Which of an entry's elements, counted in document order, go into which field."""

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
