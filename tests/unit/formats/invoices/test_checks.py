"""Each planted fault is found, in its class, with its place and a sentence, and as the public Schematron judges it."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from lxml import etree

from kontobahn.formats import invoice_files, ubl
from kontobahn.formats.cii.terms import CII
from kontobahn.formats.invoice_files import ReadInvoice
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.checks import PREFIXES
from kontobahn.formats.invoices.model import AllowanceCharge, Invoice
from kontobahn.formats.invoices.rule_sets import FOLDER, RuleSetError
from tests.invoice_corpus import EN_16931, FULL, PLAIN, XRECHNUNG, Dress, schematron, written
from tests.unit.formats.invoices.faults import CATEGORIES, CONTENT, FAULTS, LARGE, NATIONAL, faults_of_category

ON = date(2026, 11, 17)
DRESSES: tuple[Dress, ...] = ("cii", "ubl")
# Rules that the Schematron breaks as well because a value is missing; we tell what is missing, once.
CONSEQUENCES = {
    "no currency": {"BR-CL-03"},
    "unknown currency": {"BR-CL-03"},  # beside BR-CL-04, which is about the same code
    "no seller's address": {"BR-09"},
    "no buyer's address": {"BR-11"},
    "no sum of lines": {"BR-CO-10", "BR-CO-13"},
    "no net": {"BR-CO-13", "BR-CO-15"},
    "no gross": {"BR-CO-15", "BR-CO-16"},
    "no amount due": {"BR-CO-16"},
    "no lines": {"BR-S-01"},
    "line without price": {"BR-27"},
    "breakdown without base": {"BR-CO-17", "BR-S-08", "BR-S-09"},
    "breakdown without tax": {"BR-CO-17", "BR-S-09"},
    "breakdown without rate": {"BR-CO-17", "BR-S-09"},
    "accounting currency without tax": {"BR-DEC-15"},
    "address without scheme": {"BR-CL-25"},
    "line without category": {"BR-S-01"},
    "no breakdown": {"BR-CO-14"},
    "no breakdown of the category": {"BR-Z-01"},
    "out of scope beside another": {"BR-O-11"},
}
# Rules that the standard has, and the Schematron of one syntax does not find.
OURS = {"transfer without account": {"BR-61"}, "address without scheme": {"BR-62"}}


def judged(xml: bytes) -> ReadInvoice:
    return invoice_files.read(xml, "invoice.xml", on=ON)


def rules(result: ReadInvoice, rule_set: str) -> set[str]:
    return {finding.rule for finding in result.findings if finding.rule_set == rule_set}


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("specification", [EN_16931, XRECHNUNG])
@pytest.mark.parametrize("invoice", [PLAIN, FULL], ids=["plain", "full"])
def test_a_good_invoice_has_no_findings(invoice: Invoice, specification: str, dress: Dress) -> None:
    result = judged(written(invoice, dress, specification))
    assert (result.findings, result.warnings, result.is_valid) == ((), (), True)
    assert result.profile == ("en16931" if specification == EN_16931 else "xrechnung 3.0")


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_judged_as_by_the_public_schematron(name: str, dress: Dress) -> None:
    plant, rule = FAULTS[name]
    xml = written(plant(PLAIN), dress)
    result = judged(xml)
    ours = rules(result, "en16931")
    assert rule in ours
    assert not result.is_valid
    theirs = {number for number in schematron(dress).broken(xml) if number.startswith("BR-")}
    # Its codes for CII have numbers of their own.
    comparable = {number for number in ours if dress == "ubl" or not number.startswith("BR-CL-")}
    assert comparable - OURS.get(name, set()) <= theirs
    assert theirs - CONSEQUENCES.get(name, set()) <= ours


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("code", CATEGORIES)
def test_every_rule_about_a_vat_category_is_judged_as_by_the_public_schematron(code: str, dress: Dress) -> None:
    prefix = f"BR-{PREFIXES.get(code, code)}-"
    found: set[str] = set()
    for name, invoice in faults_of_category(code).items():
        xml = written(invoice, dress)
        ours = {number for number in rules(judged(xml), "en16931") if number.startswith(prefix)}
        theirs = {number for number in schematron(dress).broken(xml) if number.startswith(prefix)}
        # That of CII looks at sums less closely, and knows no breakdown that is missing for O.
        lax = {f"{prefix}{suffix}" for suffix in ("08", "09")} | {"BR-O-01"} if dress == "cii" else set()
        assert ours - lax == theirs - lax, name
        assert theirs or ours or name in ("right", "buyer", "twice"), name
        found |= ours
    assert found >= {f"{prefix}{number:02}" for number in range(1, 11)}
    assert found >= {"O": {f"BR-O-{number}" for number in range(11, 15)}, "K": {"BR-IC-11", "BR-IC-12"}}.get(
        code, set()
    )


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("name", NATIONAL)
def test_a_fault_against_the_german_rules_is_found(name: str, dress: Dress) -> None:
    plant, rule = NATIONAL[name]
    assert rule in rules(judged(written(plant(PLAIN), dress, XRECHNUNG)), "xrechnung")
    assert rules(judged(written(plant(PLAIN), dress, EN_16931)), "xrechnung") == set(), "they hold for XRechnung only"


@pytest.mark.parametrize("dress", DRESSES)
def test_an_xrechnung_names_its_business_process(dress: Dress) -> None:
    """Each of ours does, so the term is taken out of the file."""
    right = written(PLAIN, dress, XRECHNUNG)
    assert rules(judged(right), "xrechnung") == set()
    assert right.count(ubl.PROCESS.encode()) == 1
    result = judged(right.replace(ubl.PROCESS.encode(), b""))
    assert rules(result, "xrechnung") == {"PEPPOL-EN16931-R001"}
    (finding,) = (one for one in result.findings if one.rule == "PEPPOL-EN16931-R001")
    assert (finding.kind, "BT-23" in finding.message("de")) == ("business_rule", True)


@pytest.mark.parametrize("dress", DRESSES)
def test_an_unknown_version_of_xrechnung_is_told(dress: Dress) -> None:
    result = judged(written(PLAIN, dress, XRECHNUNG.replace("xrechnung_3.0", "xrechnung_3.0.1")))
    assert rules(result, "xrechnung") == {"BR-DE-21"}


@pytest.mark.parametrize("dress", DRESSES)
def test_more_than_two_decimals_are_judged_as_by_the_public_schematron(dress: Dress) -> None:
    foreign = PLAIN._replace(currency="CHF", vat_currency="EUR", totals=PLAIN.totals._replace(vat_accounting_minor=291))
    base = AllowanceCharge(True, 100, 1_000, reason="Fracht", vat_category="S", vat_rate=Decimal(7))
    # Their sums do not matter here.
    charged = PLAIN._replace(
        totals=PLAIN.totals._replace(rounding_minor=1),
        allowances_charges=(base,),
        lines=(PLAIN.lines[0]._replace(allowances_charges=(base._replace(vat_category=None, vat_rate=None),)),),
    )
    found: set[str] = set()
    for invoice in (FULL, foreign, charged):
        xml = re.sub(rb"(>-?\d+\.\d\d)<", rb"\g<1>0<", written(invoice, dress))
        ours, theirs = (
            {rule for rule in named if rule.startswith("BR-DEC-")}
            for named in (rules(judged(xml), "en16931"), schematron(dress).broken(xml))
        )
        # The Schematron has these rules as well, and looks for both totals of VAT where they are not.
        assert ours - {"BR-DEC-13", "BR-DEC-15"} == theirs
        found |= ours
    known = {rule for rule in rule_sets.load().of("en16931", ON).rules if rule.startswith("BR-DEC-")}
    assert found == known


@pytest.mark.parametrize("dress", DRESSES)
@pytest.mark.parametrize("name", CONTENT)
def test_a_missing_particular_of_the_vat_act_is_a_finding_about_content(name: str, dress: Dress) -> None:
    plant, rule = CONTENT[name]
    good = judged(written(LARGE, dress))
    assert rules(good, "ustg") == set()
    large = plant(LARGE)
    large = large._replace(totals=large.totals._replace(gross_minor=30_000))
    result = judged(written(large, dress))
    assert [finding.kind for finding in result.findings if finding.rule == rule] == ["content"]


def test_an_invoice_up_to_250_euros_needs_less() -> None:
    plant, rule = CONTENT["no recipient"]
    small = PLAIN._replace(totals=PLAIN.totals._replace(gross_minor=25_000))
    above = PLAIN._replace(totals=PLAIN.totals._replace(gross_minor=25_001))
    assert rule not in rules(judged(written(plant(small), "cii")), "ustg")
    assert rule in rules(judged(written(plant(above), "cii")), "ustg")


@pytest.mark.parametrize("dress", DRESSES)
def test_every_finding_has_a_place_and_a_sentence_in_both_languages(dress: Dress) -> None:
    namespaces = (CII if dress == "cii" else ubl.INVOICE).namespaces
    for plant, _ in (*FAULTS.values(), *NATIONAL.values()):
        for finding in judged(written(plant(PLAIN), dress, XRECHNUNG)).findings:
            etree.XPath(finding.path, namespaces=namespaces)
            assert finding.path.startswith(("/rsm:", "/ubl:")), finding
            german, english = finding.message("de"), finding.message("en")
            assert german != english
            assert all(text.endswith(".") and "{" not in text and text[0].isupper() for text in (german, english))


def test_the_place_of_a_finding_is_where_the_fault_is() -> None:
    second = PLAIN.lines[0]._replace(id="4", name="")
    twice = PLAIN._replace(lines=(PLAIN.lines[0], second))
    findings = {finding.rule: finding for finding in judged(written(twice, "ubl")).findings}
    assert findings["BR-25"].path == "/ubl:Invoice/cac:InvoiceLine[2]/cac:Item/cbc:Name"
    assert (
        findings["BR-CO-10"].message("en") == "The sum of the lines (BT-106) is stated as 40.00; the lines make 80.00."
    )


def test_an_allowance_of_one_line_among_others_needs_its_reason() -> None:
    plant, rule = FAULTS["line allowance without reason"]
    other = PLAIN.lines[0]._replace(id="4")
    twice = plant(PLAIN)._replace(lines=(other, *plant(PLAIN).lines))
    found = {finding.rule: finding.path for finding in judged(written(twice, "ubl")).findings}
    assert "cac:InvoiceLine[2]" in found[rule]


def test_sums_that_do_not_add_up_are_a_warning_and_stay_as_they_are() -> None:
    line = PLAIN.lines[0]._replace(net_minor=4_003)
    totals = PLAIN.totals._replace(gross_minor=4_299)
    wrong = PLAIN._replace(
        lines=(line,), totals=totals, vat_breakdown=(PLAIN.vat_breakdown[0]._replace(vat_minor=285),)
    )
    for dress in DRESSES:
        result = judged(written(wrong, dress))
        assert result.invoice is not None
        assert result.invoice.totals == totals
        assert result.invoice.lines == (line,)
        codes = [warning.code for warning in result.warnings]
        assert codes == ["sum-differs"] * 4 + ["line-differs", "vat-differs"]
        assert "42,99" in result.warnings[2].message("de")
        assert "42.99" in result.warnings[2].message("en")


def test_an_outdated_set_says_so() -> None:
    xml = written(PLAIN, "cii", XRECHNUNG)
    last, first = date(2027, 2, 27), date(2027, 2, 28)
    assert not any(used.is_outdated for used in invoice_files.read(xml, "", on=last).rule_sets)
    late = invoice_files.read(xml, "", on=first)
    assert [used.name for used in late.rule_sets if used.is_outdated] == ["xrechnung"]
    assert [warning.code for warning in late.warnings] == ["rules-outdated"]
    assert "xrechnung 2.6.0 sind seit dem 28.02.2027 überholt" in late.warnings[0].message("de")


def test_an_operator_replaces_a_set_from_its_day_on(tmp_path: Path) -> None:
    text = (FOLDER / "xrechnung.toml").read_text("utf-8")
    newer = text.replace('version = "2.6.0"', 'version = "2.7.0"').replace("2026-08-31", "2027-02-28")
    newer = newer.replace("outdated_on = 2027-02-28\n", "").replace('BR-DE-15 = "BT-10"\n', "")
    (tmp_path / "newer.toml").write_text(newer, "utf-8")
    sets = rule_sets.load(tmp_path)
    xml = written(PLAIN._replace(buyer_reference=None), "ubl", XRECHNUNG)
    before, after = (invoice_files.read(xml, "", on=day, rules=sets) for day in (date(2027, 2, 27), date(2027, 2, 28)))
    assert rules(before, "xrechnung") == {"BR-DE-15"}
    assert rules(after, "xrechnung") == set()
    assert [(used.version, used.is_outdated) for used in after.rule_sets if used.name == "xrechnung"] == [
        ("2.7.0", False)
    ]


@pytest.mark.parametrize(
    "text", ["name = 1", "no TOML", 'name = "x"\nversion = "1"\nvalid_from = 2026-01-01\nkind = "other"']
)
def test_a_file_that_is_no_set_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text, "utf-8")
    with pytest.raises(RuleSetError, match=r"mine\.toml is not a set of rules"):
        rule_sets.load(tmp_path)


@pytest.mark.parametrize(
    ("specification", "profile", "findings"),
    [
        ("urn:factur-x.eu:1p0:minimum", "minimum", ["profile-not-einvoice"]),
        ("urn:factur-x.eu:1p0:basicwl", "basicwl", ["profile-not-einvoice"]),
        ("urn:cen.eu:en16931:2017#compliant#urn:factur-x.eu:1p0:basic", "basic", []),
        ("urn:cen.eu:en16931:2017#conformant#urn:factur-x.eu:1p0:extended", "extended", []),
        ("urn:cen.eu:en16931:2017#conformant#urn:zugferd.de:2p0:extended", "extended", []),
        ("urn:cen.eu:en16931:2017#compliant#urn:xoev-de:kosit:standard:xrechnung_2.3", "xrechnung 2.3", []),
        (f"{XRECHNUNG}#conformant#urn:xeinkauf.de:kosit:extension:xrechnung_3.0", "xrechnung 3.0 extension", []),
        ("urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0", "peppol 3.0", []),
        ("urn:example:own", None, ["profile-unknown"]),
    ],
)
def test_the_profile_is_told_and_judged(specification: str, profile: str | None, findings: list[str]) -> None:
    result = judged(written(PLAIN, "cii", specification))
    assert result.profile == profile
    assert [finding.rule for finding in result.findings] == findings
    assert {finding.kind for finding in result.findings} <= {"format"}
