-- How each booking was split, decided when it was posted (kontierung.py). Empty: before that was stored, by the first rule.
ALTER TABLE books_bookings ADD COLUMN aufteilung TEXT NOT NULL DEFAULT '';
-- The tax of a document's invoice, by which a later discount is split; '*' where it has several.
ALTER TABLE books_items ADD COLUMN steuer TEXT NOT NULL DEFAULT '';

-- Bookings that were taken back and made again because the rule of splitting had learned.
CREATE TABLE books_retaxed (
  mandant BIGINT NOT NULL,
  booking BIGINT NOT NULL,
  batch TEXT NOT NULL,
  PRIMARY KEY (mandant, booking)
);

-- Names of the accounts that are booked to since, unless the client has its own.
INSERT INTO books_accounts (mandant, konto, beschriftung)
SELECT c.mandant, n.konto, n.beschriftung FROM books_clients c JOIN (
  SELECT 'SKR03' AS kontenrahmen, '15680000' AS konto, 'Vorsteuer 5 %' AS beschriftung
  UNION ALL SELECT 'SKR03', '15720000', 'Vorsteuer aus innergemeinschaftlichem Erwerb 7 %'
  UNION ALL SELECT 'SKR03', '15740000', 'Vorsteuer aus innergemeinschaftlichem Erwerb 19 %'
  UNION ALL SELECT 'SKR03', '15750000', 'Vorsteuer 16 %'
  UNION ALL SELECT 'SKR03', '15770000', 'Vorsteuer nach § 13b UStG 19 %'
  UNION ALL SELECT 'SKR03', '15780000', 'Vorsteuer nach § 13b UStG'
  UNION ALL SELECT 'SKR03', '17720000', 'Umsatzsteuer aus innergemeinschaftlichem Erwerb 7 %'
  UNION ALL SELECT 'SKR03', '17730000', 'Umsatzsteuer 5 %'
  UNION ALL SELECT 'SKR03', '17740000', 'Umsatzsteuer aus innergemeinschaftlichem Erwerb 19 %'
  UNION ALL SELECT 'SKR03', '17750000', 'Umsatzsteuer 16 %'
  UNION ALL SELECT 'SKR03', '17770000', 'Umsatzsteuer aus EU-Lieferungen 7 %'
  UNION ALL SELECT 'SKR03', '17780000', 'Umsatzsteuer aus EU-Lieferungen 19 %'
  UNION ALL SELECT 'SKR03', '17850000', 'Umsatzsteuer nach § 13b UStG'
  UNION ALL SELECT 'SKR03', '17870000', 'Umsatzsteuer nach § 13b UStG 19 %'
  UNION ALL SELECT 'SKR03', '31200000', 'Bauleistungen § 13b UStG 19 %'
  UNION ALL SELECT 'SKR03', '31230000', 'Leistungen aus der EU § 13b UStG 19 %'
  UNION ALL SELECT 'SKR03', '31250000', 'Leistungen aus dem Ausland § 13b UStG 19 %'
  UNION ALL SELECT 'SKR03', '34200000', 'Innergemeinschaftlicher Erwerb 7 %'
  UNION ALL SELECT 'SKR03', '34250000', 'Innergemeinschaftlicher Erwerb 19 %'
  UNION ALL SELECT 'SKR03', '37320000', 'Erhaltene Skonti 5 %'
  UNION ALL SELECT 'SKR03', '37370000', 'Erhaltene Skonti 16 %'
  UNION ALL SELECT 'SKR03', '81200000', 'Steuerfreie Ausfuhren'
  UNION ALL SELECT 'SKR03', '81250000', 'Steuerfreie innergemeinschaftliche Lieferungen'
  UNION ALL SELECT 'SKR03', '83360000', 'Leistungen in der EU, Steuer beim Empfänger'
  UNION ALL SELECT 'SKR03', '83370000', 'Leistungen nach § 13b UStG, Steuer beim Empfänger'
  UNION ALL SELECT 'SKR03', '87320000', 'Gewährte Skonti 5 %'
  UNION ALL SELECT 'SKR03', '87350000', 'Gewährte Skonti 16 %'
  UNION ALL SELECT 'SKR04', '14030000', 'Vorsteuer 5 %'
  UNION ALL SELECT 'SKR04', '14020000', 'Vorsteuer aus innergemeinschaftlichem Erwerb 7 %'
  UNION ALL SELECT 'SKR04', '14040000', 'Vorsteuer aus innergemeinschaftlichem Erwerb 19 %'
  UNION ALL SELECT 'SKR04', '14050000', 'Vorsteuer 16 %'
  UNION ALL SELECT 'SKR04', '14070000', 'Vorsteuer nach § 13b UStG 19 %'
  UNION ALL SELECT 'SKR04', '14080000', 'Vorsteuer nach § 13b UStG'
  UNION ALL SELECT 'SKR04', '38020000', 'Umsatzsteuer aus innergemeinschaftlichem Erwerb 7 %'
  UNION ALL SELECT 'SKR04', '38030000', 'Umsatzsteuer 5 %'
  UNION ALL SELECT 'SKR04', '38040000', 'Umsatzsteuer aus innergemeinschaftlichem Erwerb 19 %'
  UNION ALL SELECT 'SKR04', '38050000', 'Umsatzsteuer 16 %'
  UNION ALL SELECT 'SKR04', '38070000', 'Umsatzsteuer aus EU-Lieferungen 7 %'
  UNION ALL SELECT 'SKR04', '38080000', 'Umsatzsteuer aus EU-Lieferungen 19 %'
  UNION ALL SELECT 'SKR04', '38350000', 'Umsatzsteuer nach § 13b UStG'
  UNION ALL SELECT 'SKR04', '38370000', 'Umsatzsteuer nach § 13b UStG 19 %'
  UNION ALL SELECT 'SKR04', '59200000', 'Bauleistungen § 13b UStG 19 %'
  UNION ALL SELECT 'SKR04', '59230000', 'Leistungen aus der EU § 13b UStG 19 %'
  UNION ALL SELECT 'SKR04', '59250000', 'Leistungen aus dem Ausland § 13b UStG 19 %'
  UNION ALL SELECT 'SKR04', '54200000', 'Innergemeinschaftlicher Erwerb 7 %'
  UNION ALL SELECT 'SKR04', '54250000', 'Innergemeinschaftlicher Erwerb 19 %'
  UNION ALL SELECT 'SKR04', '57320000', 'Erhaltene Skonti 5 %'
  UNION ALL SELECT 'SKR04', '57370000', 'Erhaltene Skonti 16 %'
  UNION ALL SELECT 'SKR04', '41200000', 'Steuerfreie Ausfuhren'
  UNION ALL SELECT 'SKR04', '41250000', 'Steuerfreie innergemeinschaftliche Lieferungen'
  UNION ALL SELECT 'SKR04', '43360000', 'Leistungen in der EU, Steuer beim Empfänger'
  UNION ALL SELECT 'SKR04', '43370000', 'Leistungen nach § 13b UStG, Steuer beim Empfänger'
  UNION ALL SELECT 'SKR04', '47320000', 'Gewährte Skonti 5 %'
  UNION ALL SELECT 'SKR04', '47350000', 'Gewährte Skonti 16 %'
) n ON n.kontenrahmen = c.kontenrahmen
WHERE NOT EXISTS (SELECT 1 FROM books_accounts a WHERE a.mandant = c.mandant AND a.konto = n.konto);
CREATE TRIGGER books_retaxed_no_update BEFORE UPDATE ON books_retaxed BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
CREATE TRIGGER books_retaxed_no_delete BEFORE DELETE ON books_retaxed BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
