"""The modules that decide about money, access or delivery, and the tests that must notice a small fault in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parent.parent / "src" / "kontobahn"


class Subject(NamedTuple):
    """`tests` run on SQLite; `on_postgres` are about two transactions at once, which SQLite with its one writer cannot have."""

    tests: tuple[str, ...]
    on_postgres: tuple[str, ...] = ()


_DELETED_ORGANISATION = (
    "tests/cli/test_organizations.py::test_nothing_is_left_of_a_deleted_organisation_and_all_of_the_others"
)
_PAYMENTS = Subject(
    (
        "tests/unit/banking/test_links.py",
        "tests/unit/banking/test_transitions.py",
        "tests/api/banking/test_any_order.py",
        "tests/api/banking/test_payments.py",
        "tests/api/banking/test_payment_edges.py",
        "tests/api/banking/test_shadows.py",
        "tests/api/banking/test_lost_answers.py",
        "tests/api/banking/test_cancelling.py",
        "tests/api/banking/test_key_limits.py",
        "tests/api/banking/test_files_for_banks.py",
        "tests/api/banking/test_payee_checks.py",
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
_SENT_ORDERS = Subject(
    (
        *_PAYMENTS.tests,
        "tests/unit/banking/test_counted_payees.py",
        "tests/api/banking/test_several_orders.py",
        "tests/providers/ebics/test_orders.py",
        "tests/providers/ebics/test_orders_together.py",
    )
)
_RELEASES = Subject(("tests/dashboard/test_releases.py", "tests/api/banking/test_key_limits.py"))
_PAYMENTS_AND_ORDERS = Subject(
    tuple(dict.fromkeys((*_PAYMENTS.tests, *_ORDERS.tests))),
    tuple(dict.fromkeys((*_PAYMENTS.on_postgres, *_ORDERS.on_postgres))),
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
        "tests/api/banking/test_large_deliveries.py",
        "tests/api/banking/test_statements_for_known_accounts.py",
        "tests/api/banking/test_transactions_in_parts.py",
        "tests/api/banking/test_any_way.py",
    ),
)
_LISTS_OF_TRANSACTIONS = Subject(
    (
        "tests/api/banking/test_feed_walks.py",
        "tests/api/banking/test_transactions.py",
        "tests/api/banking/test_transactions_in_parts.py",
        "tests/api/test_paging.py",
        "tests/dashboard/test_bank_lists.py",
        "tests/dashboard/test_overview.py",
        "tests/dashboard/test_reconciliation.py",
        "tests/dashboard/test_search.py",
    )
)
_WEBHOOKS = Subject(
    (
        "tests/unit/webhooks/test_claims.py",
        "tests/unit/webhooks/test_deliverer.py",
        "tests/unit/webhooks/test_outbox.py",
        "tests/unit/webhooks/test_receivers.py",
        "tests/unit/webhooks/test_signing.py",
        "tests/api/webhooks/test_delivery.py",
        "tests/api/webhooks/test_late_answers.py",
        "tests/api/webhooks/test_order.py",
        "tests/api/webhooks/test_webhook_endpoints.py",
        "tests/api/webhooks/test_webhook_url.py",
        "tests/api/webhooks/test_events.py",
        "tests/api/webhooks/test_resend_failed.py",
        "tests/dashboard/test_deliveries.py",
    ),
    ("tests/api/webhooks/test_late_answers.py::test_an_outcome_waits_for_a_change_of_the_address",),
)
_GATE = Subject(("tests/unit/test_gate.py", "tests/api/test_keys.py", "tests/api/test_scopes.py"))
_OPEN_ITEMS = Subject(
    ("tests/unit/ledger/test_netting.py", "tests/api/ledger/test_opos.py", "tests/unit/ledger/test_random_ledgers.py")
)
_TAX = Subject(("tests/unit/ledger/test_kontierung.py", "tests/unit/ledger/test_steuer.py"))
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
        "tests/api/mobility/test_verify.py",
        "tests/api/mobility/test_document_limits.py::test_an_invoice_takes_what_it_can_and_leaves_the_rest",
    ),
    ("tests/api/test_two_at_once.py",),
)

_MATCHER = Subject(("tests/unit/reconciliation",))
_RECONCILIATION = Subject(
    (
        "tests/unit/reconciliation/test_backtest.py",
        "tests/unit/reconciliation/test_bank_habits.py",
        "tests/unit/reconciliation/test_booking_rows.py",
        "tests/unit/reconciliation/test_movements.py",
        "tests/unit/reconciliation/test_office_bookings.py",
        "tests/api/reconciliation/test_acting.py",
        "tests/api/reconciliation/test_bad_input.py",
        "tests/api/reconciliation/test_batches.py",
        "tests/api/reconciliation/test_booked_as_predicted.py",
        "tests/api/reconciliation/test_decisions.py",
        "tests/api/reconciliation/test_gathering.py",
        "tests/api/reconciliation/test_meanwhile.py",
        "tests/api/reconciliation/test_paid_meanwhile.py",
        "tests/api/reconciliation/test_standing.py",
        "tests/api/reconciliation/test_store.py",
        "tests/api/reconciliation/test_trial_run.py",
        "tests/dashboard/test_reconciliation.py",
    ),
    ("tests/api/reconciliation/test_acting.py", "tests/api/reconciliation/test_store.py"),
)
_BATCHES = Subject(
    (
        "tests/api/reconciliation/test_batches.py",
        "tests/api/reconciliation/test_paid_meanwhile.py",
        "tests/dashboard/test_client_board.py",
        "tests/dashboard/test_reconciliation.py",
        "tests/providers/datev/test_files.py::test_a_batch_that_failed_is_to_be_fetched_or_sent_again_and_never_both",
        "tests/providers/datev/test_files.py::test_matches_are_handed_over_by_the_service_where_it_is_booked_and_as_a_file_elsewhere",
    )
)
_MATCHES = Subject(
    (
        "tests/api/reconciliation/test_acting.py",
        "tests/api/reconciliation/test_batches.py",
        "tests/api/reconciliation/test_decisions.py",
        "tests/api/reconciliation/test_standing.py",
        "tests/api/reconciliation/test_store.py",
        "tests/dashboard/test_notices.py::test_money_is_told_when_it_has_waited_for_a_week_and_once_a_week",
        "tests/dashboard/test_partner_statement.py",
        "tests/dashboard/test_reconciliation.py",
        "tests/dashboard/test_sandbox.py::test_everything_of_the_bank_says_what_it_is_and_can_be_removed",
    ),
    ("tests/api/reconciliation/test_acting.py", "tests/api/reconciliation/test_store.py"),
)
_PEOPLE = Subject(
    (
        "tests/dashboard/test_second_factor.py",
        "tests/dashboard/test_protection.py",
        "tests/dashboard/test_roles.py",
        "tests/dashboard/test_agency.py",
        "tests/dashboard/test_clients.py",
        "tests/dashboard/test_identities.py",
        "tests/unit/dashboard/test_security.py",
        "tests/unit/test_gate.py",
        "tests/api/test_auth.py",
        "tests/api/test_roles.py",
        "tests/api/test_what_ends.py",
        "tests/api/test_invitation_edges.py",
        "tests/api/test_nobody_else.py",
        "tests/api/test_audit_log.py",
        "tests/api/test_cleared_away.py",
        "tests/api/test_passwords.py",
        "tests/api/test_mail.py",
        "tests/api/test_sign_in.py",
        "tests/api/test_keys.py",
        "tests/api/test_scopes.py",
        _DELETED_ORGANISATION,
    ),
    ("tests/api/test_two_at_once.py", "tests/api/test_more_at_once.py", "tests/api/test_sign_in.py"),
)
_IDENTITIES = Subject(("tests/dashboard/test_identities.py", "tests/dashboard/test_identity_provider.py"))
_ACCOUNT_PAGES = Subject(
    (
        *(test for test in _PEOPLE.tests if test.startswith(("tests/dashboard/", "tests/unit/dashboard/"))),
        "tests/dashboard/test_identity_provider.py",
        "tests/dashboard/test_releases.py",
        "tests/dashboard/test_account_pages.py",
        "tests/unit/dashboard/test_declare.py",
        "tests/api/test_invitation_edges.py",
        "tests/api/test_mail.py",
    )
)
_CALLS = Subject(
    (
        "tests/unit/test_exchange.py",
        "tests/unit/test_gate.py",
        "tests/unit/test_threads.py",
        "tests/unit/test_wire.py",
        "tests/api/test_bad_input.py",
        "tests/api/test_body_limits.py",
        "tests/api/test_charges.py",
        "tests/api/test_connections.py",
        "tests/api/test_idempotency.py",
        "tests/api/test_keys.py",
        "tests/api/test_paging.py",
        "tests/api/test_rate_limits.py",
        "tests/api/test_roles.py",
        "tests/api/test_scopes.py",
        "tests/api/test_sign_in.py",
        "tests/api/test_tidied_later.py",
        "tests/dashboard/test_protection.py",
    )
)
_STATEMENTS = Subject(
    (
        "tests/unit/banking/test_overlap.py",
        "tests/api/banking/test_statement_files.py",
        "tests/api/banking/test_statement_calls.py",
        "tests/api/banking/test_overlapping_statements.py",
        "tests/api/banking/test_statement_reading.py",
        "tests/api/banking/test_statements_for_known_accounts.py",
        "tests/api/banking/test_large_deliveries.py",
    )
)
_REPORTS = Subject(
    (
        "tests/unit/banking/test_gathered.py",
        "tests/api/banking/test_reports.py",
        "tests/api/banking/test_connections.py",
        "tests/api/banking/test_payments.py",
        "tests/api/banking/test_ingest_choices.py",
        "tests/api/banking/test_large_deliveries.py",
        "tests/api/banking/test_returns.py",
    ),
    ("tests/api/banking/test_connection_races.py",),
)
_IMPOSSIBLE_ORDERS = "tests/providers/banking/test_contract.py::test_an_impossible_order_is_refused_and_does_not_exist"
_ENABLE_BANKING = Subject(
    ("tests/unit/banking/test_enable_banking.py", "tests/providers/enable_banking", _IMPOSSIBLE_ORDERS)
)
_SALT_EDGE = Subject(("tests/providers/salt_edge", _IMPOSSIBLE_ORDERS))
_FINTS = Subject(
    (
        "tests/unit/banking/test_fints_bounds.py",
        "tests/providers/fints",
        "tests/cli/test_banks.py::test_a_bank_is_asked_who_it_is",
        "tests/cli/test_banks.py::test_a_list_of_banks_is_read_in_both_forms",
        "tests/cli/test_banks.py::test_a_file_without_banks_is_refused_by_name",
    )
)

_PAYABLES = Subject(
    (
        "tests/api/payables",
        "tests/api/test_paging.py",
        "tests/dashboard/test_payables.py",
        "tests/dashboard/test_payables_by_hand.py",
        "tests/dashboard/test_payables_mailbox.py",
        "tests/dashboard/test_payment_runs.py",
        "tests/dashboard/test_releases.py",
    )
)
_ACCOUNT_MERGES = Subject(("tests/api/banking/test_account_merges.py", "tests/dashboard/test_account_merges.py"))
_EBICS = Subject(
    ("tests/unit/formats/test_ebics.py", "tests/unit/banking/test_ebics_reading.py", "tests/providers/ebics")
)
_DATEV = Subject(("tests/providers/datev", "tests/dashboard/test_transmissions.py"))
_ASSISTANTS = Subject(("tests/unit/test_mcp_server.py", "tests/unit/test_channel.py", "tests/assistants"))
# What is wrong in a read model is looked for by tests of their own; that nothing is found wrong in sound books, by most others.
_VERIFICATION = Subject(
    (
        "tests/unit/ledger/test_verify.py",
        "tests/unit/ledger/test_sliced_undo.py",
        "tests/unit/ledger/test_undo.py",
        "tests/api/ledger/test_kassenbuch_listing.py",
        "tests/api/ledger/test_opening_pairs.py",
    )
)
_BOOKS = Subject(
    (
        "tests/api/ledger/test_auswertung.py",
        "tests/api/ledger/test_book_by_call.py",
        "tests/api/ledger/test_cash_account.py",
        "tests/api/ledger/test_cash_report.py",
        "tests/api/ledger/test_exports.py",
        "tests/api/ledger/test_imports.py",
        "tests/api/ledger/test_kassenbuch.py",
        "tests/api/ledger/test_kassenbuch_images.py",
        "tests/api/ledger/test_kassenbuch_listing.py",
        "tests/api/ledger/test_kassenbuch_refusals.py",
        "tests/api/ledger/test_kassenbuch_steuer.py",
        "tests/api/ledger/test_konten_buchungen.py",
        "tests/api/ledger/test_ledger_errors.py",
        "tests/api/ledger/test_master_data.py",
        "tests/api/ledger/test_never_twice.py",
        "tests/api/ledger/test_opening_pairs.py",
        "tests/api/ledger/test_opos.py",
        "tests/api/ledger/test_personenkonto.py",
        "tests/api/ledger/test_receipts_kept.py",
        "tests/api/ledger/test_susa.py",
        "tests/api/ledger/test_undo_imports.py",
        "tests/unit/ledger",
        "tests/dashboard/test_books.py",
        "tests/dashboard/test_reports.py",
    )
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

# By pattern, so that a module that is added to a room is looked at without a word here; the first that fits counts.
_MONEY: dict[str, Subject] = {
    "credits.py": Subject(("tests/unit/test_credits.py", "tests/api/test_charges.py")),
    "api/idempotency.py": Subject(
        ("tests/api/test_idempotency.py", _DELETED_ORGANISATION), ("tests/api/test_two_at_once.py",)
    ),
    "reconciliation/core/*.py": _MATCHER,
    "reconciliation/account_merges.py": _ACCOUNT_MERGES,
    "reconciliation/batch_store.py": _BATCHES,
    "reconciliation/report.py": Subject(("tests/api/reconciliation/test_standing.py",)),
    "reconciliation/store.py": _MATCHES,
    "reconciliation/*.py": _RECONCILIATION,
    "banking/payments/bank.py": _PAYMENTS_AND_ORDERS,
    "banking/payments/order_files.py": _ORDERS,
    "banking/payments/releases.py": _RELEASES,
    "banking/payments/submissions.py": _SENT_ORDERS,
    "banking/payments/*.py": _PAYMENTS,
    "banking/imports/*.py": _STATEMENTS,
    "banking/transactions/store.py": _LISTS_OF_TRANSACTIONS,
    "banking/transactions/*.py": _INGEST,
    "banking/reports/*.py": _REPORTS,
    "banking/connections/rules.py": _REPORTS,
    "banking/connections/store.py": _REPORTS,
    "bank_providers/enable_banking/*.py": _ENABLE_BANKING,
    "bank_providers/salt_edge/*.py": _SALT_EDGE,
    "bank_providers/fints/*.py": _FINTS,
    "bank_providers/files.py": Subject(
        ("tests/providers/banking/test_files.py", "tests/api/banking/test_order_edges.py")
    ),
    "ledger/opos.py": _OPEN_ITEMS,
    "ledger/bwa.py": Subject(("tests/unit/ledger/test_bwa.py",)),
    "ledger/faelligkeiten.py": Subject(
        (
            "tests/unit/ledger/test_due_dates.py",
            "tests/api/ledger/test_faelligkeiten.py",
            "tests/api/ledger/test_zahlungsbedingungen.py",
        )
    ),
    "ledger/konto.py": Subject(("tests/unit/ledger/test_konto.py",)),
    "ledger/kontierung.py": _TAX,
    "ledger/steuer.py": _TAX,
    "books/posting.py": Subject(
        (
            "tests/api/ledger/test_susa.py",
            "tests/api/ledger/test_auswertung.py",
            "tests/api/ledger/test_kassenbuch.py",
            "tests/api/ledger/test_undo_imports.py",
            "tests/api/ledger/test_faelligkeiten.py",
            "tests/api/ledger/test_large_files.py",
            "tests/unit/ledger/test_slices.py",
            *_OPEN_ITEMS.tests,
        )
    ),
    "books/slices.py": _LARGE_FILES,
    "books/undo.py": _LARGE_FILES,
    "books/claims.py": _LARGE_FILES,
    "books/verification.py": _VERIFICATION,
    "books/*.py": _BOOKS,
    "ledger/transmissions.py": _DATEV,
    "datev/*.py": _DATEV,
    "payables/*.py": _PAYABLES,
    "banking/merges/*.py": _ACCOUNT_MERGES,
    "bank_providers/ebics/*.py": _EBICS,
    "mobility/invoices/rules.py": _INVOICES,
    "mobility/invoices/store.py": _INVOICES,
}
_ACCESS: dict[str, Subject] = {
    "vault.py": Subject(
        (
            "tests/unit/test_foundation.py::test_the_key_file_is_made_once_and_for_its_owner_alone",
            "tests/unit/test_foundation.py::test_a_sealed_secret_opens_with_its_key_and_place_only",
            "tests/unit/test_foundation.py::test_a_wrong_secret_key_is_refused",
        )
    ),
    "limits.py": Subject(("tests/unit/test_limits.py", "tests/api/test_rate_limits.py")),
    "access/principal.py": _GATE,
    "access/invitations.py": Subject(
        (
            "tests/api/test_auth.py",
            "tests/api/test_invitation_edges.py",
            "tests/api/test_mail.py",
            "tests/api/test_roles.py",
            "tests/api/test_what_ends.py",
        ),
        ("tests/api/test_two_at_once.py", "tests/api/test_more_at_once.py"),
    ),
    "access/clients.py": Subject(
        ("tests/api/test_nobody_else.py", "tests/dashboard/test_clients.py", "tests/dashboard/test_client_board.py")
    ),
    "access/identit*.py": _IDENTITIES,
    "access/*.py": _PEOPLE,
    "auth/*.py": _PEOPLE,
    "api/call.py": _CALLS,
    "api/exchange.py": _CALLS,
    "api/server.py": _CALLS,
    "assistants/*.py": _ASSISTANTS,
    "mcp/channel.py": _ASSISTANTS,
    "mcp/http.py": _ASSISTANTS,
    "mcp/server.py": _ASSISTANTS,
    "dashboard/sign_in.py": _PEOPLE,
    "dashboard/dispatch.py": _PEOPLE,
    "dashboard/security.py": _PEOPLE,
    "dashboard/confirmation.py": _ACCOUNT_PAGES,
    "dashboard/declare.py": _ACCOUNT_PAGES,
    "dashboard/people.py": _ACCOUNT_PAGES,
    "dashboard/visit.py": _ACCOUNT_PAGES,
    "dashboard/pages/api_keys.py": _ACCOUNT_PAGES,
    "dashboard/pages/assistants.py": _ASSISTANTS,
    "dashboard/pages/profile.py": _ACCOUNT_PAGES,
    "dashboard/pages/sign_in.py": _ACCOUNT_PAGES,
    "dashboard/pages/team.py": _ACCOUNT_PAGES,
    "outbound.py": Subject(("tests/unit/outbound",)),
}
_DELIVERY: dict[str, Subject] = {
    "webhooks/*.py": _WEBHOOKS,
    "events/*.py": Subject(
        (
            "tests/unit/webhooks/test_watch.py",
            "tests/test_openapi.py::test_every_status_that_can_come_is_documented",
            "tests/test_openapi.py::test_a_page_of_a_list_has_a_hundred_rows_unless_the_list_says_otherwise",
            *(test for test in _WEBHOOKS.tests if test.startswith("tests/api/")),
        )
    ),
    "jobs.py": Subject(("tests/unit/test_jobs.py",)),
    "mail.py": Subject(("tests/api/test_mail.py",)),
    "posts.py": Subject(("tests/unit/outbound",)),
    "db/leases.py": Subject(("tests/unit/test_leases.py",)),
    "db/sqlite.py": Subject(
        (
            "tests/unit/test_database.py",
            "tests/unit/test_checkpoints.py",
            "tests/unit/test_known_answers.py",
            "tests/unit/test_turns.py",
        )
    ),
}
DECIDING = {"money": _MONEY, "access": _ACCESS, "delivery": _DELIVERY}
# They say what travels, or put together; nothing is decided in them.
_DECIDES_NOTHING = ("wire.py", "examples.py", "setup.py", "pages.py", "words.py")


def _modules() -> dict[str, Subject]:
    found: dict[str, Subject] = {}
    for patterns in DECIDING.values():
        for pattern, subject in patterns.items():
            for path in sorted(SOURCE.glob(pattern)):
                if path.name not in _DECIDES_NOTHING and "def " in path.read_text():
                    found.setdefault(str(path.relative_to(SOURCE)), subject)
    return found


SUBJECTS = _modules()
