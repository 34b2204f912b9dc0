-- Bookings from statements imported before: what their answer says already.
UPDATE banking_transactions SET
  booked_on = COALESCE(json_extract(wire, '$.extra.posting_date'), made_on),
  balance_minor = CAST(ROUND(json_extract(wire, '$.extra.account_balance_snapshot') * 100) AS INTEGER)
WHERE statement IS NOT NULL;
