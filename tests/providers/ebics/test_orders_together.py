"""Two who send the same order file at once: the bank gets it once."""

from __future__ import annotations

from kontobahn.bank_providers.ebics import store
from kontobahn.db import Tx
from tests.interleaving import on_postgres, overlap
from tests.providers.ebics.person import Person


@on_postgres
def test_the_second_sender_waits_and_sends_nothing(person: Person) -> None:
    person.connect()
    owner, db = person.owner.id, person.service.db
    [(ref,)] = db.read_now(lambda tx: tx.all("SELECT ref FROM ebics_accesses"))

    def begin(tx: Tx) -> store.OrderRow | None:
        return store.begin_order(tx, owner, ref, "MSG-1", "00" * 32)

    outcome = overlap(db, begin, begin)
    assert outcome.lock == "ebics_order"
    assert outcome.first is not None
    assert outcome.second is None
