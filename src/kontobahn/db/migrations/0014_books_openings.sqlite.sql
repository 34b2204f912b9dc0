-- Legs of person accounts in opening balances that may be half of a pair. A twin is counted by no read model.
CREATE TABLE books_openings (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  jahr TEXT NOT NULL,
  booking BIGINT NOT NULL,
  betrag BIGINT NOT NULL,
  gegenkonto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  is_reversal SMALLINT NOT NULL CHECK (is_reversal = 0 OR is_reversal = 1),
  is_twin SMALLINT NOT NULL CHECK (is_twin = 0 OR is_twin = 1),
  PRIMARY KEY (mandant, konto, jahr, booking)
);

INSERT INTO books_openings (mandant, konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin)
SELECT mandant, konto, jahr, id, CASE WHEN soll = 1 THEN 1 ELSE -1 END * COALESCE(basis_umsatz, umsatz), gegenkonto, belegfeld1,
  generalumkehr, 0
FROM books_bookings
WHERE periode = 0 AND LENGTH(konto) = 9 AND LENGTH(gegenkonto) = 8 AND SUBSTR(gegenkonto, 1, 1) = '9' AND skonto = 0
  AND (bu_schluessel = '' OR bu_schluessel = '20' OR bu_schluessel = '40');
INSERT INTO books_openings (mandant, konto, jahr, booking, betrag, gegenkonto, beleg, is_reversal, is_twin)
SELECT mandant, gegenkonto, jahr, id, CASE WHEN soll = 1 THEN -1 ELSE 1 END * COALESCE(basis_umsatz, umsatz), konto, belegfeld1,
  generalumkehr, 0
FROM books_bookings
WHERE periode = 0 AND LENGTH(gegenkonto) = 9 AND LENGTH(konto) = 8 AND SUBSTR(konto, 1, 1) = '9' AND skonto = 0
  AND (bu_schluessel = '' OR bu_schluessel = '20' OR bu_schluessel = '40');
