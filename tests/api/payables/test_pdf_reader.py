"""PDFs are taken apart in a process of their own, which ends alone when it takes too much."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from kontobahn.formats.invoices import pdf
from kontobahn.formats.invoices.model import Refused
from kontobahn.payables import pdf_reader
from tests.harness import Service
from tests.received_invoices import Inbox, as_pdf, as_xml, plain_pdf


def test_what_the_child_reads_is_what_the_reader_reads() -> None:
    for content in (as_pdf(as_xml()), plain_pdf("Rechnungsbetrag: 5,00 EUR")):
        assert pdf_reader.read(content) == pdf.read_pdf(content)
    with pytest.raises(Refused) as damaged:
        pdf_reader.read(b"%PDF-1.7 nothing")
    assert damaged.value.fault.rule == "pdf-damaged"


@pytest.mark.parametrize(
    "harm",
    ["while True: pass", "b'x' * 2**40", "data = [bytearray(2**20) for _ in range(400)]", "import os; os.abort()"],
)
def test_a_child_that_takes_too_much_is_told_as_a_file_that_is_too_complex(
    monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    # The child is the real one; only its limit of time is shorter, and reading a PDF does something else.
    code = f"""
import sys
from kontobahn.payables import pdf_reader
def read_pdf(content):
    {harm}
pdf_reader.read_pdf, pdf_reader.SECONDS = read_pdf, 1
pdf_reader.main()
"""
    run = subprocess.run

    def changed(command: list[str], **options: Any) -> Any:
        assert command == [sys.executable, "-m", "kontobahn.payables.pdf_reader"]
        return run([sys.executable, "-c", code], **options)

    monkeypatch.setattr(subprocess, "run", changed)
    with pytest.raises(Refused) as refused:
        pdf_reader.read(b"%PDF-")
    assert refused.value.fault.rule == "file-too-complex"


def test_the_child_gets_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KONTOBAHN_SECRET_KEY", "secret")
    given: dict[str, str] = {}
    run = subprocess.run

    def noted(command: list[str], **options: Any) -> Any:
        given.update(options["env"])
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    pdf_reader.read(plain_pdf("Guten Tag"))
    assert os.environ["KONTOBAHN_SECRET_KEY"] == "secret"
    assert not [name for name in given if name.startswith("KONTOBAHN_")]


@pytest.mark.either_engine
def test_an_invoice_inside_a_pdf_is_the_one_that_came_as_xml(service: Service) -> None:
    inbox = Inbox(service)
    first = inbox.received(as_xml())
    hybrid = inbox.send(as_pdf(as_xml()), name="rechnung.pdf")
    assert (hybrid.status_code, hybrid.json()["data"]["id"]) == (200, first["id"])
