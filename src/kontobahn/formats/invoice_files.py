"""Reads any file that is an invoice: CII or UBL, alone or inside a PDF, recognised by content, with findings about it.

`read` is all that others need. It reads at most 20 MB and 100,000 lines; what is larger, or made to harm, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Literal, NamedTuple

from kontobahn.formats import ubl
from kontobahn.formats.cii.terms import CII, ZUGFERD_1
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.checks import Broken, check
from kontobahn.formats.invoices.model import Attachment, Fault, Finding, Invoice, InvoiceError, Refused, Remark
from kontobahn.formats.invoices.pdf import XML_NAMES, Pdf, Proposal, propose, read_pdf
from kontobahn.formats.invoices.reader import CHARGE_TERMS, Result
from kontobahn.formats.invoices.reader import read as read_values
from kontobahn.formats.invoices.rule_sets import RuleSet, RuleSets, Used
from kontobahn.formats.invoices.source import Syntax, opened

Format = Literal["cii", "ubl", "zugferd_1"]
_KNOWN: tuple[tuple[Format, Syntax], ...] = (
    ("cii", CII), ("zugferd_1", ZUGFERD_1), ("ubl", ubl.INVOICE), ("ubl", ubl.CREDIT_NOTE),
)  # fmt: skip
_SYNTAXES = {(syntax.namespace, syntax.root.partition(":")[2]): (name, syntax) for name, syntax in _KNOWN}
_XRECHNUNG = re.compile(r"xrechnung_(\d\.\d)")
_FACTUR_X = re.compile(r"urn:(?:factur-x\.eu:1p0|zugferd\.de:2p0):(\w+)$")
_ZUGFERD_1 = re.compile(r":1p0:(\w+)$")
_PEPPOL = "urn:fdc:peppol.eu:2017:poacc:billing:3.0"
# Without lines or other terms that EN 16931 requires.
_NO_EINVOICE = ("minimum", "basicwl", "zugferd_1")
_SUMS = ("BR-CO-10", "BR-CO-11", "BR-CO-12", "BR-CO-13", "BR-CO-14", "BR-CO-15", "BR-CO-16")
_DIFFERENCES = ("line-differs", "vat-differs")
# Kinds of attachments that a browser may show, and how they begin.
_HARMLESS = {"application/pdf": b"%PDF-", "image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8\xff", "text/csv": b""}


class ReadInvoice(NamedTuple):
    """A file that was read. `invoice` is None for a PDF without XML, which has a `proposal` instead."""

    container: Literal["xml", "pdf"]
    format: Format | None
    profile: (
        str | None
    )  # xrechnung 3.0, en16931, extended, basic, basicwl, minimum, peppol 3.0, comfort (ZUGFeRD 1.0), …
    invoice: Invoice | None
    findings: tuple[Finding, ...]
    warnings: tuple[Remark, ...]
    # Those of the XML, and those of the PDF around it. None was opened.
    attachments: tuple[Attachment, ...]
    rule_sets: tuple[Used, ...]
    proposal: Proposal | None = None
    # The invoice as it was found, also inside a PDF.
    xml: bytes | None = None

    @property
    def is_valid(self) -> bool:
        """Tells that no rule is broken that makes a validator refuse the invoice."""
        return self.invoice is not None and not any(finding.severity == "error" for finding in self.findings)


def read(
    content: bytes,
    name: str,
    *,
    on: date,
    rules: RuleSets | None = None,
    pdf_reader: Callable[[bytes], Pdf] = read_pdf,
) -> ReadInvoice:
    """Returns the invoice in a file and what is to be said about it, by the rules of this day.

    `name` is only said, never trusted. Raises InvoiceError, with a finding, if nothing can be read. Sums are those of the file.
    `pdf_reader` takes a PDF apart, where that is not to be done in this process.
    """
    reader = _Reader(rules or rule_sets.load(), on)
    try:
        head = content[:1_024].lstrip()
        if not head:
            raise Refused("file-empty")
        if b"%PDF-" in head:
            return reader.pdf(pdf_reader(content))
        if head.lstrip(b"\xef\xbb\xbf").lstrip().startswith(b"<") or head[:2] in (b"\xff\xfe", b"\xfe\xff", b"\x00<"):
            return reader.xml(content)
        raise Refused("file-unknown")
    except Refused as refused:
        raise InvoiceError(reader.format_finding(refused.fault)) from refused


def is_harmless(attachment: Attachment) -> bool:
    """Tells whether a browser may show an attachment: by its kind, and by how it really begins."""
    begins = _HARMLESS.get((attachment.media_type or "").lower())
    return begins is not None and (attachment.content or b"").startswith(begins)


class _Reader:
    def __init__(self, rules: RuleSets, on: date) -> None:
        self._rules = rules
        self._on = on
        self._format = rules.of("format", on)
        self._remarks = rules.of("remarks", on)

    def _remark(self, code: str, path: str = "", **values: str) -> Remark:
        return Remark(code, path, self._remarks.rules[code].text.filled(values))

    def format_finding(self, fault: Fault) -> Finding:
        finding = self._format.finding(fault)
        assert finding is not None, f"the set “format” has no rule {fault.rule}"
        return finding

    def _about_file(self, rule: str, **values: str) -> Finding:
        return self.format_finding(Fault(rule, "", values))

    def pdf(self, pdf: Pdf) -> ReadInvoice:
        warnings = [self._remark("pdf-active")] if pdf.is_active else []
        if pdf.xml is None:
            missing = self._about_file("no-xml")
            warnings += self._about_attachments(pdf.attachments)
            return ReadInvoice(
                "pdf", None, None, None, (missing,), tuple(warnings), pdf.attachments, (), propose(pdf.text)
            )
        found = self.xml(pdf.xml)
        named = (
            () if pdf.xml_name.lower() in XML_NAMES else (self._about_file("attachment-name", name=pdf.xml_name[:100]),)
        )
        return found._replace(
            container="pdf",
            findings=(*named, *found.findings),
            warnings=(*warnings, *found.warnings, *self._about_attachments(pdf.attachments)),
            attachments=(*found.attachments, *pdf.attachments),
        )

    def xml(self, content: bytes) -> ReadInvoice:
        source = opened(content)
        root = source.root
        known = _SYNTAXES.get((root.namespace, root.name))
        if known is None:
            raise Refused("xml-not-an-invoice", root=root.name[:60], namespace=root.namespace[:100] or "–")
        format_, syntax = known
        result = read_values(source, syntax)
        invoice = result.invoice
        profile = _profile(format_, invoice.specification or "")
        sets = [self._rules.of(name, self._on) for name in _sets(format_, profile)]
        broken = [item for one in sets for item in one.broken(invoice)]
        broken += check(invoice)
        return ReadInvoice(
            "xml",
            format_,
            profile,
            invoice,
            (*self._about_profile(format_, profile, invoice), *self._findings(result, broken, syntax, sets)),
            tuple(self._warnings(result, broken, syntax, sets)),
            tuple(invoice.attachments),
            tuple(one.used(self._on) for one in sets),
            xml=content,
        )

    def _about_profile(self, format_: Format, profile: str | None, invoice: Invoice) -> Iterator[Finding]:
        specification = invoice.specification or ""
        if profile in _NO_EINVOICE or format_ == "zugferd_1":
            version = "1.0" if format_ == "zugferd_1" else (profile or "").upper()
            yield self._about_file("profile-not-einvoice", profile=f"ZUGFeRD {version}")
        elif profile is None and specification:
            yield self._about_file("profile-unknown", specification=specification[:150])

    def _findings(self, result: Result, broken: list[Broken], syntax: Syntax, sets: list[RuleSet]) -> Iterator[Finding]:
        # A rule that no set knows needs no place.
        known = [item for item in broken if any(item.rule in one.rules for one in sets)]
        faults = (*result.faults, *(_fault(item, syntax) for item in known))
        for fault in faults:
            for one in (self._format, *sets):
                finding = one.finding(fault)
                if finding is not None:
                    yield finding

    def _warnings(self, result: Result, broken: list[Broken], syntax: Syntax, sets: list[RuleSet]) -> Iterator[Remark]:
        invoice = result.invoice
        for fault in result.faults:
            if fault.rule == "amount-rounded":
                yield self._remark(fault.rule, fault.path, **fault.values)
        for one in broken:
            code = "sum-differs" if one.rule in _SUMS else one.rule if one.rule in _DIFFERENCES else None
            if code is not None:
                yield self._remark(code, syntax.path(one.term, one.numbers), **one.values)
        payment = invoice.payment
        if payment.other_means_codes:
            codes = ", ".join((payment.means_code or "", *payment.other_means_codes))
            yield self._remark("several-means", syntax.path("BT-81", {}), codes=codes[:100])
        if any(item.days is None and item.until is None for item in payment.discounts):
            yield self._remark("discount-unclear", syntax.path("BT-20", {}))
        for rules in sets:
            if rules.outdated_on is not None and self._on >= rules.outdated_on:
                day = rules.outdated_on.isoformat()
                yield self._remark("rules-outdated", name=rules.name, version=rules.version, day=day)
        yield from self._about_attachments(tuple(invoice.attachments))

    def _about_attachments(self, attachments: tuple[Attachment, ...]) -> list[Remark]:
        return [
            self._remark("attachment-active", name=(item.name or item.id or "?")[:100])
            for item in attachments
            if item.content is not None and not is_harmless(item)
        ]


def _fault(broken: Broken, syntax: Syntax) -> Fault:
    return Fault(broken.rule, syntax.path(CHARGE_TERMS.get(broken.term, broken.term), broken.numbers), broken.values)


def _profile(format_: Format, specification: str) -> str | None:
    """The profile by BT-24, or None if it is unknown."""
    if format_ == "zugferd_1":
        found = _ZUGFERD_1.search(specification)
        return found[1] if found else None
    if found := _XRECHNUNG.search(specification):
        is_extension = "extension" in specification
        return f"xrechnung {found[1]}{' extension' if is_extension else ''}"
    if found := _FACTUR_X.search(specification):
        return found[1]
    if specification.endswith(_PEPPOL):
        return "peppol 3.0"
    return "en16931" if specification == "urn:cen.eu:en16931:2017" else None


def _sets(format_: Format, profile: str | None) -> tuple[str, ...]:
    """The sets of rules for a profile. ZUGFeRD 1.0 is older than the standard."""
    if format_ == "zugferd_1" or profile in _NO_EINVOICE:
        return ("ustg",)
    if profile and profile.startswith("xrechnung"):
        return ("en16931", "xrechnung", "ustg")
    return ("en16931", "ustg")
