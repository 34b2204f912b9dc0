-- Figures that do not depend on the order in which bookings come: a document's invoice, its discounts, and the period of a tax.
DROP TRIGGER books_bookings_append_only ON books_bookings;
ALTER TABLE books_bookings ADD COLUMN steuertag TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE books_bookings SET steuertag = SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'115', 8, '0'), 5, 4)
  || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'115', 8, '0'), 3, 2)
  || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'115', 8, '0'), 1, 2)
  WHERE weitere LIKE '%"115":%' AND LPAD((NULLIF(weitere, '')::json)->>'115', 8, '0') ~ '^[0-3][0-9][01][0-9][12][0-9]{3}$';
UPDATE books_bookings SET steuertag = SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'116', 8, '0'), 5, 4)
  || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'116', 8, '0'), 3, 2)
  || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'116', 8, '0'), 1, 2)
  WHERE weitere LIKE '%"116":%' AND LPAD((NULLIF(weitere, '')::json)->>'116', 8, '0') ~ '^[0-3][0-9][01][0-9][12][0-9]{3}$';
CREATE INDEX books_bookings_by_tax_day ON books_bookings (mandant, steuertag) WHERE steuertag <> '';
CREATE TRIGGER books_bookings_append_only BEFORE UPDATE OR TRUNCATE ON books_bookings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- Nobody looks for due dates among bookings any more.
DROP INDEX books_bookings_due;

-- How many legs stand behind a sum was not counted before: it stays, whatever is undone.
ALTER TABLE books_periods ADD COLUMN anzahl BIGINT NOT NULL DEFAULT 0;
UPDATE books_periods SET anzahl = 1000000000000;

ALTER TABLE books_items ADD COLUMN rechnung TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE books_items SET rechnung = found.rechnung FROM (
  SELECT edition, konto, beleg, MIN(rechnung) AS rechnung FROM (
  SELECT c.edition, m.konto, m.beleg,
    CASE WHEN (m.betrag > 0) = (m.konto < '7') THEN m.belegdatum || ' ' || b.due
    WHEN b.due <> '~' THEN '~' || m.belegdatum || ' ' || b.due END AS rechnung
  FROM books_item_moves m
  JOIN books_clients c ON c.mandant = m.mandant
  JOIN (
    SELECT mandant, id, konto, gegenkonto, generalumkehr, CASE WHEN weitere LIKE '%"117":%'
        AND LPAD((NULLIF(weitere, '')::json)->>'117', 8, '0') ~ '^[0-3][0-9][01][0-9][12][0-9]{3}$'
      THEN SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'117', 8, '0'), 5, 4)
        || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'117', 8, '0'), 3, 2)
        || '-' || SUBSTR(LPAD((NULLIF(weitere, '')::json)->>'117', 8, '0'), 1, 2)
      ELSE '~' END AS due
    FROM books_bookings
  ) AS b ON b.mandant = m.mandant AND b.id = m.booking
  WHERE m.booking <= c.last_buchung AND m.booking NOT BETWEEN c.undone_from AND c.undone_to AND b.generalumkehr = 0
    AND (LENGTH(b.konto) = LENGTH(b.gegenkonto)
      OR SUBSTR(CASE WHEN b.konto = m.konto THEN b.gegenkonto ELSE b.konto END, 1, 4)
        NOT BETWEEN CASE c.kontenrahmen WHEN 'SKR03' THEN '1000' ELSE '1460' END
        AND CASE c.kontenrahmen WHEN 'SKR03' THEN '1369' ELSE '1899' END)
  ) AS invoices GROUP BY edition, konto, beleg HAVING MIN(rechnung) IS NOT NULL
) AS found WHERE books_items.edition = found.edition AND books_items.konto = found.konto AND books_items.beleg = found.beleg;
DROP INDEX books_items_open;
CREATE INDEX books_items_open ON books_items (edition, is_open, konto, beleg, soll, haben, belegdatum, buchungstext, rechnung)
  WHERE is_open = 1;

-- Discounts stay as they were split until the tax of their document changes.
CREATE TABLE books_discounts (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  beleg TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  steuer TEXT COLLATE "C" NOT NULL,
  aufteilung TEXT COLLATE "C" NOT NULL,
  gebucht TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (edition, konto, beleg, booking)
);
CREATE INDEX books_discounts_changed ON books_discounts (edition, aufteilung, booking) WHERE aufteilung <> gebucht;
INSERT INTO books_discounts (edition, konto, beleg, booking, steuer, aufteilung, gebucht)
  SELECT i.edition, i.konto, i.beleg, b.id, i.steuer, b.aufteilung, b.aufteilung
  FROM books_bookings b
  JOIN books_clients c ON c.mandant = b.mandant
  JOIN books_batches t ON t.mandant = b.mandant AND t.id = b.batch
  JOIN books_items i ON i.edition = c.edition AND i.konto = CASE WHEN LENGTH(b.konto) = 9 THEN b.konto ELSE b.gegenkonto END
    AND i.beleg = b.belegfeld1
  WHERE SUBSTR(b.aufteilung, 1, 1) = 'S' AND b.belegfeld1 <> '' AND b.id <= c.last_buchung AND t.undone_by = '' AND t.undoes = ''
    AND NOT EXISTS (SELECT 1 FROM books_retaxed r WHERE r.mandant = b.mandant AND r.booking = b.id);
