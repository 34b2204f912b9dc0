"""How well purpose texts are read: every habit of banks with every text, counted."""

from __future__ import annotations

import re
from collections import Counter

from kontobahn.formats.mt940.entry import read_information
from kontobahn.formats.statements.purpose import Purpose, join_lines, parse
from tests.corpus.statements.purposes import Purpose as Written
from tests.corpus.statements.purposes import all_purposes

TAG = re.compile(r"(?:EREF|MREF|CRED|KREF|IBAN|BIC|SVWZ|ABWA)\s?[+:]", re.IGNORECASE)
CODES = (*range(20, 30), *range(60, 64))


def read(written: Written) -> Purpose:
    if not written.is_mt940:
        return parse(join_lines(written.lines))
    assert len(written.lines) <= len(CODES)
    fields = "".join(f"?{code}{line}" for code, line in zip(CODES, written.lines, strict=False))
    return parse(read_information([f"166?00GUTSCHRIFT{fields}?32Muster"]).description)


def faults() -> Counter[str]:
    found: Counter[str] = Counter()
    for habit, written in all_purposes():
        purpose = read(written)
        found["texts"] += 1
        svwz = purpose.svwz or ""
        if TAG.search(svwz):
            found["tags left"] += 1
        elif svwz.replace(" ", "") != written.text.replace(" ", ""):
            found[f"other text: {habit}"] += 1
        elif svwz.count(" ") < written.text.count(" "):
            found["fused"] += 1
        elif svwz != written.text:
            found["torn"] += 1
        values = (purpose.end_to_end_id, purpose.mref, purpose.cred, purpose.iban)
        if values != (written.end_to_end_id, written.mandate, written.creditor, written.iban):
            found["values"] += 1
    return found


def test_purpose_texts_are_read_as_they_were_written() -> None:
    found = faults()
    assert found.pop("texts") >= 250
    # Where a word ends exactly with a full line, whose blank is lost, a small letter may follow: nothing tells.
    assert found.pop("fused", 0) <= 2
    assert not found
