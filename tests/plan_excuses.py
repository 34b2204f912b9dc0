"""What `tests/plans.py` lets pass, each with its reason."""

NEVER_LARGE = {
    "counters": "a row for each counter",
    "job_leases": "a row for each job",
    "schema_migrations": "a row for each step",
    "sandbox_clock": "one row",
    "books_preparing": "a row while a large file is being written",
    "banking_arrivals": "a row while a large statement or fetch is being written",
    "banking_departures": "a row until the transactions of a removed account are removed",
    "books_left_editions": "a row until an edition has been deleted",
    "fints_dialogs": "a row while a dialog is open",
    "mobility_documents_due": "a row until an invoice has its documents",
    "mail_outbox": "a row until a message was sent or given up",
}

# An organisation, a client or a connection has a handful: reading all of these is no history. Those of everybody are.
FEW_OF_AN_ORGANISATION = {
    "agency_clients", "api_keys", "assistants_grants", "banking_account_aliases", "banking_account_merges", "banking_account_sources",
    "banking_accounts", "banking_connect_flows", "banking_connections",
    "banking_counters",
    "banking_interactions", "banking_removals", "books_cash_books", "books_clients", "books_denied_rights", "books_document_types",
    "books_folders", "books_payment_terms", "books_subscriptions", "books_years", "credit_accounts", "credit_grants",
    "dashboard_preferences", "datev_clients", "datev_folders", "datev_jobs", "datev_sessions", "datev_sign_ins", "ebics_accesses",
    "ebics_downloads",
    "enable_banking_sessions", "fints_logins", "invitations", "ledger_connections", "mobility_logos",
    "mobility_numbers", "mobility_sellers", "organizations", "password_resets", "recon_accounts", "recon_rules", "recovery_codes",
    "request_logs", "sandbox_accounts", "sandbox_connections", "sandbox_flows", "sessions", "sign_in_attempts", "sign_in_challenges",
    "sign_in_places", "user_factors", "users", "webhook_logs", "webhook_receivers", "client_access",
}  # fmt: skip

# By module or function.
EXCUSED: dict[str, str] = {
    **dict.fromkeys(
        (
            "books/verification.py",
            "mobility/invoices/verify.py",
            "credits.py:find_discrepancies",
            "books/receipts.py:differences",
            "books/receipts.py:filed",
        ),
        "it checks everything, when an operator asks",
    ),
    **dict.fromkeys(
        ("books/export.py",),
        "it writes everything out",
    ),
    **dict.fromkeys(
        (
            "cli",
            "banking/connections/sources.py:twins",
            "banking/payments/store.py:count_under_way",
            "webhooks/receiver.py:find_for_operator",
            "access/keys.py:find",
            "access/organizations.py:all_organizations",
            "ledger/connections.py:find_for_operator",
            "mobility/customers.py:find_for_operator",
        ),
        "a command of the operator, over all organisations",
    ),
    **dict.fromkeys(
        (
            "access/passwords.py:purge_expired",
            "access/sessions.py:purge_expired",
            "access/signin.py:purge",
            "api/request_log.py:_purge_hours",
            "api/request_log.py:_with_too_much",
            "api/tasks.py:fail_abandoned",
            "bank_providers/ebics/store.py:remove_orphans",
            "bank_providers/enable_banking/store.py:end_orphans",
            "bank_providers/fints/store.py:remove_orphans",
            "banking/reports/refresh.py:_due_for_refresh",
            "banking/reports/refresh.py:_ending_soon",
            "banking/reports/refresh.py:_expired_consents",
            "banking/reports/webhooks.py:_due",
            "banking/reports/webhooks.py:purge",
            "credits.py:lapse_due_grants",
            "datev/sessions.py:expire_due",
            "datev/sign_in.py:purge",
            "ledger/transmissions.py:_due",
            "webhooks/claims.py",
            "webhooks/outbox.py:purge",
            "mobility/invoices/documents.py:given_up",
        ),
        "a job, in the background, over the rows of everybody that are due or over",
    ),
    **dict.fromkeys(
        ("banking/transactions/ingest.py:remove_rows", "banking/connections/store.py:_remove_some"),
        "it removes all transactions of an account, some at a time",
    ),
    **dict.fromkeys(
        ("datev/postings.py:_done", "datev/postings.py:forget_all"),
        "it deletes all that was read of a year, or over a connection; a part holds thousands of postings",
    ),
    **dict.fromkeys(
        ("ledger/transmissions.py:_claim", "ledger/transmissions.py:give_up"),
        "those of a client, or over a connection, that are still on their way",
    ),
    **dict.fromkeys(
        ("bank_providers/sandbox", "banking/payments/store.py:under_way"),
        "a bank to develop against, and the page that controls it",
    ),
    **dict.fromkeys(
        (
            "access/invitations.py:any_made",
            "access/users.py:any_exists",
            "access/users.py:any_of",
            "access/users.py:are_several",
            "access/keys.py:is_used",
            "banking/connections/accounts.py:any_exists",
            "banking/imports/store.py:has_statements",
            "banking/connections/store.py:is_used_by_others",
        ),
        "whether there is any: the first row answers",
    ),
    **dict.fromkeys(
        (
            "access/audit.py:entries",
            "mobility/customers.py:_list",
            "mobility/customers.py:by_number",
            "mobility/invoices/routes.py:_list",
            "mobility/tickets.py:list_tickets",
            "books/reports.py:balances",
            "books/reports.py:bwa",
            "books/partners.py:geschaeftspartner",
            "books/open_items.py:_first_openings",
        ),
        "the list that was asked for, whole: the call has no limit",
    ),
    **dict.fromkeys(
        ("books/store.py:konten",),
        "the accounts of a client, labelled or booked on, are sorted as a whole: their number does not grow with the bookings",
    ),
    **dict.fromkeys(
        (
            "books/read_models.py:open_items_of",
            "books/open_items.py:_first_invoices",
        ),
        "the open items of accounts that are listed or booked on: an index holds the open ones alone",
    ),
    **dict.fromkeys(
        (
            "books/reports.py:umsatzsteuer",
            "books/reports.py:_direct",
            "books/reports.py:_shares",
            "books/reports.py:_of_groups",
        ),
        "the sheet of a year is made from the bookings of the year",
    ),
    "books/reports.py:_on_payment": "invoices may be of any year before their payments, and only small businesses are taxed by payments",
    **dict.fromkeys(
        (
            "books/partners.py:search",
            "books/partners.py:find",
        ),
        "a search through partners, by any part of a name",
    ),
    **dict.fromkeys(
        (
            "api/request_log.py",
            "api/tasks.py",
            "banking/reports/webhooks.py:_earlier",
            "webhooks/entries.py",
            "webhooks/entries.py:any_delivered",
            "webhooks/outbox.py:cancel_pending",
            "webhooks/outbox.py:measure_backlog",
            "webhooks/outbox.py:restart_pending",
        ),
        "kept for some days only, or bounded in number",
    ),
    **dict.fromkeys(
        ("banking/imports/store.py", "banking/transactions/recognition.py:_closed_times"),
        "one row a statement or span, and looked at from the latest",
    ),
    **dict.fromkeys(
        ("banking/transactions/recognition.py:_is_proven",),
        "before a booking is left out that the statements of its days lack, which hardly ever happens",
    ),
    **dict.fromkeys(
        ("banking/connections/store.py:_remove_accounts", "banking/connections/store.py:_remove_transactions"),
        "it goes with the connection",
    ),
    **dict.fromkeys(
        (
            "banking/payments/store.py:remove_of_provider",
            "reconciliation/store.py:forget_account",
            "reconciliation/store.py:reversal_wanted_on",
        ),
        "everything of the sandbox bank is removed, once",
    ),
    **dict.fromkeys(
        (
            "banking/merges/comparison.py",
            "banking/merges/store.py",
            "banking/payments/order_files.py:ids_of_account",
            "banking/payments/store.py:ids_of_account",
            "banking/payments/store.py:move_of_connections",
            "reconciliation/merged_accounts.py",
        ),
        "two accounts are compared, and made one or two again, as a whole, when a person asks",
    ),
    **dict.fromkeys(
        ("books/store.py:_set_end", "books/tax_corrections.py:_changed"),
        "a fiscal year is looked through, once, when somebody changes its end or its taxes",
    ),
    **dict.fromkeys(
        ("reconciliation/store.py:best_first",),
        "of an account, what waits to be confirmed: an index holds the states apart",
    ),
    **dict.fromkeys(
        ("reconciliation/store.py:count_by_state",),
        "an account's transactions are counted by state, from an index alone",
    ),
    **dict.fromkeys(
        (
            "banking/transactions/recognition.py:_with_reference",
            "banking/transactions/ingest.py:remove_missing_pending",
            "banking/transactions/ingest.py:has_unconfirmed",
            "banking/transactions/ingest.py:remove_unbooked",
            "mobility/tickets.py:due",
            "mobility/tickets.py:list_unbilled",
            "mobility/tickets.py:mark_billed",
            "mobility/tickets.py:open_by_customer",
            "banking/payments/order_files.py:free_of_account",
            "credits.py:reservations",
            "payables/handover.py:count_waiting",
            "payables/handover.py:waiting",
            "payables/run_store.py:open_payments",
            "payables/run_store.py:organizations_with_open_payments",
            "assistants/prepared.py:_prepare",
            "assistants/prepared.py:waiting",
            "reconciliation/batch_store.py:to_fetch",
        ),
        "few at any time, those that wait: a table or an index holds these alone",
    ),
    **dict.fromkeys(
        (
            "banking/connections/accounts.py:balance_by_day",
            "banking/payments/store.py:ordered_since",
            "payables/store.py:due",
            "payables/store.py:waiting",
            "reconciliation/batch_store.py:count_waiting",
            "reconciliation/batch_store.py:waiting",
            "reconciliation/store.py:matches_between",
            "reconciliation/store.py:matches_of_items",
            "reconciliation/store.py:matches",
        ),
        "from a day or an id on, and with a limit",
    ),
    **dict.fromkeys(
        (
            "access/audit.py:latest",
            "banking/payments/store.py:listing",
            "books/bookings.py:buchungen",
            "mobility/invoices/store.py:latest",
            "banking/transactions/routes.py:list_transactions",
            "banking/transactions/store.py:_merged",
            "banking/transactions/store.py:_removed",
            "assistants/prepared.py:_listing",
            "assistants/prepared.py:latest",
            "payables/store.py:latest",
            "payables/store.py:listing",
            "payables/run_store.py:listing",
            "payables/handover.py:listing",
            "payables/handover.py:latest",
            "reconciliation/batch_store.py:listing",
            "reconciliation/matches.py:_listing",
            "reconciliation/transactions.py:listing",
            "reconciliation/knowledge.py:_learned",
            "banking/payments/order_files.py:listing",
        ),
        "a page in the order of the list, of several organisations or with a filter beside it: each has few accounts and states",
    ),
    **dict.fromkeys(
        ("banking/payments/store.py:_check_known",),
        "asked only for something that is no longer there",
    ),
    **dict.fromkeys(
        (
            "books/batches.py:without_effect",
            "books/duplicates.py:_load",
        ),
        "batches that were undone, by an index of these; and the rows of partial imports whose file was never completed",
    ),
    **dict.fromkeys(
        ("reconciliation/runs.py:_drop_removed",),
        "transactions that no match has settled, of which a run looks at each anyway",
    ),
    **dict.fromkeys(
        ("books/account_sheets.py",),
        "two sides, each a page by its own index, and what both give is sorted",
    ),
    **dict.fromkeys(
        (
            "books/open_items.py:_changed_since",
            "books/open_items.py:belegbewegungen",
        ),
        "what was booked since a day that is given: going back is asked for",
    ),
    **dict.fromkeys(
        (
            "books/cash_report.py",
            "books/cash_days.py",
        ),
        "a cash book, day by day: its balance is the sum of them all",
    ),
    **dict.fromkeys(
        (
            "books/read_models.py:settle_rests",
            "books/slices.py",
            "books/undo.py:is_carried",
        ),
        "when a year is carried over or taken back, all its accounts are",
    ),
    **dict.fromkeys(
        (
            "reconciliation/store.py:learned",
            "reconciliation/store.py:taken_from",
            "reconciliation/report.py",
        ),
        "what was learned about a client is taken as a whole",
    ),
    **dict.fromkeys(
        ("books/store.py:listed_clients", "access/client_access.py:listing"),
        "up to a hundred connections, or the people of an agency, each by its index: planned as if they were more",
    ),
    **dict.fromkeys(
        ("books/bookings.py:of_document",),
        "the movements of a document are found among those of its account: an index by document would cost every import",
    ),
}
