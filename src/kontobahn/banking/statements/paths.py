"""Which elements of a camt entry are read, as data: one list of paths serves all versions of camt.052, 053 and 054.

`walk` puts their texts into a list, in the order of the paths' groups. Paths of one group are different versions' places of the
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
    """The slot of a list of lists: an element that is walked by itself each time it comes."""


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

# `@` marks an amount with its currency, `*` an element that comes several times, `**` one that is walked by itself.
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
    ("NtryDtls/TxDtls**",),
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
def steps_of(paths: tuple[tuple[str, ...], ...], space: str, nested: bool) -> tuple[Steps, int]:
    """The tree that `walk` follows, and how many slots it fills. `nested`: the version has `Sts/Cd` for `Sts`."""
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
        slot += 2 if group[0].endswith("@") else 1
    return tree, slot


def _step(path: str, slot: int) -> int:
    if path.endswith("**"):
        return Parts(slot)
    return _KINDS.get(path[-1], int)(slot)


def walk(entry: etree._Element, steps: Steps, slots: Slots, details: tuple[Steps, int]) -> None:
    """Flat, not level by level: an iterator for each of its elements would cost half as much as parsing the entry."""
    inside: dict[etree._Element | None, tuple[Steps, Slots]] = {entry: (steps, slots)}
    for element in entry.iterdescendants():
        found = inside.get(element.getparent())
        if found is None:
            continue
        here, target = found
        step: Any = here.get(element.tag)
        kind = type(step)
        if kind is int:
            if target[step] is None:
                target[step] = element.text
        elif kind is dict:
            inside[element] = (step, target)
        elif kind is Money:
            if target[step] is None:
                target[step], target[step + 1] = element.text, element.get("Ccy")
        elif kind is Lines:
            if target[step] is None:
                target[step] = []
            target[step].append(element.text or "")
        elif kind is Parts:
            part: Slots = [None] * details[1]
            inside[element] = (details[0], part)
            if target[step] is None:
                target[step] = []
            target[step].append(part)
