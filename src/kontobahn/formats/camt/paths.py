"""Which elements of a camt entry are read, as data: one list of paths serves all versions of camt.052, 053 and 054.

`Walk` puts their texts into a list, in the order of the paths' groups. Paths of one group are different versions' places of the
same thing; the first that is there wins. What is not listed is not looked into.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from lxml import etree

Steps: TypeAlias = dict[Any, Any]
Slots: TypeAlias = list[Any]


class Money(int):
    """The slot of an amount; its currency goes into the next."""


class Lines(int):
    """The slot of a list: the element comes several times."""


class Parts(int):
    """An element whose inside has slots of its own, each time it comes."""


def _party(role: str) -> tuple[tuple[str, ...], ...]:
    """Name, identification, IBAN, other account and BIC of a debtor or creditor."""
    party, account, agent = f"RltdPties/{role}", f"RltdPties/{role}Acct/Id", f"RltdAgts/{role}Agt/FinInstnId"
    return (
        (f"{party}/Nm", f"{party}/Pty/Nm", f"{party}/Agt/FinInstnId/Nm"),
        tuple(f"{party}/{of}Id/{kind}/Othr/Id" for of in ("", "Pty/") for kind in ("PrvtId", "OrgId")),
        (f"{account}/IBAN",),
        (f"{account}/Othr/Id",),
        (f"{agent}/BICFI", f"{agent}/BIC"),
    )


_CODE = (("BkTxCd/Domn/Cd",), ("BkTxCd/Domn/Fmly/Cd",), ("BkTxCd/Domn/Fmly/SubFmlyCd",), ("BkTxCd/Prtry/Cd",))
_CHARGES = ("Chrgs/TtlChrgsAndTaxAmt@", "Chrgs/Amt@", "Chrgs/Rcrd/Amt@")

# `@` marks an amount with its currency, `*` an element that comes several times, `**` one with slots of its own.
ENTRY = (
    ("Amt@",),
    ("CdtDbtInd",),
    ("Sts", "Sts/Cd"),
    ("BookgDt/Dt", "BookgDt/DtTm"),
    ("ValDt/Dt", "ValDt/DtTm"),
    ("RvslInd",),
    ("NtryRef",),
    ("AcctSvcrRef",),
    *_CODE,
    ("AddtlNtryInf",),
    _CHARGES,
    ("NtryDtls/Btch/NbOfTxs",),
    ("NtryDtls/Btch/PmtInfId",),
    ("NtryDtls/TxDtls**",),  # the last: it fills no slot
)
DETAILS = (
    ("Amt@", "AmtDtls/TxAmt/Amt@"),
    ("CdtDbtInd",),
    ("AmtDtls/InstdAmt/Amt@",),
    ("Refs/EndToEndId",),
    ("Refs/MndtId",),
    ("Refs/InstrId",),
    ("Refs/TxId",),
    ("Refs/PmtInfId",),
    ("Refs/AcctSvcrRef",),
    ("Refs/Prtry/Ref",),
    *_party("Dbtr"),
    *_party("Cdtr"),
    ("RltdPties/UltmtDbtr/Nm", "RltdPties/UltmtDbtr/Pty/Nm"),
    ("RltdPties/UltmtCdtr/Nm", "RltdPties/UltmtCdtr/Pty/Nm"),
    ("RmtInf/Ustrd*",),
    ("RmtInf/Strd/CdtrRefInf/Ref*", "RmtInf/Strd/AddtlRmtInf*"),
    ("Purp/Cd", "Purp/Prtry"),
    *_CODE,
    ("RtrInf/Rsn/Cd", "RtrInf/Rsn/Prtry"),
    _CHARGES,
    ("AddtlTxInf",),
)
_KINDS: dict[str, type[int]] = {"@": Money, "*": Lines}


@cache
def _steps_of(paths: tuple[tuple[str, ...], ...], space: str, nested: bool) -> tuple[Steps, int]:
    """The paths as a tree, and how many slots they fill. `nested`: the version has `Sts/Cd` for `Sts`."""
    tree: Steps = {}
    slot = 0
    for group in paths:
        for path in group:
            names = path.rstrip("@*").split("/")
            if names[0] == "Sts" and nested != (len(names) == 2):
                continue
            here = tree
            for name in names[:-1]:
                here = here.setdefault(space + name, {})
            here[space + names[-1]] = _step(path, slot)
        slot += {"@": 2, "*": 0 if group[0].endswith("**") else 1}.get(group[0][-1], 1)
    return tree, slot


def _step(path: str, slot: int) -> int:
    if path.endswith("**"):
        return Parts(slot)
    return _KINDS.get(path[-1], int)(slot)


class Plan:
    """Which of an entry's elements, counted in their order, go into which slot."""

    __slots__ = ("again", "lines", "money", "parts", "texts")

    def __init__(self) -> None:
        self.texts: list[tuple[int, int]] = []
        self.again: list[tuple[int, int]] = []  # for a slot that the one before may have left empty
        self.money: list[tuple[int, int]] = []
        self.lines: dict[int, list[int]] = {}
        self.parts: list[Plan] = []

    def fill(self, elements: list[etree._Element], size: int) -> Slots:
        slots: Slots = [None] * size
        for slot, place in self.texts:
            slots[slot] = elements[place].text
        for slot, place in self.again:
            if slots[slot] is None:
                slots[slot] = elements[place].text
        for slot, place in self.money:
            if slots[slot] is None:
                slots[slot], slots[slot + 1] = elements[place].text, elements[place].get("Ccy")
        for slot, places in self.lines.items():
            slots[slot] = [elements[place].text or "" for place in places]
        return slots


class Walk:
    """Reads entries by the paths above. A bank's entries have few different shapes, so each is worked out once."""

    def __init__(self, space: str, *, nested_status: bool) -> None:
        self._steps, self._size = _steps_of(ENTRY, space, nested_status)
        self._part_steps, self.part_size = _steps_of(DETAILS, space, nested_status)
        self._plans: dict[Any, Plan] = {}

    def slots(self, entry: etree._Element) -> tuple[Slots, list[Slots]]:
        """The entry's slots, and those of each of its transactions."""
        elements = list(entry.iterdescendants())
        if len(elements) > _LARGEST_SHAPE:
            plan = self._plan(entry, elements)
        else:
            # Names in their order and how many children each has: together they are the shape.
            shape = (tuple([element.tag for element in elements]), tuple([len(element) for element in elements]))
            known = self._plans.get(shape)
            if known is None:
                if len(self._plans) >= _MOST_SHAPES:
                    self._plans.clear()
                known = self._plans[shape] = self._plan(entry, elements)
            plan = known
        return plan.fill(elements, self._size), [part.fill(elements, self.part_size) for part in plan.parts]

    def _plan(self, entry: etree._Element, elements: list[etree._Element]) -> Plan:
        whole = Plan()
        inside: dict[etree._Element | None, tuple[Steps, Plan]] = {entry: (self._steps, whole)}
        taken: set[tuple[int, int]] = set()
        for place, element in enumerate(elements):
            steps, plan = inside.get(element.getparent(), _NOWHERE)
            step: Any = steps.get(element.tag)
            kind = type(step)
            if kind is int:
                (plan.again if (id(plan), step) in taken else plan.texts).append((step, place))
                taken.add((id(plan), step))
            elif kind is dict:
                inside[element] = (step, plan)
            elif kind is Money:
                plan.money.append((step, place))
            elif kind is Lines:
                plan.lines.setdefault(step, []).append(place)
            elif kind is Parts:
                whole.parts.append(Plan())
                inside[element] = (self._part_steps, whole.parts[-1])
        return whole


_LARGEST_SHAPE = 150
_MOST_SHAPES = 500
_NOWHERE: tuple[Steps, Plan] = ({}, Plan())
