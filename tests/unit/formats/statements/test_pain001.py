"""pain.001.001.09 files, walked element by element by rules of our own: order, presence, lengths, patterns."""

from __future__ import annotations

import re
from copy import deepcopy
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.formats.pain.messages import NAMESPACE, Debtor, Transfer, write_pain001
from kontobahn.formats.pain.sepa import Address, is_creditor_reference, read_address
from tests.statement_builder import BIC, IBAN, OTHER_IBAN

NOW = datetime(2026, 3, 2, 12, 30, 15, 999, tzinfo=UTC)
DEBTOR = Debtor("Laden & Söhne", IBAN)
TRANSFER = Transfer("KB-0001", 1_234, "Müller GmbH", OTHER_IBAN, "Rechnung 4711", date(2026, 3, 3))
TEXT = r"[A-Za-z0-9?:().,'+ -]+(?:/[A-Za-z0-9?:().,'+ -]+)*"
AMOUNT = r"[0-9]{1,9}\.[0-9]{2}"
# Children in their order: `?` may be missing, `+` may come several times, `*` both; and what a text must look like.
RULES: dict[str, tuple[str, ...] | str] = {
    "Document": ("CstmrCdtTrfInitn",),
    "CstmrCdtTrfInitn": ("GrpHdr", "PmtInf+"),
    "GrpHdr": ("MsgId", "CreDtTm", "NbOfTxs", "CtrlSum", "InitgPty"),
    "InitgPty": ("Nm",),
    "PmtInf": ("PmtInfId", "PmtMtd", "BtchBookg", "NbOfTxs", "CtrlSum", "PmtTpInf", "ReqdExctnDt", "Dbtr", "DbtrAcct", "DbtrAgt",
               "ChrgBr", "CdtTrfTxInf+"),
    "PmtTpInf": ("SvcLvl", "LclInstrm?"),
    "SvcLvl": ("Cd",),
    "LclInstrm": ("Cd",),
    "ReqdExctnDt": ("Dt",),
    "Dbtr": ("Nm",),
    "DbtrAcct": ("Id",),
    "CdtrAcct": ("Id",),
    "DbtrAgt": ("FinInstnId",),
    "CdtrAgt": ("FinInstnId",),
    "FinInstnId": ("BICFI?", "Othr?"),
    "Othr": ("Id",),
    "CdtTrfTxInf": ("PmtId", "Amt", "CdtrAgt?", "Cdtr", "CdtrAcct", "Purp?", "RmtInf"),
    "PmtId": ("InstrId?", "EndToEndId"),
    "Amt": ("InstdAmt",),
    "Cdtr": ("Nm", "PstlAdr?"),
    "PstlAdr": ("StrtNm?", "BldgNb?", "PstCd?", "TwnNm", "Ctry", "AdrLine*"),
    "Purp": ("Cd",),
    "RmtInf": ("Ustrd?", "Strd?"),
    "Strd": ("CdtrRefInf",),
    "CdtrRefInf": ("Tp", "Ref"),
    "Tp": ("CdOrPrtry", "Issr"),
    "CdOrPrtry": ("Cd",),
    "MsgId": rf"(?=.{{1,35}}$){TEXT}", "PmtInfId": rf"(?=.{{1,35}}$){TEXT}", "EndToEndId": rf"(?=.{{1,35}}$){TEXT}",
    "InstrId": rf"(?=.{{1,35}}$){TEXT}", "Ref": "RF[0-9]{2}[A-Z0-9]{1,21}", "Issr": "ISO", "AdrLine": rf"(?=.{{1,70}}$){TEXT}",
    "Nm": rf"(?=.{{1,70}}$){TEXT}", "Ustrd": rf"(?=.{{1,140}}$){TEXT}", "StrtNm": rf"(?=.{{1,70}}$){TEXT}",
    "BldgNb": rf"(?=.{{1,16}}$){TEXT}", "PstCd": rf"(?=.{{1,16}}$){TEXT}",
    "TwnNm": rf"(?=.{{1,35}}$){TEXT}", "Ctry": "[A-Z]{2}", "CtrlSum": r"[0-9]{1,15}\.[0-9]{2}", "InstdAmt": AMOUNT,
    "NbOfTxs": "[0-9]{1,15}", "PmtMtd": "TRF", "BtchBookg": "true|false", "ChrgBr": "SLEV",
    "CreDtTm": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)", "Dt": r"\d{4}-\d\d-\d\d",
    "IBAN": "[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", "BICFI": "[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?",
}  # fmt: skip


def walk(element: etree._Element, parent: str = "") -> None:
    name = etree.QName(element)
    assert name.namespace == NAMESPACE
    rule = RULES.get(f"{parent}/{name.localname}") or RULES.get(name.localname)
    if name.localname == "Id" and parent.endswith("Acct"):
        rule = ("IBAN",)
    elif name.localname == "Id":
        rule = "NOTPROVIDED"
    elif name.localname == "Cd":
        rule = {"SvcLvl": "SEPA", "LclInstrm": "INST", "CdOrPrtry": "SCOR"}.get(parent, "[A-Z0-9]{1,4}")
    assert rule is not None, name.localname
    assert dict(element.attrib) == ({"Ccy": "EUR"} if name.localname == "InstdAmt" else {})
    if isinstance(rule, str):
        assert len(element) == 0
        assert re.fullmatch(rule, element.text or ""), (name.localname, element.text)
        check_value(name.localname, element.text or "")
        return
    assert not (element.text or "").strip()
    tags = [etree.QName(child).localname for child in element]
    pattern = "".join(f"(?:{part.rstrip('?+*')} ){part[-1] if part[-1] in '?+*' else ''}" for part in rule)
    assert re.fullmatch(pattern, "".join(f"{tag} " for tag in tags)), (name.localname, tags)
    if name.localname in ("RmtInf", "FinInstnId"):
        assert len(tags) == 1, "purpose or creditor reference, BIC or none: a choice of one"
    assert tags.count("AdrLine") <= 2
    for child in element:
        walk(child, name.localname)


def check_value(name: str, text: str) -> None:
    """Rules that a pattern cannot say: real days, amounts above nothing, check digits."""
    if name == "Dt":
        date.fromisoformat(text)
    elif name == "CreDtTm":
        datetime.fromisoformat(text)
    elif name == "InstdAmt":
        assert Decimal(text) > 0
    elif name == "IBAN":
        digits = "".join(str(int(character, 36)) for character in text[4:] + text[:4])
        assert int(digits) % 97 == 1


def written(*transfers: Transfer, debtor: Debtor = DEBTOR) -> etree._Element:
    """The file, held to every rule; amounts and counts too."""
    document = etree.fromstring(write_pain001("KB-M1", NOW, debtor, transfers or (TRANSFER,)))
    walk(document)
    for element in [document, *find(document, "PmtInf")]:
        amounts = [Decimal(amount.text or "") for amount in find(element, "InstdAmt")]
        owner = next(iter(find(element, "GrpHdr")), element)
        assert owner.findtext(f"{{{NAMESPACE}}}NbOfTxs") == str(len(amounts))
        assert Decimal(owner.findtext(f"{{{NAMESPACE}}}CtrlSum") or "") == sum(amounts)
    return document


def find(element: etree._Element, name: str) -> list[etree._Element]:
    return element.findall(f".//{{{NAMESPACE}}}{name}")


def texts(element: etree._Element, name: str = "Nm") -> list[str]:
    return [found.text or "" for found in find(element, name)]


def test_a_payment_becomes_a_file() -> None:
    document = written()
    assert texts(document) == ["Laden + Soehne", "Laden + Soehne", "Mueller GmbH"]
    assert texts(document, "IBAN") == [IBAN, OTHER_IBAN]
    assert (texts(document, "InstdAmt"), texts(document, "Ustrd")) == (["12.34"], ["Rechnung 4711"])
    assert find(document, "InstdAmt")[0].get("Ccy") == "EUR"
    assert texts(document, "CreDtTm") == ["2026-03-02T12:30:15+00:00"]
    assert texts(document, "EndToEndId") == ["KB-0001"]
    assert not find(document, "LclInstrm")


def test_payments_of_a_day_and_kind_are_one_instruction() -> None:
    instant = TRANSFER._replace(end_to_end_id="KB-2", template="SEPA_INSTANT", creditor_bic=BIC, purpose_code="SALA")
    later = TRANSFER._replace(end_to_end_id="KB-3", execution_date=date(2026, 3, 9), amount_minor=99_999_999_999)
    other = TRANSFER._replace(end_to_end_id="KB-4", creditor_address=Address("DE", "Köln", "Domplatz", "1", "50667"))
    document = written(TRANSFER, instant, later, other, debtor=DEBTOR._replace(bic=BIC))
    assert [texts(payment, "EndToEndId") for payment in find(document, "PmtInf")] == [
        ["KB-0001", "KB-4"],
        ["KB-2"],
        ["KB-3"],
    ]
    assert [len(find(payment, "LclInstrm")) for payment in find(document, "PmtInf")] == [0, 1, 0]
    assert len(set(texts(document, "PmtInfId"))) == 3


def test_the_rules_notice_what_is_missing_twice_or_out_of_order() -> None:
    address = Address("DE", "Köln", "Domplatz", "1", "50667", lines=("Hinterhaus",))
    whole = TRANSFER._replace(reference="RE 1", creditor_bic=BIC, purpose_code="SALA", creditor_address=address)
    document = written(whole._replace(template="SEPA_INSTANT"), debtor=DEBTOR._replace(bic=BIC))
    may_be_missing = {"LclInstrm", "CdtrAgt", "Purp", "InstrId", "PstlAdr", "StrtNm", "BldgNb", "PstCd", "AdrLine"}
    may_be_several = {"PmtInf", "CdtTrfTxInf", "AdrLine"}
    tried = 0
    for path in [document.getroottree().getpath(element) for element in document.iter()][1:]:
        for fault in ("missing", "twice", "last", "attribute", "text"):
            copy = deepcopy(document)
            [element] = copy.xpath(path)
            name, parent = etree.QName(element).localname, element.getparent()
            if fault == "missing" and name not in may_be_missing:
                parent.remove(element)
            elif fault == "twice" and name not in may_be_several:
                parent.insert(parent.index(element), deepcopy(element))
            elif fault == "last" and parent[-1] is not element:
                parent.append(element)
            elif fault == "attribute":
                element.set("Id", "1")
            elif fault == "text":
                element.text = "_" if len(element) == 0 else "a"
            else:
                continue
            tried += 1
            with pytest.raises(AssertionError):
                walk(copy)
    assert tried > 150


@pytest.mark.parametrize(
    ("reference", "description", "instruction", "purpose", "structured"),
    [
        (None, "Rechnung 4711", [], ["Rechnung 4711"], []),
        ("RE 4711 Ä", "Rechnung", ["RE 4711 Ae"], ["Rechnung"], []),
        ("RF18 5390 0754 7034", "rf18539007547034", [], [], ["RF18539007547034"]),
        ("RF18539007547034", "Miete", [], ["RF18539007547034 Miete"], []),
        ("RF18539007547034", "Miete RF18 5390 0754 7034", [], ["Miete RF18 5390 0754 7034"], []),
        # Wrong check digits: no creditor reference, so the payer's own.
        ("RF19539007547034", "Miete", ["RF19539007547034"], ["Miete"], []),
    ],
)
def test_a_reference_has_a_place(
    reference: str | None, description: str, instruction: list[str], purpose: list[str], structured: list[str]
) -> None:
    document = written(TRANSFER._replace(reference=reference, description=description))
    assert (texts(document, "InstrId"), texts(document, "Ustrd"), texts(document, "Ref")) == (
        instruction,
        purpose,
        structured,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ring 7, 50667 Köln", Address("DE", "Köln", postcode="50667", lines=("Ring 7",))),
        ("50667 Köln", Address("DE", "Köln", postcode="50667")),
        ("Haus A\nRing 7\nD-50667 Köln", Address("DE", "Köln", postcode="50667", lines=("Haus A, Ring 7",))),
        ("Graben 1, 1010 Wien, Österreich", Address("AT", "Wien", postcode="1010", lines=("Graben 1",))),
        ("Damrak 1; 1012 LG Amsterdam; NL", Address("NL", "Amsterdam", postcode="1012 LG", lines=("Damrak 1",))),
        ("1 High Street, London EC2V 8BQ, GB", Address("GB", "London", postcode="EC2V 8BQ", lines=("1 High Street",))),
        (f"{'a' * 60}, {'b' * 60}, 01067 Dresden", Address("DE", "Dresden", postcode="01067", lines=("a" * 60, "b" * 60))),
    ],
)  # fmt: skip
def test_an_address_in_one_line_is_taken_apart(text: str, expected: Address) -> None:
    address = read_address(text, "DE")
    assert address == expected
    document = written(TRANSFER._replace(creditor_address=address))
    assert texts(document, "Ctry") == [expected.country]
    assert texts(document, "AdrLine") == list(expected.lines)


@pytest.mark.parametrize("text", ["Ring 7", "Köln", "", ",", "Ring 7, Köln am Rhein 3", f"{'a' * 71}, 50667 Köln",
                                  f"{'a' * 60}, {'b' * 60}, {'c' * 60}, 50667 Köln"])  # fmt: skip
def test_an_address_whose_town_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^creditor_address "):
        read_address(text, "DE")


def test_reference_and_description_that_do_not_fit_together_are_refused() -> None:
    fits = TRANSFER._replace(reference="RF18539007547034", description="x" * 123)
    assert texts(written(fits), "Ustrd") == ["RF18539007547034 " + "x" * 123]
    with pytest.raises(BadRequest, match=r"^reference .* 141 characters"):
        written(fits._replace(description="x" * 124))


@settings(max_examples=20)
@given(st.from_regex(r"[A-Z0-9]{1,21}", fullmatch=True))
def test_check_digits_decide_what_is_a_creditor_reference(body: str) -> None:
    valid = [f"RF{digits:02d}{body}" for digits in range(2, 99) if is_creditor_reference(f"RF{digits:02d}{body}")]
    assert len(valid) == 1


def test_the_payer_s_own_name_never_stops_a_payment() -> None:
    for name, sent in (("Laden #1 & Söhne//KG", "Laden 1 + Soehne KG"), ("x" * 99, "x" * 70), ("商店", "NOTPROVIDED")):
        assert sepa.payer_name(name) == sent
        assert texts(written(debtor=Debtor(sepa.payer_name(name), IBAN)))[0] == sent


names = st.text("abcXYZäöüß&é'() -", min_size=1, max_size=40)


@settings(max_examples=40)
@given(st.lists(st.tuples(names, names, st.integers(-5, 10**12)), min_size=1, max_size=4))
def test_a_file_keeps_every_rule_or_is_not_written(rows: list[tuple[str, str, int]]) -> None:
    transfers = [
        TRANSFER._replace(end_to_end_id=f"KB-{number}", creditor_name=name, description=text, amount_minor=amount)
        for number, (name, text, amount) in enumerate(rows)
    ]
    wrong = any(
        not name.strip() or not text.strip() or not 1 <= amount <= 99_999_999_999 for name, text, amount in rows
    )
    if wrong:
        with pytest.raises(BadRequest):
            written(*transfers)
    else:
        assert len(find(written(*transfers), "CdtTrfTxInf")) == len(rows)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"creditor_name": "x" * 71}, "creditor_name"),
        ({"description": "x" * 141}, "description"),
        ({"description": "Danke 😀"}, "description"),
        ({"description": ""}, "description"),
        ({"amount_minor": 0}, "amount"),
        ({"creditor_iban": "DE88370400440532013000"}, "creditor_iban"),
        ({"creditor_bic": "XX"}, "creditor_agent"),
        ({"currency": "USD"}, "currency_code"),
        ({"purpose_code": "sala"}, "purpose_code"),
        ({"end_to_end_id": "x" * 36}, "end_to_end_id"),
        ({"creditor_address": Address("D", "Köln")}, "creditor_address.country"),
        ({"creditor_address": Address("DE", "x" * 36)}, "creditor_address.town_name"),
    ],
)
def test_what_a_bank_would_refuse_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    transfer = TRANSFER._replace(**changes)
    with pytest.raises(BadRequest, match=f"^{field} "):
        write_pain001("M", NOW, DEBTOR, [transfer])


@pytest.mark.parametrize(
    ("message_id", "created_at", "debtor", "transfers"),
    [
        ("M", NOW, DEBTOR, []),
        ("M", NOW, DEBTOR, [TRANSFER, TRANSFER]),
        ("x" * 34, NOW, DEBTOR, [TRANSFER]),
        ("M", NOW.replace(tzinfo=None), DEBTOR, [TRANSFER]),
        ("M", NOW, Debtor("x" * 71, IBAN), [TRANSFER]),
        ("M", NOW, Debtor("x", "DE00"), [TRANSFER]),
    ],
)
def test_a_file_as_a_whole_is_checked_too(
    message_id: str, created_at: datetime, debtor: Debtor, transfers: list[Transfer]
) -> None:
    with pytest.raises(BadRequest):
        write_pain001(message_id, created_at, debtor, transfers)
