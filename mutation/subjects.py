"""The modules in which a small fault costs money or shows a stranger's data, and the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """`tests` run on SQLite; `on_postgres` are about two transactions at once, which SQLite with its one writer cannot have."""

    tests: tuple[str, ...]
    on_postgres: tuple[str, ...] = ()


_PAYMENTS = Subject(
    (
        "tests/unit/banking/test_transitions.py",
        "tests/api/banking/test_any_order.py",
        "tests/api/banking/test_payments.py",
        "tests/api/banking/test_payment_edges.py",
        "tests/api/banking/test_shadows.py",
        "tests/api/banking/test_lost_answers.py",
        "tests/api/banking/test_cancelling.py",
        "tests/api/banking/test_key_limits.py",
        "tests/api/sandbox_bank/test_payments.py",
    ),
    ("tests/api/banking/test_payment_races.py", "tests/api/test_more_at_once.py"),
)
_ORDERS = Subject(
    (
        "tests/api/banking/test_order_files.py",
        "tests/api/banking/test_several_orders.py",
        "tests/api/banking/test_order_edges.py",
        "tests/api/banking/test_shadows.py",
        "tests/api/banking/test_order_pages.py",
        "tests/dashboard/test_bank_lists.py",
        "tests/api/banking/test_cancelling.py",
    ),
    ("tests/api/banking/test_payment_races.py", "tests/api/banking/test_several_orders.py"),
)
_INGEST = Subject(
    (
        "tests/unit/banking/test_overlap.py",
        "tests/api/banking/test_ingest.py",
        "tests/api/banking/test_ingest_choices.py",
        "tests/api/banking/test_feed_walks.py",
        "tests/api/banking/test_transactions.py",
        "tests/api/banking/test_statement_files.py",
        "tests/api/banking/test_overlapping_statements.py",
    ),
)
_WEBHOOKS = Subject(
    (
        "tests/unit/webhooks/test_claims.py",
        "tests/unit/webhooks/test_outbox.py",
        "tests/api/webhooks/test_delivery.py",
        "tests/api/webhooks/test_order.py",
        "tests/api/webhooks/test_webhook_endpoints.py",
    )
)
_GATE = Subject(("tests/unit/test_gate.py", "tests/api/test_keys.py", "tests/api/test_scopes.py"))
_OPEN_ITEMS = Subject(
    ("tests/unit/ledger/test_netting.py", "tests/api/ledger/test_opos.py", "tests/unit/ledger/test_random_ledgers.py")
)
_LARGE_FILES = Subject(
    (
        "tests/api/ledger/test_large_files.py",
        "tests/api/ledger/test_large_undo.py",
        "tests/unit/ledger/test_slices.py",
        "tests/unit/ledger/test_sliced_undo.py",
    )
)
_INVOICES = Subject(
    (
        "tests/unit/mobility/test_vat.py",
        "tests/api/mobility/test_invoices.py",
        "tests/api/mobility/test_invoice_edges.py",
        "tests/api/mobility/test_platforms.py",
        "tests/api/mobility/test_document_limits.py::test_an_invoice_takes_what_it_can_and_leaves_the_rest",
    ),
    ("tests/api/test_two_at_once.py",),
)

# For locks that are forgotten, in whatever module: two transactions at once.
LOCKS = Subject(
    (),
    (
        "tests/api/test_two_at_once.py",
        "tests/api/test_more_at_once.py",
        "tests/api/ledger/test_books_races.py",
        "tests/api/banking/test_payment_races.py",
        "tests/api/banking/test_connection_races.py",
        "tests/api/banking/test_several_orders.py::test_two_files_made_at_once_share_no_order",
        "tests/api/test_sign_in.py::test_attempts_at_once_are_counted_one_by_one",
        "tests/api/test_sign_in.py::test_no_session_is_opened_beside_a_change_of_the_password",
    ),
)

SUBJECTS: dict[str, Subject] = {
    "credits/__init__.py": Subject(("tests/unit/test_credits.py", "tests/api/test_charges.py")),
    "limits.py": Subject(("tests/unit/test_limits.py", "tests/api/test_rate_limits.py")),
    "api/idempotency.py": Subject(("tests/api/test_idempotency.py",), ("tests/api/test_two_at_once.py",)),
    "access/principal.py": _GATE,
    "access/authenticator.py": _GATE,
    "access/scopes.py": _GATE,
    "access/invitations.py": Subject(
        ("tests/api/test_auth.py", "tests/api/test_invitation_edges.py"), ("tests/api/test_two_at_once.py",)
    ),
    "banking/payments/transitions.py": _PAYMENTS,
    "banking/payments/apply.py": _PAYMENTS,
    "banking/payments/create.py": _PAYMENTS,
    "banking/payments/poll.py": _PAYMENTS,
    "banking/payments/key_limits.py": _PAYMENTS,
    "banking/payments/orders.py": _ORDERS,
    "banking/payments/order_files.py": _ORDERS,
    "banking/payments/cancel.py": _ORDERS,
    "banking/transactions/ingest.py": _INGEST,
    "banking/transactions/feed.py": _INGEST,
    "webhooks/claims.py": _WEBHOOKS,
    "webhooks/deliver.py": _WEBHOOKS,
    "outbound.py": Subject(("tests/unit/outbound",)),
    "posts.py": Subject(("tests/unit/outbound",)),
    "ledger/opos.py": _OPEN_ITEMS,
    "ledger/books/posting.py": Subject(
        (
            "tests/api/ledger/test_susa.py",
            "tests/api/ledger/test_auswertung.py",
            "tests/api/ledger/test_kassenbuch.py",
            "tests/api/ledger/test_undo_imports.py",
            *_OPEN_ITEMS.tests,
        )
    ),
    "ledger/books/slices.py": _LARGE_FILES,
    "ledger/books/sliced_undo.py": _LARGE_FILES,
    "ledger/books/removing.py": _LARGE_FILES,
    "ledger/books/preparing.py": _LARGE_FILES,
    "db/checkpoints.py": Subject(("tests/unit/test_checkpoints.py",)),
    "db/turns.py": Subject(("tests/unit/test_turns.py",)),
    "mobility/invoices/facts.py": _INVOICES,
    "mobility/invoices/issue.py": _INVOICES,
}
