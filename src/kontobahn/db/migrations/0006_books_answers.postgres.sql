-- Answers kept ready: what a call asks of an account is one row of text, written anew when the account is booked on.
CREATE TABLE books_open_accounts (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  saldo BIGINT NOT NULL,
  -- The account as a call answers it, after its number and label. Empty where it has more than a thousand open items.
  wire TEXT NOT NULL,
  PRIMARY KEY (mandant, konto)
);

-- An account's line of a trial balance as a call answers it, after its label.
CREATE TABLE books_balances (
  mandant BIGINT NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  wire TEXT NOT NULL,
  PRIMARY KEY (mandant, jahr, konto)
);

-- Rows of a file that was taken without its refused ones: the mended file must not bring them again.
CREATE TABLE books_partial_rows (
  mandant BIGINT NOT NULL,
  batch TEXT NOT NULL,
  digest TEXT NOT NULL,
  kopf TEXT NOT NULL,
  times BIGINT NOT NULL,
  PRIMARY KEY (mandant, batch, digest)
);

-- Texts are compared byte by byte, as SQLite does, whatever language the database was made for: order is part of the answers.
DO $$
DECLARE found RECORD;
BEGIN
  FOR found IN
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name LIKE 'books\_%' AND data_type = 'text'
      AND column_name <> 'organization_id' AND column_name <> 'connection_id'
  LOOP
    EXECUTE format('ALTER TABLE %I ALTER COLUMN %I TYPE TEXT COLLATE "C"', found.table_name, found.column_name);
  END LOOP;
END $$;

-- Of several first legs on one day the text that comes first is kept: first by that order.
UPDATE books_items SET buchungstext = first.text FROM (
  SELECT i.mandant, i.konto, i.beleg, MIN(b.buchungstext) AS text FROM books_items i
  JOIN books_item_moves m ON m.mandant = i.mandant AND m.konto = i.konto AND m.beleg = i.beleg AND m.belegdatum = i.belegdatum
  JOIN books_bookings b ON b.mandant = m.mandant AND b.id = m.booking
  GROUP BY i.mandant, i.konto, i.beleg
) first WHERE first.mandant = books_items.mandant AND first.konto = books_items.konto AND first.beleg = books_items.beleg
  AND first.text <> books_items.buchungstext;
UPDATE books_item_years SET eb_text = first.text FROM (
  SELECT i.mandant, i.konto, i.jahr, MIN(CASE WHEN b.buchungstext = '' THEN 'Saldovortrag' ELSE b.buchungstext END) AS text
  FROM books_item_years i
  JOIN books_bookings b ON b.mandant = i.mandant AND b.jahr = i.jahr AND b.periode = 0 AND (b.konto = i.konto OR b.gegenkonto = i.konto)
  GROUP BY i.mandant, i.konto, i.jahr
) first WHERE first.mandant = books_item_years.mandant AND first.konto = books_item_years.konto AND first.jahr = books_item_years.jahr
  AND first.text <> books_item_years.eb_text;

-- Only an opening balance of a person account makes a year a carried one: the rest of the others is none.
UPDATE books_years SET has_eb = CASE WHEN EXISTS (
  SELECT 1 FROM books_item_years i WHERE i.mandant = books_years.mandant AND i.jahr = books_years.jahr AND i.eb_text <> ''
) THEN 1 ELSE 0 END;
DELETE FROM books_carry_rests WHERE NOT EXISTS (
  SELECT 1 FROM books_years y WHERE y.mandant = books_carry_rests.mandant AND y.jahr = books_carry_rests.jahr AND y.has_eb = 1
);

INSERT INTO books_open_accounts (mandant, konto, saldo, wire)
SELECT mandant, konto, saldo, CASE WHEN items > 1000 THEN '' ELSE
  '"isDebitor":' || CASE WHEN konto < '7' THEN 'true' ELSE 'false' END || ',"totalSaldo":'
    || CASE WHEN saldo < 0 THEN '-' ELSE '' END || (ABS(saldo) / 100) || '.' || RIGHT('0' || (ABS(saldo) % 100), 2)
    || ',"posten":[' || texts || ']}' END
FROM (
  SELECT mandant, konto, CAST(SUM(saldo) AS BIGINT) AS saldo, COUNT(*) AS items, STRING_AGG(text, ',' ORDER BY ABS(saldo) DESC, beleg) AS texts
  FROM (
    SELECT mandant, konto, beleg, soll - haben AS saldo, '{"beleg":' || TO_JSON(beleg) || ',"belegdatum":"' || belegdatum
      || '","buchungstext":' || TO_JSON(buchungstext) || ',"saldo":' || CASE WHEN soll < haben THEN '-' ELSE '' END
      || (ABS(soll - haben) / 100) || '.' || RIGHT('0' || (ABS(soll - haben) % 100), 2) || '}' AS text
    FROM books_items WHERE is_open = 1
  ) items GROUP BY mandant, konto
) accounts;

INSERT INTO books_balances (mandant, jahr, konto, wire)
SELECT mandant, jahr, konto, '"kontonummer":"' || konto || '","saldo":{"betrag":' || (ABS(saldo) / 100) || '.'
    || RIGHT('0' || (ABS(saldo) % 100), 2) || ',"sollHabenKennzeichen":"'
    || CASE WHEN saldo < 0 THEN 'HABEN' ELSE 'SOLL' END || '"},"periodenwerte":[' || COALESCE(values_text, '')
    || '],"ebWert":'
  || CASE WHEN eb IS NULL THEN 'null' ELSE '{"betrag":' || (ABS(eb) / 100) || '.' || RIGHT('0' || (ABS(eb) % 100), 2)
    || ',"sollHabenKennzeichen":"' || CASE WHEN eb < 0 THEN 'HABEN' ELSE 'SOLL' END || '"}' END
  || ',"umsatzHaben":' || CASE WHEN total_haben < 0 THEN '-' ELSE '' END || (ABS(total_haben) / 100) || '.'
    || RIGHT('0' || (ABS(total_haben) % 100), 2) || ',"umsatzSoll":' || CASE WHEN total_soll < 0 THEN '-' ELSE '' END
    || (ABS(total_soll) / 100) || '.' || RIGHT('0' || (ABS(total_soll) % 100), 2) || '}'
FROM (
  SELECT mandant, jahr, konto, STRING_AGG(text, ',' ORDER BY periode) AS values_text, CAST(SUM(soll - haben) AS BIGINT) AS saldo,
    CAST(SUM(CASE WHEN periode = 0 THEN soll - haben END) AS BIGINT) AS eb,
    CAST(SUM(CASE WHEN periode = 0 THEN 0 ELSE soll END) AS BIGINT) AS total_soll,
    CAST(SUM(CASE WHEN periode = 0 THEN 0 ELSE haben END) AS BIGINT) AS total_haben
  FROM (
    SELECT mandant, jahr, konto, periode, soll, haben, CASE WHEN periode > 0 THEN
      '{"periode":' || periode || ',"saldo":{"betrag":' || (ABS(soll - haben) / 100) || '.' || RIGHT('0'
    || (ABS(soll - haben) % 100), 2) || ',"sollHabenKennzeichen":"'
    || CASE WHEN (soll - haben) < 0 THEN 'HABEN' ELSE 'SOLL' END || '"}}' END AS text
    FROM books_periods
  ) periods GROUP BY mandant, jahr, konto
) accounts;

-- The text of an item is in that of its account now.
DROP INDEX books_items_open;
ALTER TABLE books_items DROP COLUMN wire;
CREATE INDEX books_items_open ON books_items (mandant, is_open, konto, beleg, soll, haben, belegdatum, buchungstext) WHERE is_open = 1;
