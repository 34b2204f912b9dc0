-- The base line, as the 51 steps before it made it: what a database of that version holds, without rows of anybody.
SELECT pg_catalog.set_config('search_path', '', false);
CREATE FUNCTION public.recon_check_open() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM recon_matches WHERE organization_id = NEW.organization_id AND id = NEW.match_id) THEN
    RAISE EXCEPTION 'a match that stands gets no more lines';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION public.recon_check_sum() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF NEW.amount_minor IS DISTINCT FROM (SELECT SUM(amount_minor) FROM recon_lines
      WHERE organization_id = NEW.organization_id AND match_id = NEW.id)
    OR NEW.amount_minor IS DISTINCT FROM (SELECT amount_minor FROM banking_transactions
      WHERE account_id = NEW.account_id AND id = NEW.transaction_id AND status = 'posted') THEN
    RAISE EXCEPTION 'the lines of a match must sum to its transaction';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION public.recon_check_undo() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF OLD.undo_id IS NOT NULL THEN
    RAISE EXCEPTION 'recon_matches is append-only';
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION public.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE FUNCTION public.refuse_change_of_booked() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF OLD.id <= COALESCE((SELECT last_buchung FROM books_clients WHERE mandant = OLD.mandant), OLD.id) THEN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
  END IF;
  RETURN OLD;
END $$;
CREATE TABLE public.agency_clients (
    organization_id text NOT NULL,
    key_id text NOT NULL,
    client_organization_id text NOT NULL
);
CREATE TABLE public.api_keys (
    organization_id text NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    token_hash text NOT NULL,
    hint text NOT NULL,
    role text NOT NULL,
    is_agency smallint NOT NULL,
    created_by text,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    replaced_by text,
    scopes text,
    payment_limit_minor bigint,
    daily_limit_minor bigint,
    first_key_id text,
    CONSTRAINT api_keys_is_agency_check CHECK (((is_agency = 0) OR (is_agency = 1))),
    CONSTRAINT api_keys_role_check CHECK (((role = 'owner'::text) OR (role = 'admin'::text) OR (role = 'member'::text)))
);
CREATE TABLE public.api_tasks (
    organization_id text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    source text NOT NULL,
    actor text NOT NULL,
    status text NOT NULL,
    answer text NOT NULL,
    created_at bigint NOT NULL,
    finished_at bigint,
    lease_until bigint NOT NULL,
    CONSTRAINT api_tasks_status_check CHECK (((status = 'running'::text) OR (status = 'done'::text) OR (status = 'failed'::text)))
);
CREATE TABLE public.audit_log (
    organization_id text NOT NULL,
    id text NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    details text NOT NULL,
    request_id text,
    ip text
);
CREATE TABLE public.banking_accounts (
    organization_id text NOT NULL,
    id bigint NOT NULL,
    connection_id text NOT NULL,
    provider_ref text NOT NULL,
    iban text,
    name text NOT NULL,
    holder_name text,
    nature text NOT NULL,
    balance_minor bigint NOT NULL,
    currency_code text NOT NULL,
    can_hide smallint NOT NULL,
    posted bigint NOT NULL,
    pending bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    identity text,
    balance_known smallint DEFAULT 1 NOT NULL,
    CONSTRAINT banking_accounts_balance_known_check CHECK (((balance_known = 0) OR (balance_known = 1))),
    CONSTRAINT banking_accounts_can_hide_check CHECK (((can_hide = 0) OR (can_hide = 1)))
);
CREATE TABLE public.banking_connect_flows (
    organization_id text NOT NULL,
    pending_token text NOT NULL,
    provider text NOT NULL,
    api text NOT NULL,
    owner_user_id text,
    connection_id text,
    return_to text,
    custom_fields text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.banking_connections (
    organization_id text NOT NULL,
    id text NOT NULL,
    provider text NOT NULL,
    provider_ref text NOT NULL,
    api text NOT NULL,
    provider_code text NOT NULL,
    provider_name text NOT NULL,
    country_code text NOT NULL,
    logo_url text NOT NULL,
    display_name text,
    templates text NOT NULL,
    status text NOT NULL,
    owner_user_id text,
    automatic_refresh smallint NOT NULL,
    next_refresh_possible_at bigint NOT NULL,
    consent_expires_at bigint,
    error_class text,
    error_message text,
    refresh_type text NOT NULL,
    refresh_started_at bigint,
    last_automatic_at bigint,
    fetched_at bigint,
    announced_days bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT banking_connections_api_check1 CHECK (((api = 'partner'::text) OR (api = 'openbanking'::text))),
    CONSTRAINT banking_connections_automatic_refresh_check1 CHECK (((automatic_refresh = 0) OR (automatic_refresh = 1))),
    CONSTRAINT banking_connections_status_check1 CHECK (((status = 'active'::text) OR (status = 'inactive'::text) OR (status = 'disabled'::text) OR (status = 'pending'::text) OR (status = 'pending_connect'::text)))
);
CREATE TABLE public.banking_counters (
    organization_id text NOT NULL,
    number bigint NOT NULL,
    last_connection bigint NOT NULL,
    last_account bigint NOT NULL,
    last_transaction bigint NOT NULL,
    last_payment bigint NOT NULL,
    last_change bigint NOT NULL,
    last_order_file bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.banking_imports (
    organization_id text NOT NULL,
    id text NOT NULL,
    source text NOT NULL,
    sha256 text NOT NULL,
    actor text NOT NULL,
    status text NOT NULL,
    error text,
    report text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT banking_imports_status_check CHECK (((status = 'done'::text) OR (status = 'failed'::text)))
);
CREATE TABLE public.banking_inbox (
    provider text NOT NULL,
    delivery_id text NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL,
    attempts bigint NOT NULL,
    next_attempt_at bigint NOT NULL,
    last_error text,
    received_at bigint NOT NULL,
    applied_at bigint,
    kind text,
    CONSTRAINT banking_inbox_state_check CHECK (((state = 'received'::text) OR (state = 'applied'::text) OR (state = 'failed'::text)))
);
CREATE TABLE public.banking_interactions (
    organization_id text NOT NULL,
    pending_token text NOT NULL,
    token_hash text NOT NULL,
    language text,
    number bigint NOT NULL,
    sealed bytea,
    claimed_until bigint,
    next_poll_at bigint,
    polls bigint NOT NULL,
    outcome text,
    error_class text,
    error_message text,
    expires_at bigint NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT banking_interactions_outcome_check CHECK (((outcome = 'done'::text) OR (outcome = 'failed'::text)))
);
CREATE TABLE public.banking_order_file_payments (
    organization_id text NOT NULL,
    order_file_id bigint NOT NULL,
    payment_id bigint NOT NULL,
    instruction_id text NOT NULL
);
CREATE TABLE public.banking_order_files (
    organization_id text NOT NULL,
    id bigint NOT NULL,
    provider text NOT NULL,
    account_id bigint NOT NULL,
    message_id text NOT NULL,
    debtor_name text NOT NULL,
    payments bigint NOT NULL,
    amount_minor bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    discarded_at bigint,
    CONSTRAINT banking_order_files_amount_minor_check CHECK ((amount_minor > 0)),
    CONSTRAINT banking_order_files_payments_check CHECK ((payments > 0))
);
CREATE TABLE public.banking_payment_reports (
    organization_id text NOT NULL,
    payment_id bigint NOT NULL,
    "position" bigint NOT NULL,
    source text NOT NULL,
    status text,
    raw_provider_status text,
    error_class text,
    error_message text,
    outcome text NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.banking_payments (
    organization_id text NOT NULL,
    id bigint NOT NULL,
    provider text NOT NULL,
    provider_ref text,
    connection_id text NOT NULL,
    account_id bigint NOT NULL,
    provider_code text NOT NULL,
    provider_name text NOT NULL,
    status text NOT NULL,
    raw_provider_status text,
    error_class text,
    error_message text,
    template_identifier text NOT NULL,
    amount_minor bigint NOT NULL,
    currency_code text NOT NULL,
    creditor_name text NOT NULL,
    creditor_iban text NOT NULL,
    debtor_iban text NOT NULL,
    end_to_end_id text NOT NULL,
    description text NOT NULL,
    reference text,
    order_details text NOT NULL,
    custom_fields text,
    customer_ip_address text NOT NULL,
    payment_url text,
    expires_at bigint,
    payer_organization_id text NOT NULL,
    hold_id text,
    debit_settles smallint NOT NULL,
    idempotency_key text,
    next_poll_at bigint,
    polls bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    order_taken_at bigint,
    order_file_id bigint,
    first_key_id text,
    idempotency_fingerprint text,
    unsent smallint DEFAULT 0 NOT NULL,
    CONSTRAINT banking_payments_amount_minor_check CHECK ((amount_minor > 0)),
    CONSTRAINT banking_payments_debit_settles_check CHECK (((debit_settles = 0) OR (debit_settles = 1))),
    CONSTRAINT banking_payments_status_check CHECK (((status = 'initiated'::text) OR (status = 'initiated_info_required'::text) OR (status = 'authorizing'::text) OR (status = 'authorized'::text) OR (status = 'processing'::text) OR (status = 'executed'::text) OR (status = 'settled'::text) OR (status = 'failed'::text) OR (status = 'rejected'::text))),
    CONSTRAINT banking_payments_template_identifier_check CHECK (((template_identifier = 'SEPA'::text) OR (template_identifier = 'SEPA_INSTANT'::text))),
    CONSTRAINT banking_payments_unsent_check CHECK (((unsent = 0) OR (unsent = 1)))
);
CREATE TABLE public.banking_removals (
    provider text NOT NULL,
    provider_ref text NOT NULL,
    attempts bigint NOT NULL,
    next_attempt_at bigint NOT NULL
);
CREATE TABLE public.banking_removed_transactions (
    organization_id text NOT NULL,
    change_number bigint NOT NULL,
    account_id bigint NOT NULL,
    connection_id text NOT NULL,
    id bigint NOT NULL,
    first_change bigint NOT NULL,
    removed_at bigint NOT NULL
);
CREATE TABLE public.banking_statement_spans (
    account_id bigint NOT NULL,
    number bigint NOT NULL,
    opens_minor bigint NOT NULL,
    opens_on text NOT NULL,
    closes_minor bigint NOT NULL,
    closes_on text NOT NULL,
    begins_on text NOT NULL,
    ends_on text NOT NULL,
    first_number bigint,
    last_number bigint,
    last_id text NOT NULL
);
CREATE TABLE public.banking_statements (
    account_id bigint NOT NULL,
    "position" bigint NOT NULL,
    identity text NOT NULL,
    sha256 text NOT NULL,
    state text NOT NULL,
    closes_on text NOT NULL,
    entries bigint NOT NULL,
    source text NOT NULL,
    taken_at bigint NOT NULL,
    span bigint
);
CREATE TABLE public.banking_transactions (
    account_id bigint NOT NULL,
    id bigint NOT NULL,
    made_on text NOT NULL,
    amount_minor bigint NOT NULL,
    status text NOT NULL,
    provider_ref text,
    fingerprint text NOT NULL,
    statement text,
    end_to_end_id text,
    payment_id bigint,
    first_change bigint NOT NULL,
    last_change bigint NOT NULL,
    wire text NOT NULL,
    booked_on text,
    balance_minor bigint,
    CONSTRAINT banking_transactions_status_check CHECK (((status = 'posted'::text) OR (status = 'pending'::text)))
);
CREATE TABLE public.books_accounts (
    mandant bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    beschriftung text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_balances (
    edition bigint NOT NULL,
    jahr text NOT NULL COLLATE pg_catalog."C",
    konto text NOT NULL COLLATE pg_catalog."C",
    wire text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_batches (
    mandant bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    sha256 text NOT NULL COLLATE pg_catalog."C",
    bezeichnung text NOT NULL COLLATE pg_catalog."C",
    records bigint NOT NULL,
    created_at bigint NOT NULL,
    jahr text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    author text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    content text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    known bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    warnings bigint DEFAULT 0 NOT NULL,
    first_booking bigint DEFAULT 0 NOT NULL,
    last_booking bigint DEFAULT 0 NOT NULL,
    undoes text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    undone_by text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    protokoll text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_bookings (
    mandant bigint NOT NULL,
    id bigint NOT NULL,
    jahr text NOT NULL COLLATE pg_catalog."C",
    periode smallint NOT NULL,
    batch text NOT NULL COLLATE pg_catalog."C",
    umsatz bigint NOT NULL,
    soll smallint NOT NULL,
    waehrung text NOT NULL COLLATE pg_catalog."C",
    kurs text NOT NULL COLLATE pg_catalog."C",
    basis_umsatz bigint,
    konto text NOT NULL COLLATE pg_catalog."C",
    gegenkonto text NOT NULL COLLATE pg_catalog."C",
    bu_schluessel text NOT NULL COLLATE pg_catalog."C",
    belegdatum text NOT NULL COLLATE pg_catalog."C",
    belegfeld1 text NOT NULL COLLATE pg_catalog."C",
    belegfeld2 text NOT NULL COLLATE pg_catalog."C",
    skonto bigint NOT NULL,
    buchungstext text NOT NULL COLLATE pg_catalog."C",
    kost1 text NOT NULL COLLATE pg_catalog."C",
    kost2 text NOT NULL COLLATE pg_catalog."C",
    generalumkehr smallint NOT NULL,
    weitere text NOT NULL COLLATE pg_catalog."C",
    aufteilung text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT books_bookings_generalumkehr_check CHECK (((generalumkehr = 0) OR (generalumkehr = 1))),
    CONSTRAINT books_bookings_periode_check CHECK (((periode >= 0) AND (periode <= 14))),
    CONSTRAINT books_bookings_soll_check CHECK (((soll = 0) OR (soll = 1)))
);
CREATE TABLE public.books_carry_rests (
    edition bigint NOT NULL,
    jahr text NOT NULL COLLATE pg_catalog."C",
    konto text NOT NULL COLLATE pg_catalog."C",
    rest bigint NOT NULL
);
CREATE TABLE public.books_cash_books (
    mandant bigint NOT NULL,
    bezeichnung text NOT NULL COLLATE pg_catalog."C",
    konto text NOT NULL COLLATE pg_catalog."C",
    last_nummer bigint NOT NULL,
    last_hash text NOT NULL COLLATE pg_catalog."C",
    saldo bigint NOT NULL
);
CREATE TABLE public.books_cash_days (
    mandant bigint NOT NULL,
    kassenname text NOT NULL COLLATE pg_catalog."C",
    datum text NOT NULL COLLATE pg_catalog."C",
    bewegung bigint NOT NULL
);
CREATE TABLE public.books_cash_entries (
    mandant bigint NOT NULL,
    kassenname text NOT NULL COLLATE pg_catalog."C",
    nummer bigint NOT NULL,
    task text NOT NULL COLLATE pg_catalog."C",
    booking bigint NOT NULL,
    datum text NOT NULL COLLATE pg_catalog."C",
    betrag bigint NOT NULL,
    storno_von bigint,
    record text NOT NULL COLLATE pg_catalog."C",
    hash text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_clients (
    organization_id text NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL COLLATE pg_catalog."C",
    mandant bigint NOT NULL,
    bezeichnung text NOT NULL COLLATE pg_catalog."C",
    kontenrahmen text NOT NULL COLLATE pg_catalog."C",
    konto_laenge smallint NOT NULL,
    is_default smallint NOT NULL,
    last_buchung bigint NOT NULL,
    created_at bigint NOT NULL,
    edition bigint DEFAULT 0 NOT NULL,
    undone_from bigint DEFAULT 0 NOT NULL,
    undone_to bigint DEFAULT 0 NOT NULL,
    CONSTRAINT books_clients_is_default_check CHECK (((is_default = 0) OR (is_default = 1))),
    CONSTRAINT books_clients_konto_laenge_check CHECK (((konto_laenge >= 4) AND (konto_laenge <= 8)))
);
CREATE TABLE public.books_denied_rights (
    mandant bigint NOT NULL,
    bereich text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_document_types (
    mandant bigint NOT NULL,
    bezeichnung text NOT NULL COLLATE pg_catalog."C",
    kategorie text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_folders (
    mandant bigint NOT NULL,
    ordnertyp text NOT NULL COLLATE pg_catalog."C",
    bezeichnung text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT books_folders_ordnertyp_check CHECK (((ordnertyp = 'EINGANGSRECHNUNG'::text) OR (ordnertyp = 'AUSGANGSRECHNUNG'::text)))
);
CREATE TABLE public.books_item_moves (
    mandant bigint NOT NULL,
    belegdatum text NOT NULL COLLATE pg_catalog."C",
    booking bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    beleg text NOT NULL COLLATE pg_catalog."C",
    betrag bigint NOT NULL
);
CREATE TABLE public.books_item_years (
    edition bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    jahr text NOT NULL COLLATE pg_catalog."C",
    eb bigint NOT NULL,
    eb_text text NOT NULL COLLATE pg_catalog."C",
    bewegung bigint NOT NULL
);
CREATE TABLE public.books_items (
    edition bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    beleg text NOT NULL COLLATE pg_catalog."C",
    soll bigint NOT NULL,
    haben bigint NOT NULL,
    is_open smallint NOT NULL,
    belegdatum text NOT NULL COLLATE pg_catalog."C",
    buchungstext text NOT NULL COLLATE pg_catalog."C",
    steuer text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT books_items_is_open_check CHECK (((is_open = 0) OR (is_open = 1)))
);
CREATE TABLE public.books_left_editions (
    mandant bigint NOT NULL,
    edition bigint NOT NULL
);
CREATE TABLE public.books_open_accounts (
    edition bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    saldo bigint NOT NULL,
    wire text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_openings (
    edition bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    jahr text NOT NULL COLLATE pg_catalog."C",
    booking bigint NOT NULL,
    betrag bigint NOT NULL,
    gegenkonto text NOT NULL COLLATE pg_catalog."C",
    beleg text NOT NULL COLLATE pg_catalog."C",
    is_reversal smallint NOT NULL,
    is_twin smallint NOT NULL,
    CONSTRAINT books_openings_is_reversal_check CHECK (((is_reversal = 0) OR (is_reversal = 1))),
    CONSTRAINT books_openings_is_twin_check CHECK (((is_twin = 0) OR (is_twin = 1)))
);
CREATE TABLE public.books_partial_rows (
    mandant bigint NOT NULL,
    batch text NOT NULL COLLATE pg_catalog."C",
    digest text NOT NULL COLLATE pg_catalog."C",
    kopf text NOT NULL COLLATE pg_catalog."C",
    times bigint NOT NULL
);
CREATE TABLE public.books_payment_terms (
    mandant bigint NOT NULL,
    nummer bigint NOT NULL,
    wire text NOT NULL COLLATE pg_catalog."C",
    extf text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.books_periods (
    edition bigint NOT NULL,
    jahr text NOT NULL COLLATE pg_catalog."C",
    konto text NOT NULL COLLATE pg_catalog."C",
    periode smallint NOT NULL,
    soll bigint NOT NULL,
    haben bigint NOT NULL
);
CREATE TABLE public.books_person_history (
    mandant bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    replaced_at bigint NOT NULL
);
CREATE TABLE public.books_persons (
    mandant bigint NOT NULL,
    konto text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    record text NOT NULL COLLATE pg_catalog."C",
    extf text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    updated_at bigint
);
CREATE TABLE public.books_preparing (
    mandant bigint NOT NULL,
    batch text NOT NULL,
    source text NOT NULL,
    edition bigint NOT NULL,
    before bigint NOT NULL,
    ceiling bigint NOT NULL,
    is_copied smallint NOT NULL,
    carried text NOT NULL,
    lease_until bigint NOT NULL,
    undoes text DEFAULT ''::text NOT NULL,
    uncarried text DEFAULT ''::text NOT NULL,
    CONSTRAINT books_preparing_is_copied_check CHECK (((is_copied = 0) OR (is_copied = 1)))
);
CREATE TABLE public.books_receipt_filings (
    mandant bigint NOT NULL,
    task text NOT NULL COLLATE pg_catalog."C",
    platz bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    dateiname text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_receipts (
    mandant bigint NOT NULL,
    sha256 text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    task text NOT NULL COLLATE pg_catalog."C",
    dateiname text NOT NULL COLLATE pg_catalog."C",
    groesse bigint NOT NULL,
    mime_typ text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    content bytea NOT NULL
);
CREATE TABLE public.books_retaxed (
    mandant bigint NOT NULL,
    booking bigint NOT NULL,
    batch text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_subscriptions (
    mandant bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.books_tasks (
    mandant bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    meldungen text NOT NULL COLLATE pg_catalog."C",
    request_id text NOT NULL COLLATE pg_catalog."C",
    quelle text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
CREATE TABLE public.books_years (
    mandant bigint NOT NULL,
    jahr text NOT NULL COLLATE pg_catalog."C",
    ende text NOT NULL COLLATE pg_catalog."C",
    has_eb smallint NOT NULL,
    CONSTRAINT books_years_has_eb_check CHECK (((has_eb = 0) OR (has_eb = 1)))
);
CREATE TABLE public.counters (
    name text NOT NULL,
    value bigint NOT NULL
);
CREATE TABLE public.credit_accounts (
    organization_id text NOT NULL,
    available bigint NOT NULL,
    reserved bigint NOT NULL,
    spent bigint NOT NULL,
    lapsed bigint NOT NULL,
    granted bigint NOT NULL,
    last_line bigint NOT NULL,
    allocated bigint NOT NULL,
    next_lapse_at bigint,
    CONSTRAINT credit_accounts_available_check CHECK ((available >= 0)),
    CONSTRAINT credit_accounts_check CHECK ((granted = (((available + reserved) + spent) + lapsed))),
    CONSTRAINT credit_accounts_lapsed_check CHECK ((lapsed >= 0)),
    CONSTRAINT credit_accounts_reserved_check CHECK ((reserved >= 0)),
    CONSTRAINT credit_accounts_spent_check CHECK ((spent >= 0))
);
CREATE TABLE public.credit_grants (
    organization_id text NOT NULL,
    id text NOT NULL,
    amount bigint NOT NULL,
    remaining bigint NOT NULL,
    note text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    lapsed_at bigint,
    CONSTRAINT credit_grants_amount_check CHECK ((amount > 0)),
    CONSTRAINT credit_grants_check CHECK (((remaining >= 0) AND (remaining <= amount)))
);
CREATE TABLE public.credit_holds (
    organization_id text NOT NULL,
    id text NOT NULL,
    amount bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    request_id text NOT NULL,
    endpoint text NOT NULL,
    api_key_id text,
    quelle text NOT NULL,
    CONSTRAINT credit_holds_amount_check1 CHECK ((amount > 0))
);
CREATE TABLE public.credit_movements (
    organization_id text NOT NULL,
    line bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    from_pot text NOT NULL,
    to_pot text NOT NULL,
    amount bigint NOT NULL,
    available_after bigint NOT NULL,
    reserved_after bigint NOT NULL,
    reference text NOT NULL,
    request_id text NOT NULL,
    endpoint text NOT NULL,
    api_key_id text,
    quelle text NOT NULL,
    CONSTRAINT credit_movements_amount_check CHECK ((amount > 0)),
    CONSTRAINT credit_movements_kind_check CHECK (((kind = 'grant'::text) OR (kind = 'reserve'::text) OR (kind = 'confirm'::text) OR (kind = 'expire'::text) OR (kind = 'lapse'::text)))
);
CREATE TABLE public.dashboard_preferences (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    language text,
    theme text,
    shortcuts bigint DEFAULT 1 NOT NULL
);
CREATE TABLE public.enable_banking_sessions (
    organization_id text NOT NULL,
    ref text NOT NULL,
    pending_token text NOT NULL,
    bank_name text NOT NULL,
    bank_country text NOT NULL,
    psu_type text NOT NULL,
    accounts text NOT NULL,
    rest_until bigint NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE public.fints_dialogs (
    login text NOT NULL,
    holder text NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE public.fints_logins (
    organization_id text NOT NULL,
    ref text NOT NULL,
    sealed bytea NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE public.idempotency_keys (
    scope text NOT NULL,
    idempotency_key text NOT NULL,
    fingerprint text NOT NULL,
    state text NOT NULL,
    owner text NOT NULL,
    lease_until bigint NOT NULL,
    expires_at bigint NOT NULL,
    status bigint,
    answer bytea,
    organizations text DEFAULT ''::text NOT NULL,
    CONSTRAINT idempotency_keys_state_check CHECK (((state = 'running'::text) OR (state = 'done'::text)))
);
CREATE TABLE public.invitations (
    organization_id text NOT NULL,
    id text NOT NULL,
    email text NOT NULL,
    role text NOT NULL,
    token_hash text NOT NULL,
    status text NOT NULL,
    invited_by text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    settled_at bigint,
    CONSTRAINT invitations_role_check CHECK (((role = 'owner'::text) OR (role = 'admin'::text) OR (role = 'member'::text))),
    CONSTRAINT invitations_status_check CHECK (((status = 'pending'::text) OR (status = 'accepted'::text) OR (status = 'revoked'::text)))
);
CREATE TABLE public.job_leases (
    name text NOT NULL,
    owner text NOT NULL,
    lease_until bigint NOT NULL,
    next_at bigint NOT NULL,
    finished_at bigint,
    last_error text
);
CREATE TABLE public.ledger_connections (
    organization_id text NOT NULL,
    id text NOT NULL,
    bezeichnung text,
    provider text NOT NULL,
    status text NOT NULL,
    verbunden_seit bigint,
    erstellt_am bigint NOT NULL,
    CONSTRAINT ledger_connections_status_check CHECK (((status = 'pending'::text) OR (status = 'connected'::text) OR (status = 'expired'::text) OR (status = 'revoked'::text) OR (status = 'error'::text)))
);
CREATE TABLE public.mobility_customers (
    organization_id text NOT NULL,
    id text NOT NULL,
    provider text NOT NULL,
    customer_number bigint NOT NULL,
    mobility_customer_id text,
    name text NOT NULL,
    street text NOT NULL,
    postal_code text NOT NULL,
    city text NOT NULL,
    country_code text NOT NULL,
    email text,
    buyer_reference text,
    vat_id text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE public.mobility_documents (
    organization_id text NOT NULL,
    invoice_id text NOT NULL,
    kind text NOT NULL,
    file_name text NOT NULL,
    sha256 text NOT NULL,
    content bytea NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT mobility_documents_kind_check CHECK (((kind = 'pdf'::text) OR (kind = 'xml'::text)))
);
CREATE TABLE public.mobility_documents_due (
    organization_id text NOT NULL,
    invoice_id text NOT NULL,
    tries bigint DEFAULT 0 NOT NULL,
    busy_until bigint DEFAULT 0 NOT NULL,
    last_error text
);
CREATE TABLE public.mobility_invoice_lines (
    organization_id text NOT NULL,
    invoice_id text NOT NULL,
    "position" bigint NOT NULL,
    ticket_id text NOT NULL,
    reference text,
    product text NOT NULL,
    holder_reference text NOT NULL,
    valid_from text NOT NULL,
    valid_to text NOT NULL,
    price_in_cents bigint NOT NULL,
    discount_in_cents bigint NOT NULL,
    employer_share_in_cents bigint,
    vat_rate smallint NOT NULL,
    amount_in_cents bigint NOT NULL,
    net_in_cents bigint NOT NULL,
    credited_number text,
    credited_on text
);
CREATE TABLE public.mobility_invoice_sums (
    organization_id text NOT NULL,
    invoice_id text NOT NULL,
    vat_rate smallint NOT NULL,
    net_in_cents bigint NOT NULL,
    vat_in_cents bigint NOT NULL,
    rounding_in_cents bigint NOT NULL,
    amount_in_cents bigint NOT NULL,
    CONSTRAINT mobility_invoice_sums_check CHECK ((amount_in_cents = ((net_in_cents + vat_in_cents) + rounding_in_cents)))
);
CREATE TABLE public.mobility_invoices (
    organization_id text NOT NULL,
    id text NOT NULL,
    customer_id text NOT NULL,
    mobility_invoice_id text NOT NULL,
    invoice_number text NOT NULL,
    type_code bigint NOT NULL,
    amount_in_cents bigint NOT NULL,
    ticket_count bigint NOT NULL,
    issued_on text NOT NULL,
    due_on text,
    seller text NOT NULL,
    buyer text NOT NULL,
    invoiced_at bigint NOT NULL,
    created_at bigint NOT NULL,
    logo_sha256 text,
    CONSTRAINT mobility_invoices_ticket_count_check CHECK ((ticket_count > 0)),
    CONSTRAINT mobility_invoices_type_code_check CHECK (((type_code = 380) OR (type_code = 381)))
);
CREATE TABLE public.mobility_logos (
    organization_id text NOT NULL,
    sha256 text NOT NULL,
    media_type text NOT NULL,
    width bigint NOT NULL,
    height bigint NOT NULL,
    content bytea NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE public.mobility_numbers (
    organization_id text NOT NULL,
    series text NOT NULL,
    last_number bigint NOT NULL
);
CREATE TABLE public.mobility_sellers (
    organization_id text NOT NULL,
    record text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    logo_sha256 text
);
CREATE TABLE public.mobility_tickets (
    organization_id text NOT NULL,
    id text NOT NULL,
    customer_id text NOT NULL,
    reference text,
    product text NOT NULL,
    holder_reference text NOT NULL,
    valid_from text NOT NULL,
    valid_to text NOT NULL,
    price_in_cents bigint NOT NULL,
    discount_in_cents bigint NOT NULL,
    employer_share_in_cents bigint,
    vat_rate smallint NOT NULL,
    status text NOT NULL,
    invoice_id text,
    credit_invoice_id text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT mobility_tickets_check CHECK (((discount_in_cents >= 0) AND (discount_in_cents <= price_in_cents))),
    CONSTRAINT mobility_tickets_check1 CHECK ((valid_to >= valid_from)),
    CONSTRAINT mobility_tickets_employer_share_in_cents_check CHECK ((employer_share_in_cents >= 0)),
    CONSTRAINT mobility_tickets_price_in_cents_check CHECK ((price_in_cents >= 0)),
    CONSTRAINT mobility_tickets_status_check CHECK (((status = 'open'::text) OR (status = 'invoiced'::text) OR (status = 'cancelled'::text) OR (status = 'credited'::text))),
    CONSTRAINT mobility_tickets_vat_rate_check CHECK (((vat_rate = 0) OR (vat_rate = 7) OR (vat_rate = 19)))
);
CREATE TABLE public.organizations (
    id text NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    second_factor_required bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.password_resets (
    organization_id text NOT NULL,
    id text NOT NULL,
    user_id text NOT NULL,
    token_hash text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.recon_accounts (
    organization_id text NOT NULL,
    account_id bigint NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    sachkonto text NOT NULL,
    gebuehrenkonto text NOT NULL,
    transferkonto text NOT NULL,
    start_date text NOT NULL,
    bucht text NOT NULL,
    automatisch text NOT NULL,
    changed_by text NOT NULL,
    changed_at bigint NOT NULL,
    CONSTRAINT recon_accounts_bucht_check CHECK (((bucht = 'kanzlei'::text) OR (bucht = 'kontobahn'::text)))
);
CREATE TABLE public.recon_batch_matches (
    organization_id text NOT NULL,
    match_id text NOT NULL,
    is_undo smallint NOT NULL,
    batch_id text NOT NULL,
    CONSTRAINT recon_batch_matches_is_undo_check CHECK (((is_undo = 0) OR (is_undo = 1)))
);
CREATE TABLE public.recon_batches (
    organization_id text NOT NULL,
    id text NOT NULL,
    account_id bigint NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    bucht text NOT NULL,
    wire text NOT NULL,
    rows text NOT NULL,
    file_name text,
    sha256 text,
    content bytea,
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    CONSTRAINT recon_batches_bucht_check CHECK (((bucht = 'kanzlei'::text) OR (bucht = 'kontobahn'::text)))
);
CREATE TABLE public.recon_items (
    organization_id text NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    konto text NOT NULL,
    beleg text NOT NULL,
    pending_minor bigint NOT NULL,
    seen_minor bigint NOT NULL
);
CREATE TABLE public.recon_learned (
    organization_id text NOT NULL,
    id text NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    kind text NOT NULL,
    value text NOT NULL,
    konto text NOT NULL,
    times bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    CONSTRAINT recon_learned_kind_check CHECK (((kind = 'iban'::text) OR (kind = 'name'::text))),
    CONSTRAINT recon_learned_times_check CHECK ((times > 0))
);
CREATE TABLE public.recon_lines (
    organization_id text NOT NULL,
    match_id text NOT NULL,
    line bigint NOT NULL,
    kind text NOT NULL,
    konto text NOT NULL,
    beleg text NOT NULL,
    amount_minor bigint NOT NULL,
    open_minor bigint NOT NULL,
    CONSTRAINT recon_lines_check CHECK (((kind <> 'posten'::text) OR ((amount_minor > 0) AND (amount_minor <= open_minor)) OR ((amount_minor < 0) AND (amount_minor >= open_minor)))),
    CONSTRAINT recon_lines_kind_check CHECK (((kind = 'posten'::text) OR (kind = 'skonto'::text) OR (kind = 'gebuehr'::text) OR (kind = 'differenz'::text) OR (kind = 'akonto'::text) OR (kind = 'ruecklast'::text) OR (kind = 'transfer'::text) OR (kind = 'sachkonto'::text)))
);
CREATE TABLE public.recon_matches (
    organization_id text NOT NULL,
    id text NOT NULL,
    transaction_id bigint NOT NULL,
    account_id bigint NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    proposal_id text,
    evidence text NOT NULL,
    engine_version text NOT NULL,
    made_on text NOT NULL,
    amount_minor bigint NOT NULL,
    payer text NOT NULL,
    iban text NOT NULL,
    end_to_end_id text,
    mandate text,
    bank_reference text,
    made_by text NOT NULL,
    made_at bigint NOT NULL,
    undo_id text
);
CREATE TABLE public.recon_proposals (
    organization_id text NOT NULL,
    id text NOT NULL,
    transaction_id bigint NOT NULL,
    run_id text NOT NULL,
    place bigint NOT NULL,
    evidence text NOT NULL,
    acts smallint NOT NULL,
    score_tenths bigint NOT NULL,
    lines text NOT NULL,
    reasons text NOT NULL,
    engine_version text NOT NULL,
    state text NOT NULL,
    made_at bigint NOT NULL,
    decided_by text,
    decided_at bigint,
    CONSTRAINT recon_proposals_acts_check CHECK (((acts = 0) OR (acts = 1))),
    CONSTRAINT recon_proposals_state_check CHECK (((state = 'open'::text) OR (state = 'confirmed'::text) OR (state = 'rejected'::text) OR (state = 'replaced'::text)))
);
CREATE TABLE public.recon_rules (
    organization_id text NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    place bigint NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    text text NOT NULL,
    iban text NOT NULL,
    sign text NOT NULL,
    least_minor bigint,
    most_minor bigint,
    sachkonto text NOT NULL,
    CONSTRAINT recon_rules_sign_check CHECK (((sign = 'in'::text) OR (sign = 'out'::text) OR (sign = 'any'::text)))
);
CREATE TABLE public.recon_runs (
    organization_id text NOT NULL,
    id text NOT NULL,
    account_id bigint NOT NULL,
    connection_id text NOT NULL,
    client_id text NOT NULL,
    from_date text NOT NULL,
    to_date text NOT NULL,
    engine_version text NOT NULL,
    wire text NOT NULL,
    made_by text NOT NULL,
    made_at bigint NOT NULL
);
CREATE TABLE public.recon_transactions (
    organization_id text NOT NULL,
    id bigint NOT NULL,
    account_id bigint NOT NULL,
    state text NOT NULL,
    run_id text,
    changed_at bigint NOT NULL,
    CONSTRAINT recon_transactions_state_check1 CHECK (((state = 'open'::text) OR (state = 'proposed'::text) OR (state = 'matched'::text) OR (state = 'ignored'::text) OR (state = 'booked'::text)))
);
CREATE TABLE public.recon_undos (
    organization_id text NOT NULL,
    id text NOT NULL,
    match_id text NOT NULL,
    grund text NOT NULL,
    made_by text NOT NULL,
    made_at bigint NOT NULL
);
CREATE TABLE public.recovery_codes (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    code_hash text NOT NULL
);
CREATE TABLE public.request_hours (
    organization_id text NOT NULL,
    hour_at bigint NOT NULL,
    calls bigint NOT NULL,
    failed bigint NOT NULL
);
CREATE TABLE public.request_log (
    organization_id text NOT NULL,
    id bigint NOT NULL,
    at bigint NOT NULL,
    api_key_id text NOT NULL,
    quelle text NOT NULL,
    endpoint text NOT NULL,
    target text NOT NULL,
    status bigint NOT NULL,
    request_id text NOT NULL,
    credits bigint NOT NULL,
    microseconds bigint NOT NULL
);
CREATE TABLE public.request_logs (
    organization_id text NOT NULL,
    last_id bigint NOT NULL
);
CREATE TABLE public.sandbox_accounts (
    connection_ref text NOT NULL,
    ref text NOT NULL,
    "position" bigint NOT NULL,
    name text NOT NULL,
    nature text NOT NULL,
    iban text,
    holder_name text NOT NULL,
    currency_code text NOT NULL,
    balance_minor bigint NOT NULL,
    is_chosen smallint NOT NULL,
    bookings bigint NOT NULL,
    CONSTRAINT sandbox_accounts_is_chosen_check CHECK (((is_chosen = 0) OR (is_chosen = 1)))
);
CREATE TABLE public.sandbox_bookings (
    account_ref text NOT NULL,
    number bigint NOT NULL,
    ref text NOT NULL,
    made_on text NOT NULL,
    amount_minor bigint NOT NULL,
    status text NOT NULL,
    description text NOT NULL,
    mode text NOT NULL,
    category text NOT NULL,
    end_to_end_id text,
    extra text NOT NULL,
    CONSTRAINT sandbox_bookings_status_check CHECK (((status = 'posted'::text) OR (status = 'pending'::text)))
);
CREATE TABLE public.sandbox_clock (
    id smallint NOT NULL,
    ahead_microseconds bigint NOT NULL,
    CONSTRAINT sandbox_clock_id_check CHECK ((id = 1))
);
CREATE TABLE public.sandbox_connections (
    ref text NOT NULL,
    bank_code text NOT NULL,
    user_name text NOT NULL,
    status text NOT NULL,
    scopes text NOT NULL,
    consent_expires_at bigint NOT NULL,
    next_refresh_possible_at bigint NOT NULL,
    refreshes bigint NOT NULL,
    answer_at bigint,
    answer_token text,
    next_error_class text,
    next_error_message text,
    created_at bigint NOT NULL,
    ended_at bigint,
    CONSTRAINT sandbox_connections_status_check CHECK (((status = 'open'::text) OR (status = 'destroyed'::text)))
);
CREATE TABLE public.sandbox_deliveries (
    number bigint NOT NULL,
    id text NOT NULL,
    subject text NOT NULL,
    body bytea NOT NULL,
    state text NOT NULL,
    attempts bigint NOT NULL,
    next_attempt_at bigint NOT NULL,
    last_answer text,
    created_at bigint NOT NULL,
    CONSTRAINT sandbox_deliveries_state_check CHECK (((state = 'waiting'::text) OR (state = 'delivered'::text) OR (state = 'given_up'::text)))
);
CREATE TABLE public.sandbox_flows (
    token text NOT NULL,
    pending_token text NOT NULL,
    api text NOT NULL,
    bank_code text NOT NULL,
    is_bank_fixed smallint NOT NULL,
    scopes text NOT NULL,
    return_to text,
    renews text,
    step text NOT NULL,
    user_name text NOT NULL,
    wrong_entries bigint NOT NULL,
    error_class text,
    error_message text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    approval_at bigint,
    CONSTRAINT sandbox_flows_api_check CHECK (((api = 'partner'::text) OR (api = 'openbanking'::text))),
    CONSTRAINT sandbox_flows_is_bank_fixed_check CHECK (((is_bank_fixed = 0) OR (is_bank_fixed = 1))),
    CONSTRAINT sandbox_flows_step_check CHECK (((step = 'bank'::text) OR (step = 'login'::text) OR (step = 'tan'::text) OR (step = 'consent'::text) OR (step = 'failed'::text) OR (step = 'done'::text)))
);
CREATE TABLE public.sandbox_payments (
    ref text NOT NULL,
    token text NOT NULL,
    end_to_end_id text NOT NULL,
    connection_ref text NOT NULL,
    account_ref text NOT NULL,
    template_identifier text NOT NULL,
    amount_minor bigint NOT NULL,
    currency_code text NOT NULL,
    creditor_name text NOT NULL,
    creditor_iban text NOT NULL,
    debtor_iban text NOT NULL,
    description text NOT NULL,
    execute_on text,
    return_to text,
    plan text NOT NULL,
    "position" bigint NOT NULL,
    next_at bigint,
    status text NOT NULL,
    raw_status text NOT NULL,
    error_class text,
    error_message text,
    step text NOT NULL,
    wrong_entries bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    approval_at bigint,
    CONSTRAINT sandbox_payments_amount_minor_check CHECK ((amount_minor > 0)),
    CONSTRAINT sandbox_payments_step_check CHECK (((step = 'login'::text) OR (step = 'tan'::text) OR (step = 'confirm'::text) OR (step = 'done'::text)))
);
CREATE TABLE public.schema_migrations (
    version bigint NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at bigint NOT NULL
);
CREATE TABLE public.sessions (
    organization_id text NOT NULL,
    id text NOT NULL,
    user_id text NOT NULL,
    token_hash text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    ip text NOT NULL,
    device text DEFAULT ''::text NOT NULL,
    idle_until bigint,
    confirmed_at bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.sign_in_attempts (
    subject text NOT NULL,
    attempts bigint NOT NULL,
    next_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.sign_in_challenges (
    token_hash text NOT NULL,
    kind text NOT NULL,
    organization_id text,
    user_id text,
    value bytea NOT NULL,
    expires_at bigint NOT NULL
);
CREATE TABLE public.sign_in_places (
    organization_id text NOT NULL,
    user_id text NOT NULL,
    place text NOT NULL,
    last_at bigint NOT NULL
);
CREATE TABLE public.usage_counts (
    organization_id text NOT NULL,
    day text NOT NULL,
    endpoint text NOT NULL,
    api_key_id text NOT NULL,
    quelle text NOT NULL,
    calls bigint NOT NULL,
    failed bigint NOT NULL,
    credits bigint NOT NULL
);
CREATE TABLE public.user_factors (
    organization_id text NOT NULL,
    id text NOT NULL,
    user_id text NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    created_at bigint NOT NULL,
    last_used_at bigint,
    credential_id text,
    public_key bytea,
    counter bigint NOT NULL,
    secret bytea,
    CONSTRAINT user_factors_kind_check CHECK (((kind = 'totp'::text) OR (kind = 'passkey'::text)))
);
CREATE TABLE public.users (
    organization_id text NOT NULL,
    id text NOT NULL,
    email text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    password_hash text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT users_role_check CHECK (((role = 'owner'::text) OR (role = 'admin'::text) OR (role = 'member'::text)))
);
CREATE TABLE public.webhook_attempts (
    organization_id text NOT NULL,
    sequence bigint NOT NULL,
    receiver_id text NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    milliseconds bigint NOT NULL,
    status bigint,
    reason text
);
CREATE TABLE public.webhook_deliveries (
    organization_id text NOT NULL,
    sequence bigint NOT NULL,
    receiver_id text NOT NULL,
    subject text NOT NULL,
    state text NOT NULL,
    attempts bigint NOT NULL,
    tries bigint NOT NULL,
    due_at bigint NOT NULL,
    settled_at bigint,
    CONSTRAINT webhook_deliveries_state_check1 CHECK (((state = 'pending'::text) OR (state = 'delivered'::text) OR (state = 'failed'::text) OR (state = 'cancelled'::text)))
);
CREATE TABLE public.webhook_events (
    organization_id text NOT NULL,
    sequence bigint NOT NULL,
    id text NOT NULL,
    event text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    received_at bigint NOT NULL
);
CREATE TABLE public.webhook_lanes (
    organization_id text NOT NULL,
    receiver_id text NOT NULL,
    subject text NOT NULL,
    head bigint NOT NULL,
    next_at bigint NOT NULL,
    owner text
);
CREATE TABLE public.webhook_logs (
    organization_id text NOT NULL,
    last_sequence bigint NOT NULL
);
CREATE TABLE public.webhook_receivers (
    organization_id text NOT NULL,
    id text NOT NULL,
    url text,
    state text NOT NULL,
    events text,
    description text,
    secret bytea,
    previous_secret bytea,
    previous_until bigint,
    failing_since bigint,
    stopped_at bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    CONSTRAINT webhook_receivers_check CHECK (((url IS NULL) = (state = 'none'::text))),
    CONSTRAINT webhook_receivers_check1 CHECK (((url IS NULL) = (secret IS NULL))),
    CONSTRAINT webhook_receivers_state_check CHECK (((state = 'active'::text) OR (state = 'paused'::text) OR (state = 'gone'::text) OR (state = 'none'::text)))
);
INSERT INTO public.schema_migrations VALUES (1, 'platform', '2def0583076bcdfde0b3cbc1dc52411bcefd38a2288d77275ce6beff1c53c0d7', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (2, 'append_only', 'a075ac36a2f6d1f4ddd00b1eb1a1d3743da4952641727dd4a1bd98b802f86888', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (3, 'ledger_connections', 'c53fe6782186fc209f842b26a2b71e455c1c5c70386b5f8927f3379a563d0546', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (4, 'books', '7b9a09c469ed07ab73b4bf669ba6ae5b0192a984bb7e9caf10d50b348979d328', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (5, 'books_append_only', '52005b80017737472408bfa58b0b741a986fcdfa5ec383a4de4b97f066192852', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (6, 'books_answers', '8c9b366afb6fe80570192a4c5358dc703632c01af0bb2fe6763a77908d55f989', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (7, 'banking', 'bc00ebfd0483e42f76def1308ce8e7b8a296d67c31e59cd28dda8be6ea3f0cfb', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (8, 'sandbox', '7116b5c5efea31629000dd038547116f765fc4c6d6377ef73f7a9a3c640a7ccd', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (9, 'webhooks', 'c93205a9e7774ef9a9a75056becaed8ffe62ac1e1c0f59ce51b7b88379aaebe1', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (10, 'mobility', '0d56ee8576ed897bfed730a5e8a3cefa00a6e0bab47cb3a678f43aeef32672d9', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (11, 'mobility_append_only', 'd764dc453c9882421f5a7408b551ab3d56d179cd4286bfdd262d49a4b9b75716', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (12, 'tasks', 'c1a5fcab10accbf7757b429860012f35c8f196a3fbce06ec67676ff5e043c73c', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (13, 'books_splits', 'e9513d1c76a664299c961c1b348d18fc63eafd40967da54f63964d280dc312ea', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (14, 'books_openings', '2b6596b8785c0db70bb12e2ebbb273d4efa32778fc797c2a777ab70ce6e6b1ae', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (15, 'order_files', 'fcc4a488e10ddb98102607e6e2fc156159c027096f202aed959166cf847f0492', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (16, 'books_receipts', '94af3580af77083e0212a0b4c3a9fd70b4770874ea8110a528c38674624a2bd4', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (17, 'books_cash_accounts', '2acb4357347ebdd3887bd59e84d4f3a29a35a1366c6d265d705888818bde261d', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (18, 'statement_spans', '09b808f6ab39eb073d7c27a7d194ab83326e767d38d0abaa63c674dad32a683a', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (19, 'statement_bookings', '2010e34b1c48792bbf1b3c1f7a9775c27a8b5ba426594d3398086ac7224cc8e0', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (20, 'batches', 'de2ffd73612afff2b90dfbcafb10e33f0b09e59c498e4e17baf5bb9e4693102e', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (21, 'statement_imports', '0e202218a276a8b7e011a91ec7a1ec756d0a447ac9391923dce76066a12fc616', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (22, 'several_orders', '663837cce5a2cb1c0f3ccf7a9cfdf81e3fee04c040f75476eb0cdbf15521ab6e', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (23, 'browser_sessions', '14bd96cd26771b81bb4aba26bccc57c7ef2bb36601dff9880eea74b648ddf241', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (24, 'sandbox_approvals', 'cfca1a5c362e6da12857448fe76ca9f3129a199674f815e083e051711746a625', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (25, 'key_rights', '8a701f35d0605aee59eea4d2f33beec57bfe03da9561113f370e586d4ffaaec2', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (26, 'second_factors', '9b0d3e70bf555620faa3723968f05b134589fc81eb3f19e8d850c0df4296cce4', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (27, 'sign_in', 'e9b1aec251fc538c6bd4240ef030e730f2fe34480f95f1e1c5ef17bda4cc04ff', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (28, 'webhook_receivers', '0a901d816728422f0dcb14c5172a32fa51fbc23eda417ceb7a627d3452000fc3', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (29, 'payment_term_rows', '4259dfabc53fa0a855e0fe7e3dc8c86ca26968474480e40408cb8c633e5732fe', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (30, 'document_tries', 'b26f319764f52f181718c530f9dee40dcf4f35e4c014e2548e93cbd118e1487d', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (31, 'claims', 'adaca8eaca8495b0ea5a6eea1de260267560dac6c22c2fd3ce5db59e5b3e657d', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (32, 'owners', '833bc27eff132f41d25b69c685c7c4f7e8c053d23eaa4ba69d4626a0f3debe81', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (33, 'request_log', '25be50b7bee517c9d6ebbaf7dd2186154d78ad1ea70567ff8d6a27ef5d04b6c7', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (34, 'books_by_account', '91b929bc36f7a1a364e103314fca5285a3e1b180379ad92151ad8f0b932a142c', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (35, 'failed_deliveries', '9fed170b4acc83e552454b6a46add3e68675c73f58eda38f86bb16ec15e8ece3', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (36, 'mobility_logos', '7092a7aeaf925eb88fdb28d6ebadc8af8cc90a747c441a06a5d2d7ee36f30f21', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (37, 'bank_providers', '66c0f564b023007452cc4255f82cd5c3ec6a32c2dbc576b7f10692883f375c17', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (38, 'bank_interactions', '62bad713ccd5ac6aa865bf220964f1d383236194082053d8a48532f9fce8c600', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (39, 'reconciliation', 'e0018d2c09a2966ae4e742d5c48a0284695763c19dbb006c873fa9ea5005ae38', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (40, 'reconciliation_adds_up', '4ed7dd29d9734fc931cc5c7cfb14c4d4275690e1ebaa165c1fd4c4936dd51f02', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (41, 'fints', 'e59be22dda41f310360d162224dd0a0916d3cc8e7c7cda42055875f8b19b6cca', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (42, 'bank_returns', 'd7d806daaed17885e1057605902de1b175279d51d43f3c5d38a06c4a0104e292', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (43, 'books_due_dates', 'a708fc34950c5017bc6f6576a4c883b94a363c80bebe677ba26c0d2b923e1d59', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (44, 'enable_banking', '894ced487977dacd198d194d39f31ead6f70cb12aa97997f9b915421d347ef10', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (45, 'reconciliation_batches', '3182796d45c35143648ceb35428c24d7c43358ef484cd237b79d248cb3a3ee6c', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (46, 'reconciliation_booked', 'fbdda6142971f8cece4f4cd215329ea9c823544d714d466c1b531949ef994a75', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (47, 'untold_balances', 'eb2d46d711aadeec081c26b5fbf18aef54e3620225df5fe521b212843d95a363', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (48, 'unsent_payments', 'c23c39c44a8896def7efc1a29d4049c0aeb7a4cfd21b1f4db0381b5fb0214af8', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (49, 'books_editions', 'ce8c3c1cfc6583e8978223573ed2d08eb54d71b6a3898c85a4220c505ce8b7d5', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (50, 'open_holds', '4d796d837b7c0cd6342ec11f85181d3f72d910da89285758d432fb0d0ef75285', 1794893614848210);
INSERT INTO public.schema_migrations VALUES (51, 'undone_in_slices', 'd53430337d3b11b1bcb20129e36987651b590b087a08fdffc02dbeeef2000d0d', 1794893614848210);
ALTER TABLE ONLY public.agency_clients
    ADD CONSTRAINT agency_clients_pkey PRIMARY KEY (organization_id, key_id, client_organization_id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.api_tasks
    ADD CONSTRAINT api_tasks_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_accounts
    ADD CONSTRAINT banking_accounts_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_connect_flows
    ADD CONSTRAINT banking_connect_flows_pkey PRIMARY KEY (organization_id, pending_token);
ALTER TABLE ONLY public.banking_connections
    ADD CONSTRAINT banking_connections_pkey1 PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_counters
    ADD CONSTRAINT banking_counters_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY public.banking_imports
    ADD CONSTRAINT banking_imports_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_inbox
    ADD CONSTRAINT banking_inbox_pkey PRIMARY KEY (provider, delivery_id);
ALTER TABLE ONLY public.banking_interactions
    ADD CONSTRAINT banking_interactions_pkey PRIMARY KEY (organization_id, pending_token);
ALTER TABLE ONLY public.banking_order_file_payments
    ADD CONSTRAINT banking_order_file_payments_pkey PRIMARY KEY (organization_id, order_file_id, payment_id);
ALTER TABLE ONLY public.banking_order_files
    ADD CONSTRAINT banking_order_files_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_payment_reports
    ADD CONSTRAINT banking_payment_reports_pkey PRIMARY KEY (organization_id, payment_id, "position");
ALTER TABLE ONLY public.banking_payments
    ADD CONSTRAINT banking_payments_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.banking_removals
    ADD CONSTRAINT banking_removals_pkey PRIMARY KEY (provider, provider_ref);
ALTER TABLE ONLY public.banking_removed_transactions
    ADD CONSTRAINT banking_removed_transactions_pkey PRIMARY KEY (organization_id, change_number);
ALTER TABLE ONLY public.banking_statement_spans
    ADD CONSTRAINT banking_statement_spans_pkey PRIMARY KEY (account_id, number);
ALTER TABLE ONLY public.banking_statements
    ADD CONSTRAINT banking_statements_pkey PRIMARY KEY (account_id, "position");
ALTER TABLE ONLY public.banking_transactions
    ADD CONSTRAINT banking_transactions_pkey PRIMARY KEY (account_id, id);
ALTER TABLE ONLY public.books_accounts
    ADD CONSTRAINT books_accounts_pkey PRIMARY KEY (mandant, konto);
ALTER TABLE ONLY public.books_balances
    ADD CONSTRAINT books_balances_pkey PRIMARY KEY (edition, jahr, konto);
ALTER TABLE ONLY public.books_batches
    ADD CONSTRAINT books_batches_pkey PRIMARY KEY (mandant, id);
ALTER TABLE ONLY public.books_bookings
    ADD CONSTRAINT books_bookings_pkey PRIMARY KEY (mandant, id);
ALTER TABLE ONLY public.books_carry_rests
    ADD CONSTRAINT books_carry_rests_pkey PRIMARY KEY (edition, jahr, konto);
ALTER TABLE ONLY public.books_cash_books
    ADD CONSTRAINT books_cash_books_pkey PRIMARY KEY (mandant, bezeichnung);
ALTER TABLE ONLY public.books_cash_days
    ADD CONSTRAINT books_cash_days_pkey PRIMARY KEY (mandant, kassenname, datum);
ALTER TABLE ONLY public.books_cash_entries
    ADD CONSTRAINT books_cash_entries_pkey PRIMARY KEY (mandant, kassenname, nummer);
ALTER TABLE ONLY public.books_clients
    ADD CONSTRAINT books_clients_pkey PRIMARY KEY (organization_id, connection_id, client_id);
ALTER TABLE ONLY public.books_denied_rights
    ADD CONSTRAINT books_denied_rights_pkey PRIMARY KEY (mandant, bereich);
ALTER TABLE ONLY public.books_document_types
    ADD CONSTRAINT books_document_types_pkey PRIMARY KEY (mandant, bezeichnung);
ALTER TABLE ONLY public.books_folders
    ADD CONSTRAINT books_folders_pkey PRIMARY KEY (mandant, ordnertyp, bezeichnung);
ALTER TABLE ONLY public.books_item_moves
    ADD CONSTRAINT books_item_moves_pkey PRIMARY KEY (mandant, belegdatum, booking, konto);
ALTER TABLE ONLY public.books_item_years
    ADD CONSTRAINT books_item_years_pkey PRIMARY KEY (edition, konto, jahr);
ALTER TABLE ONLY public.books_items
    ADD CONSTRAINT books_items_pkey PRIMARY KEY (edition, konto, beleg);
ALTER TABLE ONLY public.books_left_editions
    ADD CONSTRAINT books_left_editions_pkey PRIMARY KEY (mandant, edition);
ALTER TABLE ONLY public.books_open_accounts
    ADD CONSTRAINT books_open_accounts_pkey PRIMARY KEY (edition, konto);
ALTER TABLE ONLY public.books_openings
    ADD CONSTRAINT books_openings_pkey PRIMARY KEY (edition, konto, jahr, booking);
ALTER TABLE ONLY public.books_partial_rows
    ADD CONSTRAINT books_partial_rows_pkey PRIMARY KEY (mandant, batch, digest);
ALTER TABLE ONLY public.books_payment_terms
    ADD CONSTRAINT books_payment_terms_pkey PRIMARY KEY (mandant, nummer);
ALTER TABLE ONLY public.books_periods
    ADD CONSTRAINT books_periods_pkey PRIMARY KEY (edition, jahr, konto, periode);
ALTER TABLE ONLY public.books_person_history
    ADD CONSTRAINT books_person_history_pkey PRIMARY KEY (mandant, konto, version);
ALTER TABLE ONLY public.books_persons
    ADD CONSTRAINT books_persons_pkey PRIMARY KEY (mandant, konto);
ALTER TABLE ONLY public.books_preparing
    ADD CONSTRAINT books_preparing_pkey PRIMARY KEY (mandant);
ALTER TABLE ONLY public.books_receipt_filings
    ADD CONSTRAINT books_receipt_filings_pkey PRIMARY KEY (mandant, task, platz);
ALTER TABLE ONLY public.books_receipts
    ADD CONSTRAINT books_receipts_pkey PRIMARY KEY (mandant, sha256);
ALTER TABLE ONLY public.books_retaxed
    ADD CONSTRAINT books_retaxed_pkey PRIMARY KEY (mandant, booking);
ALTER TABLE ONLY public.books_subscriptions
    ADD CONSTRAINT books_subscriptions_pkey PRIMARY KEY (mandant, name);
ALTER TABLE ONLY public.books_tasks
    ADD CONSTRAINT books_tasks_pkey PRIMARY KEY (mandant, id);
ALTER TABLE ONLY public.books_years
    ADD CONSTRAINT books_years_pkey PRIMARY KEY (mandant, jahr);
ALTER TABLE ONLY public.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.credit_accounts
    ADD CONSTRAINT credit_accounts_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY public.credit_grants
    ADD CONSTRAINT credit_grants_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.credit_holds
    ADD CONSTRAINT credit_holds_pkey1 PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.credit_movements
    ADD CONSTRAINT credit_movements_pkey PRIMARY KEY (organization_id, line);
ALTER TABLE ONLY public.dashboard_preferences
    ADD CONSTRAINT dashboard_preferences_pkey PRIMARY KEY (organization_id, user_id);
ALTER TABLE ONLY public.enable_banking_sessions
    ADD CONSTRAINT enable_banking_sessions_pkey PRIMARY KEY (organization_id, ref);
ALTER TABLE ONLY public.fints_dialogs
    ADD CONSTRAINT fints_dialogs_pkey PRIMARY KEY (login);
ALTER TABLE ONLY public.fints_logins
    ADD CONSTRAINT fints_logins_pkey PRIMARY KEY (organization_id, ref);
ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (scope, idempotency_key);
ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.job_leases
    ADD CONSTRAINT job_leases_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.ledger_connections
    ADD CONSTRAINT ledger_connections_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.mobility_customers
    ADD CONSTRAINT mobility_customers_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.mobility_documents_due
    ADD CONSTRAINT mobility_documents_due_pkey PRIMARY KEY (organization_id, invoice_id);
ALTER TABLE ONLY public.mobility_documents
    ADD CONSTRAINT mobility_documents_pkey PRIMARY KEY (organization_id, invoice_id, kind);
ALTER TABLE ONLY public.mobility_invoice_lines
    ADD CONSTRAINT mobility_invoice_lines_pkey PRIMARY KEY (organization_id, invoice_id, "position");
ALTER TABLE ONLY public.mobility_invoice_sums
    ADD CONSTRAINT mobility_invoice_sums_pkey PRIMARY KEY (organization_id, invoice_id, vat_rate);
ALTER TABLE ONLY public.mobility_invoices
    ADD CONSTRAINT mobility_invoices_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.mobility_logos
    ADD CONSTRAINT mobility_logos_pkey PRIMARY KEY (organization_id, sha256);
ALTER TABLE ONLY public.mobility_numbers
    ADD CONSTRAINT mobility_numbers_pkey PRIMARY KEY (organization_id, series);
ALTER TABLE ONLY public.mobility_sellers
    ADD CONSTRAINT mobility_sellers_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY public.mobility_tickets
    ADD CONSTRAINT mobility_tickets_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.organizations
    ADD CONSTRAINT organizations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.password_resets
    ADD CONSTRAINT password_resets_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_accounts
    ADD CONSTRAINT recon_accounts_pkey PRIMARY KEY (organization_id, account_id);
ALTER TABLE ONLY public.recon_batch_matches
    ADD CONSTRAINT recon_batch_matches_pkey PRIMARY KEY (organization_id, match_id, is_undo);
ALTER TABLE ONLY public.recon_batches
    ADD CONSTRAINT recon_batches_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_items
    ADD CONSTRAINT recon_items_pkey PRIMARY KEY (organization_id, connection_id, client_id, konto, beleg);
ALTER TABLE ONLY public.recon_learned
    ADD CONSTRAINT recon_learned_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_lines
    ADD CONSTRAINT recon_lines_pkey PRIMARY KEY (organization_id, match_id, line);
ALTER TABLE ONLY public.recon_matches
    ADD CONSTRAINT recon_matches_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_proposals
    ADD CONSTRAINT recon_proposals_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_rules
    ADD CONSTRAINT recon_rules_pkey PRIMARY KEY (organization_id, connection_id, client_id, place);
ALTER TABLE ONLY public.recon_runs
    ADD CONSTRAINT recon_runs_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_transactions
    ADD CONSTRAINT recon_transactions_pkey1 PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recon_undos
    ADD CONSTRAINT recon_undos_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.recovery_codes
    ADD CONSTRAINT recovery_codes_pkey PRIMARY KEY (organization_id, user_id, code_hash);
ALTER TABLE ONLY public.request_hours
    ADD CONSTRAINT request_hours_pkey PRIMARY KEY (organization_id, hour_at);
ALTER TABLE ONLY public.request_log
    ADD CONSTRAINT request_log_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.request_logs
    ADD CONSTRAINT request_logs_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY public.sandbox_accounts
    ADD CONSTRAINT sandbox_accounts_pkey PRIMARY KEY (connection_ref, ref);
ALTER TABLE ONLY public.sandbox_bookings
    ADD CONSTRAINT sandbox_bookings_pkey PRIMARY KEY (account_ref, number);
ALTER TABLE ONLY public.sandbox_clock
    ADD CONSTRAINT sandbox_clock_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sandbox_connections
    ADD CONSTRAINT sandbox_connections_pkey PRIMARY KEY (ref);
ALTER TABLE ONLY public.sandbox_deliveries
    ADD CONSTRAINT sandbox_deliveries_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.sandbox_flows
    ADD CONSTRAINT sandbox_flows_pkey PRIMARY KEY (token);
ALTER TABLE ONLY public.sandbox_payments
    ADD CONSTRAINT sandbox_payments_pkey PRIMARY KEY (ref);
ALTER TABLE ONLY public.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.sign_in_attempts
    ADD CONSTRAINT sign_in_attempts_pkey PRIMARY KEY (subject);
ALTER TABLE ONLY public.sign_in_challenges
    ADD CONSTRAINT sign_in_challenges_pkey PRIMARY KEY (token_hash);
ALTER TABLE ONLY public.sign_in_places
    ADD CONSTRAINT sign_in_places_pkey PRIMARY KEY (organization_id, user_id, place);
ALTER TABLE ONLY public.usage_counts
    ADD CONSTRAINT usage_counts_pkey PRIMARY KEY (organization_id, day, endpoint, api_key_id, quelle);
ALTER TABLE ONLY public.user_factors
    ADD CONSTRAINT user_factors_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (organization_id, id);
ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_pkey1 PRIMARY KEY (organization_id, sequence, receiver_id, number);
ALTER TABLE ONLY public.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey1 PRIMARY KEY (organization_id, sequence, receiver_id);
ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_pkey PRIMARY KEY (organization_id, sequence);
ALTER TABLE ONLY public.webhook_lanes
    ADD CONSTRAINT webhook_lanes_pkey1 PRIMARY KEY (organization_id, receiver_id, subject);
ALTER TABLE ONLY public.webhook_logs
    ADD CONSTRAINT webhook_logs_pkey PRIMARY KEY (organization_id);
ALTER TABLE ONLY public.webhook_receivers
    ADD CONSTRAINT webhook_receivers_pkey PRIMARY KEY (organization_id, id);
CREATE UNIQUE INDEX api_keys_by_token ON public.api_keys USING btree (token_hash);
CREATE INDEX api_tasks_finished ON public.api_tasks USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX api_tasks_running ON public.api_tasks USING btree (lease_until) WHERE (status = 'running'::text);
CREATE UNIQUE INDEX banking_accounts_by_provider ON public.banking_accounts USING btree (organization_id, connection_id, provider_ref);
CREATE INDEX banking_connect_flows_by_age ON public.banking_connect_flows USING btree (created_at);
CREATE UNIQUE INDEX banking_connect_flows_by_token ON public.banking_connect_flows USING btree (pending_token);
CREATE INDEX banking_connect_flows_by_user ON public.banking_connect_flows USING btree (owner_user_id) WHERE (owner_user_id IS NOT NULL);
CREATE INDEX banking_connections_by_owner ON public.banking_connections USING btree (organization_id, owner_user_id);
CREATE UNIQUE INDEX banking_connections_by_provider ON public.banking_connections USING btree (provider, provider_ref) WHERE (provider_ref <> ''::text);
CREATE INDEX banking_connections_by_user ON public.banking_connections USING btree (owner_user_id) WHERE (owner_user_id IS NOT NULL);
CREATE INDEX banking_connections_reconnecting ON public.banking_connections USING btree (refresh_started_at) WHERE (status = 'pending'::text);
CREATE INDEX banking_connections_unfinished ON public.banking_connections USING btree (created_at) WHERE (status = 'pending_connect'::text);
CREATE UNIQUE INDEX banking_counters_by_number ON public.banking_counters USING btree (number);
CREATE INDEX banking_imports_by_age ON public.banking_imports USING btree (organization_id, created_at);
CREATE INDEX banking_inbox_by_age ON public.banking_inbox USING btree (received_at);
CREATE INDEX banking_inbox_waiting ON public.banking_inbox USING btree (next_attempt_at) WHERE (state = 'received'::text);
CREATE INDEX banking_interactions_by_age ON public.banking_interactions USING btree (expires_at);
CREATE UNIQUE INDEX banking_interactions_by_token ON public.banking_interactions USING btree (token_hash);
CREATE UNIQUE INDEX banking_order_files_by_message ON public.banking_order_files USING btree (organization_id, message_id);
CREATE INDEX banking_payments_by_age ON public.banking_payments USING btree (organization_id, created_at);
CREATE UNIQUE INDEX banking_payments_by_end_to_end ON public.banking_payments USING btree (organization_id, end_to_end_id);
CREATE INDEX banking_payments_by_key ON public.banking_payments USING btree (payer_organization_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX banking_payments_by_maker ON public.banking_payments USING btree (payer_organization_id, first_key_id, created_at) WHERE (first_key_id IS NOT NULL);
CREATE UNIQUE INDEX banking_payments_by_provider ON public.banking_payments USING btree (provider, provider_ref) WHERE (provider_ref IS NOT NULL);
CREATE INDEX banking_payments_to_poll ON public.banking_payments USING btree (next_poll_at) WHERE (next_poll_at IS NOT NULL);
CREATE INDEX banking_removals_waiting ON public.banking_removals USING btree (next_attempt_at);
CREATE INDEX banking_statement_spans_by_day ON public.banking_statement_spans USING btree (account_id, ends_on);
CREATE UNIQUE INDEX banking_statements_by_identity ON public.banking_statements USING btree (account_id, identity);
CREATE INDEX banking_transactions_by_change ON public.banking_transactions USING btree (account_id, last_change);
CREATE INDEX banking_transactions_by_day ON public.banking_transactions USING btree (account_id, made_on, id);
CREATE INDEX banking_transactions_by_end_to_end ON public.banking_transactions USING btree (account_id, end_to_end_id) WHERE (end_to_end_id IS NOT NULL);
CREATE INDEX banking_transactions_by_ref ON public.banking_transactions USING btree (account_id, provider_ref) WHERE (provider_ref IS NOT NULL);
CREATE INDEX banking_transactions_pending ON public.banking_transactions USING btree (account_id, amount_minor) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX books_batches_by_content ON public.books_batches USING btree (mandant, content) WHERE ((content <> ''::text) AND (undone_by = ''::text));
CREATE INDEX books_batches_by_sha256 ON public.books_batches USING btree (mandant, sha256);
CREATE INDEX books_bookings_by_day ON public.books_bookings USING btree (mandant, belegdatum);
CREATE INDEX books_bookings_by_gegenkonto ON public.books_bookings USING btree (mandant, jahr, gegenkonto, id);
CREATE INDEX books_bookings_by_konto ON public.books_bookings USING btree (mandant, jahr, konto, id);
CREATE INDEX books_bookings_by_year ON public.books_bookings USING btree (mandant, jahr, id);
CREATE INDEX books_bookings_due ON public.books_bookings USING btree (belegfeld1, mandant) WHERE (weitere ~~ '%"117":%'::text);
CREATE INDEX books_cash_entries_by_task ON public.books_cash_entries USING btree (mandant, task);
CREATE INDEX books_clients_by_connection ON public.books_clients USING btree (connection_id, client_id);
CREATE UNIQUE INDEX books_clients_by_number ON public.books_clients USING btree (mandant);
CREATE INDEX books_items_open ON public.books_items USING btree (edition, is_open, konto, beleg, soll, haben, belegdatum, buchungstext) WHERE (is_open = 1);
CREATE INDEX books_receipt_filings_by_content ON public.books_receipt_filings USING btree (mandant, sha256);
CREATE UNIQUE INDEX books_receipts_by_id ON public.books_receipts USING btree (mandant, id);
CREATE INDEX credit_accounts_by_lapse ON public.credit_accounts USING btree (next_lapse_at) WHERE (next_lapse_at IS NOT NULL);
CREATE INDEX credit_holds_by_expiry ON public.credit_holds USING btree (expires_at);
CREATE UNIQUE INDEX enable_banking_sessions_by_ref ON public.enable_banking_sessions USING btree (ref);
CREATE UNIQUE INDEX enable_banking_sessions_by_token ON public.enable_banking_sessions USING btree (pending_token);
CREATE UNIQUE INDEX fints_logins_by_ref ON public.fints_logins USING btree (ref);
CREATE INDEX idempotency_keys_by_expiry ON public.idempotency_keys USING btree (expires_at);
CREATE UNIQUE INDEX invitations_by_token ON public.invitations USING btree (token_hash);
CREATE UNIQUE INDEX mobility_customers_by_number ON public.mobility_customers USING btree (organization_id, customer_number);
CREATE UNIQUE INDEX mobility_customers_by_platform_id ON public.mobility_customers USING btree (organization_id, mobility_customer_id);
CREATE INDEX mobility_invoices_by_day ON public.mobility_invoices USING btree (organization_id, issued_on, id);
CREATE INDEX mobility_invoices_by_logo ON public.mobility_invoices USING btree (organization_id, logo_sha256) WHERE (logo_sha256 IS NOT NULL);
CREATE UNIQUE INDEX mobility_invoices_by_number ON public.mobility_invoices USING btree (organization_id, invoice_number);
CREATE UNIQUE INDEX mobility_tickets_by_reference ON public.mobility_tickets USING btree (organization_id, customer_id, reference);
CREATE INDEX mobility_tickets_of_customer ON public.mobility_tickets USING btree (organization_id, customer_id, valid_from, id);
CREATE INDEX mobility_tickets_to_bill ON public.mobility_tickets USING btree (organization_id, customer_id) WHERE ((status = 'open'::text) OR (status = 'cancelled'::text));
CREATE UNIQUE INDEX password_resets_by_token ON public.password_resets USING btree (token_hash);
CREATE INDEX password_resets_by_user ON public.password_resets USING btree (organization_id, user_id);
CREATE INDEX recon_batches_by_account ON public.recon_batches USING btree (organization_id, account_id, id);
CREATE UNIQUE INDEX recon_learned_by_value ON public.recon_learned USING btree (organization_id, connection_id, client_id, kind, value, konto);
CREATE UNIQUE INDEX recon_lines_by_item ON public.recon_lines USING btree (organization_id, match_id, konto, beleg) WHERE (kind = 'posten'::text);
CREATE INDEX recon_lines_of_item ON public.recon_lines USING btree (organization_id, konto, beleg);
CREATE INDEX recon_matches_by_account ON public.recon_matches USING btree (organization_id, account_id, made_on);
CREATE INDEX recon_matches_by_client ON public.recon_matches USING btree (organization_id, connection_id, client_id, id);
CREATE INDEX recon_matches_by_transaction ON public.recon_matches USING btree (organization_id, transaction_id, id);
CREATE UNIQUE INDEX recon_matches_live ON public.recon_matches USING btree (organization_id, transaction_id) WHERE (undo_id IS NULL);
CREATE INDEX recon_proposals_by_transaction ON public.recon_proposals USING btree (organization_id, transaction_id, state, place);
CREATE INDEX recon_transactions_by_state ON public.recon_transactions USING btree (organization_id, account_id, state, id);
CREATE UNIQUE INDEX recon_undos_by_match ON public.recon_undos USING btree (organization_id, match_id);
CREATE INDEX sandbox_accounts_by_iban ON public.sandbox_accounts USING btree (iban) WHERE (iban IS NOT NULL);
CREATE UNIQUE INDEX sandbox_accounts_by_ref ON public.sandbox_accounts USING btree (ref);
CREATE INDEX sandbox_bookings_by_day ON public.sandbox_bookings USING btree (account_ref, made_on);
CREATE INDEX sandbox_bookings_pending ON public.sandbox_bookings USING btree (account_ref) WHERE (status = 'pending'::text);
CREATE INDEX sandbox_connections_ended ON public.sandbox_connections USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX sandbox_connections_to_answer ON public.sandbox_connections USING btree (answer_at) WHERE (answer_at IS NOT NULL);
CREATE INDEX sandbox_deliveries_by_age ON public.sandbox_deliveries USING btree (created_at);
CREATE UNIQUE INDEX sandbox_deliveries_by_id ON public.sandbox_deliveries USING btree (id);
CREATE INDEX sandbox_deliveries_waiting ON public.sandbox_deliveries USING btree (number) WHERE (state = 'waiting'::text);
CREATE INDEX sandbox_flows_by_age ON public.sandbox_flows USING btree (expires_at);
CREATE INDEX sandbox_flows_to_approve ON public.sandbox_flows USING btree (approval_at) WHERE (approval_at IS NOT NULL);
CREATE UNIQUE INDEX sandbox_payments_by_end_to_end ON public.sandbox_payments USING btree (connection_ref, end_to_end_id);
CREATE INDEX sandbox_payments_by_number ON public.sandbox_payments USING btree (end_to_end_id);
CREATE UNIQUE INDEX sandbox_payments_by_token ON public.sandbox_payments USING btree (token);
CREATE INDEX sandbox_payments_to_advance ON public.sandbox_payments USING btree (next_at) WHERE (next_at IS NOT NULL);
CREATE INDEX sandbox_payments_to_approve ON public.sandbox_payments USING btree (approval_at) WHERE (approval_at IS NOT NULL);
CREATE UNIQUE INDEX sessions_by_token ON public.sessions USING btree (token_hash);
CREATE INDEX sessions_by_user ON public.sessions USING btree (organization_id, user_id);
CREATE INDEX sign_in_attempts_by_end ON public.sign_in_attempts USING btree (expires_at);
CREATE INDEX sign_in_challenges_by_age ON public.sign_in_challenges USING btree (expires_at);
CREATE UNIQUE INDEX user_factors_by_credential ON public.user_factors USING btree (credential_id) WHERE (credential_id IS NOT NULL);
CREATE INDEX user_factors_by_user ON public.user_factors USING btree (organization_id, user_id);
CREATE UNIQUE INDEX users_by_email ON public.users USING btree (email);
CREATE UNIQUE INDEX users_by_id ON public.users USING btree (id);
CREATE INDEX webhook_deliveries_failed ON public.webhook_deliveries USING btree (organization_id, receiver_id, sequence) WHERE (state = 'failed'::text);
CREATE INDEX webhook_deliveries_of_lane ON public.webhook_deliveries USING btree (organization_id, receiver_id, subject, sequence) WHERE (state = 'pending'::text);
CREATE INDEX webhook_events_by_age ON public.webhook_events USING btree (received_at);
CREATE UNIQUE INDEX webhook_events_by_id ON public.webhook_events USING btree (organization_id, id);
CREATE INDEX webhook_events_by_subject ON public.webhook_events USING btree (organization_id, subject, sequence);
CREATE INDEX webhook_lanes_due_of_receiver ON public.webhook_lanes USING btree (organization_id, receiver_id, next_at);
CREATE INDEX webhook_lanes_of_owner ON public.webhook_lanes USING btree (owner) WHERE (owner IS NOT NULL);
CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_bookings_append_only BEFORE UPDATE OR TRUNCATE ON public.books_bookings FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON public.books_bookings FOR EACH ROW EXECUTE FUNCTION public.refuse_change_of_booked();
CREATE TRIGGER books_cash_entries_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_cash_entries FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_person_history_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_person_history FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_receipt_filings_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_receipt_filings FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_receipts_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_receipts FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_retaxed_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_retaxed FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER books_tasks_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.books_tasks FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER credit_movements_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.credit_movements FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER mobility_documents_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.mobility_documents FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER mobility_invoice_lines_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.mobility_invoice_lines FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER mobility_invoice_sums_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.mobility_invoice_sums FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER mobility_invoices_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.mobility_invoices FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER recon_lines_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.recon_lines FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON public.recon_lines FOR EACH ROW EXECUTE FUNCTION public.recon_check_open();
CREATE TRIGGER recon_matches_add_up BEFORE INSERT ON public.recon_matches FOR EACH ROW EXECUTE FUNCTION public.recon_check_sum();
CREATE TRIGGER recon_matches_no_delete BEFORE DELETE OR TRUNCATE ON public.recon_matches FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER recon_matches_no_update BEFORE UPDATE OF organization_id, id, transaction_id, account_id, connection_id, client_id, proposal_id, evidence, engine_version, made_on, amount_minor, payer, iban, end_to_end_id, mandate, bank_reference, made_by, made_at ON public.recon_matches FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
CREATE TRIGGER recon_matches_undone_once BEFORE UPDATE ON public.recon_matches FOR EACH ROW EXECUTE FUNCTION public.recon_check_undo();
CREATE TRIGGER recon_undos_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.recon_undos FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change();
ALTER TABLE ONLY public.agency_clients
    ADD CONSTRAINT agency_clients_client_organization_id_fkey FOREIGN KEY (client_organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.agency_clients
    ADD CONSTRAINT agency_clients_organization_id_key_id_fkey FOREIGN KEY (organization_id, key_id) REFERENCES public.api_keys(organization_id, id);
ALTER TABLE ONLY public.api_keys
    ADD CONSTRAINT api_keys_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.api_tasks
    ADD CONSTRAINT api_tasks_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_accounts
    ADD CONSTRAINT banking_accounts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_connect_flows
    ADD CONSTRAINT banking_connect_flows_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_connections
    ADD CONSTRAINT banking_connections_organization_id_fkey1 FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_counters
    ADD CONSTRAINT banking_counters_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_imports
    ADD CONSTRAINT banking_imports_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_interactions
    ADD CONSTRAINT banking_interactions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_order_file_payments
    ADD CONSTRAINT banking_order_file_payments_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_order_files
    ADD CONSTRAINT banking_order_files_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_payment_reports
    ADD CONSTRAINT banking_payment_reports_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_payments
    ADD CONSTRAINT banking_payments_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.banking_removed_transactions
    ADD CONSTRAINT banking_removed_transactions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.books_clients
    ADD CONSTRAINT books_clients_organization_id_connection_id_fkey FOREIGN KEY (organization_id, connection_id) REFERENCES public.ledger_connections(organization_id, id);
ALTER TABLE ONLY public.credit_accounts
    ADD CONSTRAINT credit_accounts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.credit_grants
    ADD CONSTRAINT credit_grants_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.dashboard_preferences
    ADD CONSTRAINT dashboard_preferences_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.enable_banking_sessions
    ADD CONSTRAINT enable_banking_sessions_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.fints_logins
    ADD CONSTRAINT fints_logins_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.invitations
    ADD CONSTRAINT invitations_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.ledger_connections
    ADD CONSTRAINT ledger_connections_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_customers
    ADD CONSTRAINT mobility_customers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_invoices
    ADD CONSTRAINT mobility_invoices_organization_id_customer_id_fkey FOREIGN KEY (organization_id, customer_id) REFERENCES public.mobility_customers(organization_id, id);
ALTER TABLE ONLY public.mobility_invoices
    ADD CONSTRAINT mobility_invoices_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_logos
    ADD CONSTRAINT mobility_logos_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_numbers
    ADD CONSTRAINT mobility_numbers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_sellers
    ADD CONSTRAINT mobility_sellers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.mobility_tickets
    ADD CONSTRAINT mobility_tickets_organization_id_customer_id_fkey FOREIGN KEY (organization_id, customer_id) REFERENCES public.mobility_customers(organization_id, id);
ALTER TABLE ONLY public.password_resets
    ADD CONSTRAINT password_resets_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.recon_accounts
    ADD CONSTRAINT recon_accounts_organization_id_connection_id_fkey FOREIGN KEY (organization_id, connection_id) REFERENCES public.ledger_connections(organization_id, id);
ALTER TABLE ONLY public.recon_accounts
    ADD CONSTRAINT recon_accounts_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_batch_matches
    ADD CONSTRAINT recon_batch_matches_organization_id_batch_id_fkey FOREIGN KEY (organization_id, batch_id) REFERENCES public.recon_batches(organization_id, id);
ALTER TABLE ONLY public.recon_batch_matches
    ADD CONSTRAINT recon_batch_matches_organization_id_match_id_fkey FOREIGN KEY (organization_id, match_id) REFERENCES public.recon_matches(organization_id, id);
ALTER TABLE ONLY public.recon_batches
    ADD CONSTRAINT recon_batches_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_items
    ADD CONSTRAINT recon_items_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_learned
    ADD CONSTRAINT recon_learned_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_lines
    ADD CONSTRAINT recon_lines_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_matches
    ADD CONSTRAINT recon_matches_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_matches
    ADD CONSTRAINT recon_matches_organization_id_undo_id_fkey FOREIGN KEY (organization_id, undo_id) REFERENCES public.recon_undos(organization_id, id);
ALTER TABLE ONLY public.recon_proposals
    ADD CONSTRAINT recon_proposals_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_rules
    ADD CONSTRAINT recon_rules_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_runs
    ADD CONSTRAINT recon_runs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_transactions
    ADD CONSTRAINT recon_transactions_organization_id_fkey1 FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recon_undos
    ADD CONSTRAINT recon_undos_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.recovery_codes
    ADD CONSTRAINT recovery_codes_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.sign_in_places
    ADD CONSTRAINT sign_in_places_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.user_factors
    ADD CONSTRAINT user_factors_organization_id_user_id_fkey FOREIGN KEY (organization_id, user_id) REFERENCES public.users(organization_id, id) ON DELETE CASCADE;
ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.webhook_events
    ADD CONSTRAINT webhook_events_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.webhook_logs
    ADD CONSTRAINT webhook_logs_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
ALTER TABLE ONLY public.webhook_receivers
    ADD CONSTRAINT webhook_receivers_organization_id_fkey FOREIGN KEY (organization_id) REFERENCES public.organizations(id);
