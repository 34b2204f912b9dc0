"""An unstructured :86: with code words between slashes, as Dutch and other banks outside Germany write it.

/EREF/E-1//CNTP/NL91ABNA0417164300/ABNANL2A/Jan Jansen///REMI/USTD//Factuur 5/
/TRTP/SEPA OVERBOEKING/IBAN/NL91ABNA0417164300/BIC/ABNANL2A/NAME/Jan Jansen/REMI/Factuur 5/EREF/NOTPROVIDED
/ORDP//NAME/Jan Jansen/REMI/Factuur 5/
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kontobahn.formats.purpose import Purpose, provided, reference

_WORDS = frozenset((
    "EREF", "REMI", "NAME", "IBAN", "BIC", "BENM", "ORDP", "CNTP", "CSID", "MARF", "PREF", "CREF", "KREF", "RTRN", "TRTP",
    "TRCD", "PURP", "ULTB", "ULTD", "ULTC", "ADDR", "ISDT", "SVCL", "INIT", "ACCW", "SUBF", "CHGS", "OCMT", "EXCH", "RREF",
    "MDAT", "ID",
))  # fmt: skip
# The slash that ends a value also begins the next word.
_WORD = re.compile(rf"/({'|'.join(sorted(_WORDS))})(?=/)")
_KIND = re.compile(r"\s*(USTD|STRD(?:/CUR)?)/{1,2}")


class Told(NamedTuple):
    purpose: Purpose
    name: str
    account: str
    bic: str
    booking_text: str | None
    return_reason: str | None


def read(text: str) -> Told | None:
    """Returns None if it contains no code word that we use."""
    marks = list(_WORD.finditer(text))
    found: dict[str, str] = {}
    left_over = [text[: marks[0].start()].strip()] if marks else []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        word = mark[1]
        value = text[mark.end() + 1 : following.start() if following else len(text)].strip().strip("/").strip()
        if not value:
            continue
        if word in found:
            left_over.append(f"/{word}/{value}")
        else:
            found[word] = value
    if not found:
        return None
    account, bic, name = _other_side(found)
    remittance = found.pop("REMI", "")
    kind = _KIND.match(remittance)
    purpose = Purpose(
        cred=provided(found.pop("CSID", None)),
        mref=reference(found.pop("MARF", None)),
        kref=reference(found.pop("KREF", None) or found.pop("CREF", None)),
        svwz=provided(remittance[kind.end() :].lstrip("/") if kind else remittance),
        abwa=provided(found.pop("ULTD", None)),
        abwe=provided(found.pop("ULTB", None) or found.pop("ULTC", None)),
        purp=provided(found.pop("PURP", None)),
        end_to_end_id=reference(found.pop("EREF", None)),
        rref=reference(found.pop("RREF", None)),
    )
    booking_text, return_reason = found.pop("TRTP", None), found.pop("RTRN", None)
    rest = " ".join([*filter(None, left_over), *(f"/{word}/{value}" for word, value in found.items())])
    return Told(_with_rest(purpose, rest), name, account, bic, booking_text, return_reason)


def _other_side(found: dict[str, str]) -> tuple[str, str, str]:
    """Returns account, BIC and name of the other side: each after its word, or all after CNTP."""
    account, bic, name = (found.pop(word, "") for word in ("IBAN", "BIC", "NAME"))
    for party in ("BENM", "ORDP"):
        name = name or found.pop(party, "")
    pieces = [piece.strip() for piece in found.pop("CNTP", "").split("/")]
    pieces += [""] * (3 - len(pieces))
    return account or pieces[0], bic or pieces[1], name or pieces[2]


def _with_rest(purpose: Purpose, rest: str) -> Purpose:
    if not rest:
        return purpose
    import msgspec

    name = "additional" if purpose.svwz else "svwz"
    return msgspec.structs.replace(purpose, **{name: rest})
