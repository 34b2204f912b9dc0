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
    || CASE WHEN saldo < 0 THEN '-' ELSE '' END || (ABS(saldo) / 100) || '.' || SUBSTR('0' || (ABS(saldo) % 100), -2)
    || ',"posten":[' || texts || ']}' END
FROM (
  SELECT mandant, konto, CAST(SUM(saldo) AS BIGINT) AS saldo, COUNT(*) AS items, GROUP_CONCAT(text, ',') AS texts
  FROM (
    SELECT mandant, konto, soll - haben AS saldo, wire || CASE WHEN soll < haben THEN '-' ELSE '' END
      || (ABS(soll - haben) / 100) || '.' || SUBSTR('0' || (ABS(soll - haben) % 100), -2) || '}' AS text
    FROM books_items WHERE is_open = 1
    ORDER BY mandant, konto, ABS(soll - haben) DESC, beleg
  ) items GROUP BY mandant, konto
) accounts;

INSERT INTO books_balances (mandant, jahr, konto, wire)
SELECT mandant, jahr, konto, '"kontonummer":"' || konto || '","saldo":{"betrag":' || (ABS(saldo) / 100) || '.'
    || SUBSTR('0' || (ABS(saldo) % 100), -2) || ',"sollHabenKennzeichen":"'
    || CASE WHEN saldo < 0 THEN 'HABEN' ELSE 'SOLL' END || '"},"periodenwerte":[' || COALESCE(values_text, '')
    || '],"ebWert":'
  || CASE WHEN eb IS NULL THEN 'null' ELSE '{"betrag":' || (ABS(eb) / 100) || '.' || SUBSTR('0' || (ABS(eb) % 100), -2)
    || ',"sollHabenKennzeichen":"' || CASE WHEN eb < 0 THEN 'HABEN' ELSE 'SOLL' END || '"}' END
  || ',"umsatzHaben":' || CASE WHEN total_haben < 0 THEN '-' ELSE '' END || (ABS(total_haben) / 100) || '.'
    || SUBSTR('0' || (ABS(total_haben) % 100), -2) || ',"umsatzSoll":' || CASE WHEN total_soll < 0 THEN '-' ELSE '' END
    || (ABS(total_soll) / 100) || '.' || SUBSTR('0' || (ABS(total_soll) % 100), -2) || '}'
FROM (
  SELECT mandant, jahr, konto, GROUP_CONCAT(text, ',') AS values_text, CAST(SUM(soll - haben) AS BIGINT) AS saldo,
    CAST(SUM(CASE WHEN periode = 0 THEN soll - haben END) AS BIGINT) AS eb,
    CAST(SUM(CASE WHEN periode = 0 THEN 0 ELSE soll END) AS BIGINT) AS total_soll,
    CAST(SUM(CASE WHEN periode = 0 THEN 0 ELSE haben END) AS BIGINT) AS total_haben
  FROM (
    SELECT mandant, jahr, konto, periode, soll, haben, CASE WHEN periode > 0 THEN
      '{"periode":' || periode || ',"saldo":{"betrag":' || (ABS(soll - haben) / 100) || '.' || SUBSTR('0'
    || (ABS(soll - haben) % 100), -2) || ',"sollHabenKennzeichen":"'
    || CASE WHEN (soll - haben) < 0 THEN 'HABEN' ELSE 'SOLL' END || '"}}' END AS text
    FROM books_periods
    ORDER BY mandant, jahr, konto, periode
  ) periods GROUP BY mandant, jahr, konto
) accounts;

-- The text of an item is in that of its account now.
DROP INDEX books_items_open;
ALTER TABLE books_items DROP COLUMN wire;
CREATE INDEX books_items_open ON books_items (mandant, is_open, konto, beleg, soll, haben, belegdatum, buchungstext) WHERE is_open = 1;
