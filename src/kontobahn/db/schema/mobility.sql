-- Mobility: sellers, customers, their tickets, and the invoices with all that they were made from.

-- One row an organisation: its letterhead, bank account and number series, as the JSON text of mobility/parties.Seller.
CREATE TABLE mobility_sellers (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  record TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  logo_sha256 TEXT
);

-- Pictures in the letterhead of invoices, by their content. An invoice names the one it was issued with.
CREATE TABLE mobility_logos (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sha256 TEXT NOT NULL,
  media_type TEXT NOT NULL,
  width BIGINT NOT NULL,
  height BIGINT NOT NULL,
  content BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, sha256)
);

CREATE TABLE mobility_customers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  provider TEXT NOT NULL,
  customer_number BIGINT NOT NULL,
  mobility_customer_id TEXT,
  name TEXT NOT NULL,
  street TEXT NOT NULL,
  postal_code TEXT NOT NULL,
  city TEXT NOT NULL,
  country_code TEXT NOT NULL,
  email TEXT,
  buyer_reference TEXT,
  vat_id TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX mobility_customers_by_number ON mobility_customers (organization_id, customer_number);
CREATE UNIQUE INDEX mobility_customers_by_platform_id ON mobility_customers (organization_id, mobility_customer_id);

-- Months are texts like 2026-03. A cancelled ticket that has an invoice and no credit yet is credited by the next invoice.
CREATE TABLE mobility_tickets (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  customer_id TEXT NOT NULL,
  reference TEXT,
  product TEXT NOT NULL,
  holder_reference TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  price_in_cents BIGINT NOT NULL CHECK (price_in_cents >= 0),
  discount_in_cents BIGINT NOT NULL CHECK (discount_in_cents >= 0 AND discount_in_cents <= price_in_cents),
  employer_share_in_cents BIGINT CHECK (employer_share_in_cents >= 0),
  vat_rate SMALLINT NOT NULL CHECK (vat_rate = 0 OR vat_rate = 7 OR vat_rate = 19),
  status TEXT NOT NULL CHECK (status = 'open' OR status = 'invoiced' OR status = 'cancelled' OR status = 'credited'),
  invoice_id TEXT,
  credit_invoice_id TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id),
  CHECK (valid_to >= valid_from),
  FOREIGN KEY (organization_id, customer_id) REFERENCES mobility_customers (organization_id, id)
);
CREATE INDEX mobility_tickets_of_customer ON mobility_tickets (organization_id, customer_id, valid_from, id);
CREATE INDEX mobility_tickets_to_bill ON mobility_tickets (organization_id, customer_id) WHERE status = 'open' OR status = 'cancelled';
CREATE UNIQUE INDEX mobility_tickets_by_reference ON mobility_tickets (organization_id, customer_id, reference);

-- The last number given in a series; the next one is taken in the transaction of its invoice, so a series has no gap.
CREATE TABLE mobility_numbers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  series TEXT NOT NULL,
  last_number BIGINT NOT NULL,
  PRIMARY KEY (organization_id, series)
);

-- An invoice, frozen: seller and buyer as they were (JSON of mobility/parties), then its lines and its sums by VAT rate. Neither these nor
-- its documents ever change: a mistake is credited by the next invoice.
CREATE TABLE mobility_invoices (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  customer_id TEXT NOT NULL,
  mobility_invoice_id TEXT NOT NULL,
  invoice_number TEXT NOT NULL,
  type_code BIGINT NOT NULL CHECK (type_code = 380 OR type_code = 381),
  amount_in_cents BIGINT NOT NULL,
  ticket_count BIGINT NOT NULL CHECK (ticket_count > 0),
  issued_on TEXT NOT NULL,
  due_on TEXT,
  seller TEXT NOT NULL,
  buyer TEXT NOT NULL,
  invoiced_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  logo_sha256 TEXT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, customer_id) REFERENCES mobility_customers (organization_id, id)
);
CREATE UNIQUE INDEX mobility_invoices_by_number ON mobility_invoices (organization_id, invoice_number);
CREATE INDEX mobility_invoices_by_day ON mobility_invoices (organization_id, issued_on, id);
CREATE INDEX mobility_invoices_by_logo ON mobility_invoices (organization_id, logo_sha256) WHERE logo_sha256 IS NOT NULL;

-- amount_in_cents is gross and negative for a credit; net_in_cents is its share of the net sum of its rate.
CREATE TABLE mobility_invoice_lines (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  position BIGINT NOT NULL,
  ticket_id TEXT NOT NULL,
  reference TEXT,
  product TEXT NOT NULL,
  holder_reference TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  price_in_cents BIGINT NOT NULL,
  discount_in_cents BIGINT NOT NULL,
  employer_share_in_cents BIGINT,
  vat_rate SMALLINT NOT NULL,
  amount_in_cents BIGINT NOT NULL,
  net_in_cents BIGINT NOT NULL,
  credited_number TEXT,
  credited_on TEXT,
  PRIMARY KEY (organization_id, invoice_id, position)
);

CREATE TABLE mobility_invoice_sums (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  vat_rate SMALLINT NOT NULL,
  net_in_cents BIGINT NOT NULL,
  vat_in_cents BIGINT NOT NULL,
  rounding_in_cents BIGINT NOT NULL,
  amount_in_cents BIGINT NOT NULL CHECK (amount_in_cents = net_in_cents + vat_in_cents + rounding_in_cents),
  PRIMARY KEY (organization_id, invoice_id, vat_rate)
);

-- Made once from the frozen rows, never again.
CREATE TABLE mobility_documents (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'pdf' OR kind = 'xml'),
  file_name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  content BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, invoice_id, kind)
);

-- Invoices whose documents are still to be made: written with the invoice, removed with its documents.
CREATE TABLE mobility_documents_due (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  -- The number of tries to make the documents, the end of the claim of one under way, and why the last one failed.
  tries BIGINT NOT NULL DEFAULT 0,
  busy_until BIGINT NOT NULL DEFAULT 0,
  last_error TEXT,
  PRIMARY KEY (organization_id, invoice_id)
);
