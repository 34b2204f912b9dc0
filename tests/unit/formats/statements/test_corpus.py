"""Every file of the corpus is read as it is meant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kontobahn.formats.statements import Closing, Entry, StatementWarning
from tests.corpus.statements import camt, mt940
from tests.corpus.statements.sample import Row, Sample
from tests.unit.formats.statements.reading import read_all, refused

CORPUS: dict[str, Callable[[], Sample]] = {**mt940.ALL, **camt.ALL}


@pytest.mark.parametrize("name", CORPUS)
def test_a_file_of_the_corpus_is_read_as_it_is_meant(name: str) -> None:
    sample = CORPUS[name]()
    if sample.refused:
        assert sample.refused in refused(sample.content).sentence
    items = read_all(sample.content, **sample.options)
    found = [item for item in items if isinstance(item, Entry)]
    assert len(found) == len(sample.rows)
    for entry, row in zip(found, sample.rows, strict=True):
        assert _as_row(entry, row) == row
    warnings = [item.found for item in items if isinstance(item, StatementWarning)]
    assert len(warnings) == len(sample.warnings)
    assert all(part in sentence for part, sentence in zip(sample.warnings, warnings, strict=True))
    if sample.closing is not None:
        closing = [item for item in items if isinstance(item, Closing)][-1]
        assert closing.balance is not None
        assert closing.balance.amount_minor == sample.closing


def _as_row(entry: Entry, expected: Row) -> Row:
    """Returns what the entry says of what is expected."""
    found = Row(
        entry.amount_minor,
        entry.purpose.svwz,
        entry.counterparty.name,
        entry.counterparty.iban,
        entry.end_to_end_id,
        entry.value_date,
        entry.booking_date,
    )
    kept = {
        name: value
        for name, value in found._asdict().items()
        if getattr(expected, name) is not None or name == "end_to_end_id"
    }
    return Row(**kept)
