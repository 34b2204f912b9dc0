"""Every file of the corpus is imported into a real database: all of its bookings, to the cent, with its warnings."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.imports.importer import StatementImporter
from kontobahn.banking.imports.store import ImportResult
from kontobahn.db import Tx
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import StatementError
from tests.corpus.statements import camt, mt940
from tests.corpus.statements.sample import Sample
from tests.harness import Organization, Service

CORPUS: dict[str, Callable[[], Sample]] = {**mt940.ALL, **camt.ALL}


def import_sample(service: Service, owner: Organization, sample: Sample, **options: Any) -> ImportResult:
    def unit(tx: Tx) -> ImportResult:
        return StatementImporter(tx, owner.id, sample.name, **options).import_file(file)

    with ReadFile(read(io.BytesIO(sample.content), sample.name, **options)) as file:
        return service.db.write_now(unit)


def stored(service: Service, owner: Organization) -> list[tuple[float, str | None]]:
    found = []
    for account in service.get("/v2/banking/accounts", owner.key).json()["data"]:
        query = {"account_id": account["id"], "sort": "id"}
        listed = service.get("/v2/banking/transactions", owner.key, params=query).json()["data"]
        found += [(item["amount"], item["description_parsed"]["svwz"]) for item in listed]
    return found


def test_every_file_of_the_corpus_is_imported_once(service: Service) -> None:
    for name, write in CORPUS.items():
        owner, sample = service.organization(), write()
        if sample.refused:
            with pytest.raises(StatementError, match="--unbalanced"):
                import_sample(service, owner, sample)
            assert not stored(service, owner), name
        result = import_sample(service, owner, sample, **sample.options)
        assert result.added == len(sample.rows), name
        assert len(result.warnings) >= len(sample.warnings), name
        kept = stored(service, owner)
        assert [amount for amount, _ in kept] == [row.amount_minor / 100 for row in sample.rows], name
        assert all(row.svwz in (None, svwz) for row, (_, svwz) in zip(sample.rows, kept, strict=True)), name
        again = import_sample(service, owner, sample, **sample.options)
        assert (again.added, again.modified, again.removed) == (0, 0, 0), name
        assert stored(service, owner) == kept, name
