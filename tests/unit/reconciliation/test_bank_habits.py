"""Every bank file of the corpus goes through the matcher: nothing breaks, and nothing is acted on because an amount fits."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta

import pytest

from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Entry
from kontobahn.reconciliation.core.matcher import Matcher, run
from kontobahn.reconciliation.core.model import Movement, OpenItem
from kontobahn.reconciliation.inputs import movement_of_entry
from tests.corpus.statements import camt, mt940
from tests.corpus.statements.sample import Sample

CORPUS: dict[str, Callable[[], Sample]] = {**mt940.ALL, **camt.ALL}


def movements_of(sample: Sample) -> list[Movement]:
    items = read(io.BytesIO(sample.content), sample.name, **sample.options)
    entries = [item for item in items if isinstance(item, Entry)]
    return [movement_of_entry(str(number), entry) for number, entry in enumerate(entries)]


@pytest.mark.parametrize("name", CORPUS)
def test_no_file_of_the_corpus_is_acted_on_for_its_amounts(name: str) -> None:
    movements = movements_of(CORPUS[name]())
    owed = [
        OpenItem(f"{10_001 + number}0000", f"RE-2099-{number:05d}", movement.day - timedelta(9), movement.amount_minor)
        for number, movement in enumerate(movements)
    ]
    for outcome in run(Matcher(owed), movements):
        assert outcome.acted is None
        assert all(proposal.sum_minor == outcome.movement.amount_minor for proposal in outcome.proposals)
