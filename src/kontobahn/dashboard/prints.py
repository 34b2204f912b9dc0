"""Printed documents as the child process makes them: a template of ours with its data. Imports little, as the child starts often."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kontobahn.mobility.invoices.pdf import letterhead_template, typeset
from kontobahn.mobility.invoices.typesetter import Document

# Letters stand below the letterhead of the invoices.
LETTER = "letter"
_TEMPLATES = Path(__file__).parent / "templates" / "print"


def make(template: str, inputs: dict[str, str], at_seconds: int) -> list[Document]:
    return [Document("pdf", "", typeset(_template(template), inputs, at_seconds))]


@cache
def _template(name: str) -> bytes:
    template = (_TEMPLATES / f"{name}.typ").read_bytes()
    return letterhead_template() + template if name == LETTER else template
