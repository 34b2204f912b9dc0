"""The modules in which a small fault costs money or shows a stranger's data, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """`on_postgres`: its locks matter, and SQLite with its one writer cannot miss them."""

    tests: tuple[str, ...]
    on_postgres: bool = False


_PAYMENTS = (
    "tests/unit/banking/test_transitions.py",
    "tests/api/banking/test_payments.py",
    "tests/api/banking/test_lost_answers.py",
    "tests/api/banking/test_cancelling.py",
    "tests/api/sandbox_bank",
)
_ORDERS = (
    "tests/api/banking/test_order_files.py",
    "tests/api/banking/test_several_orders.py",
    "tests/api/banking/test_order_pages.py",
    "tests/api/banking/test_cancelling.py",
)
_INGEST = (
    "tests/unit/banking/test_overlap.py",
    "tests/api/banking/test_ingest.py",
    "tests/api/banking/test_transactions.py",
    "tests/api/banking/test_statement_files.py",
    "tests/api/banking/test_overlapping_statements.py",
)
_WEBHOOKS = ("tests/unit/webhooks", "tests/api/webhooks")

SUBJECTS: dict[str, Subject] = {
    "credits.py": Subject(("tests/unit/test_credits.py", "tests/api/test_charges.py"), on_postgres=True),
    "limits.py": Subject(("tests/unit/test_limits.py", "tests/api/test_rate_limits.py")),
    "api/idempotency.py": Subject(("tests/api/test_idempotency.py",), on_postgres=True),
    "access/principal.py": Subject(("tests/api/test_keys.py", "tests/test_tenancy.py")),
    "access/invitations.py": Subject(("tests/api/test_auth.py",), on_postgres=True),
    "banking/payments/transitions.py": Subject(_PAYMENTS),
    "banking/payments/apply.py": Subject(_PAYMENTS, on_postgres=True),
    "banking/payments/create.py": Subject(_PAYMENTS),
    "banking/payments/poll.py": Subject(_PAYMENTS),
    "banking/payments/orders.py": Subject(_ORDERS),
    "banking/payments/order_files.py": Subject(_ORDERS),
    "banking/transactions/ingest.py": Subject(_INGEST),
    "banking/transactions/feed.py": Subject(_INGEST),
    "webhooks/claims.py": Subject(_WEBHOOKS, on_postgres=True),
    "webhooks/deliver.py": Subject(_WEBHOOKS),
    "outbound.py": Subject(("tests/unit/outbound",)),
    "ledger/opos.py": Subject(("tests/api/ledger/test_opos.py", "tests/unit/ledger/test_random_ledgers.py")),
    "ledger/books/posting.py": Subject(("tests/api/ledger/test_opos.py", "tests/unit/ledger/test_random_ledgers.py")),
    "mobility/invoices/facts.py": Subject(("tests/unit/mobility/test_vat.py", "tests/api/mobility/test_invoices.py")),
    "mobility/invoices/issue.py": Subject(
        ("tests/api/mobility/test_invoices.py", "tests/unit/mobility/test_vat.py"), on_postgres=True
    ),
}
