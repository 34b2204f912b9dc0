"""What migrations of the books leave to Python: read models that follow by a rule that no SQL should repeat.

Every command knows these and hardly any runs them, so they import what they need when they run.
"""

from __future__ import annotations

from collections.abc import Callable

from kontobahn.db import Tx


def _settle_pairs(tx: Tx) -> None:
    """Pairs of opening balances netted to nothing before they were known as such."""
    from kontobahn.ledger.books import answers, models
    from kontobahn.ledger.books.openings import settle_twins

    for mandant, edition in tx.all("SELECT mandant, edition FROM books_clients ORDER BY mandant"):
        konten = {konto for (konto,) in tx.all("SELECT DISTINCT konto FROM books_openings WHERE edition = ?", edition)}
        paired = settle_twins(tx, edition, konten)
        for jahr, changed in paired.items():
            answers.settle_balances(tx, edition, jahr, changed)
        models.settle_rests(tx, edition, models.carried_years(tx, mandant), set().union(*paired.values()))


def _count_cash(tx: Tx) -> None:
    from kontobahn.ledger.books import cash_recount
    from kontobahn.ledger.books.store import client_of_mandant

    for (mandant,) in tx.all("SELECT DISTINCT mandant FROM books_cash_books ORDER BY mandant"):
        cash_recount.rewrite(tx, client_of_mandant(tx, mandant))


# By the name of the migration.
FOLLOW_UPS: dict[str, Callable[[Tx], None]] = {"books_openings": _settle_pairs, "books_cash_accounts": _count_cash}
