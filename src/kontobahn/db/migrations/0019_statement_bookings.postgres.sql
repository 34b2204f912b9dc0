-- Bookings from statements imported before: what their answer says already.
UPDATE banking_transactions SET
  booked_on = COALESCE(wire::json #>> '{extra,posting_date}', made_on),
  balance_minor = ROUND((wire::json #>> '{extra,account_balance_snapshot}')::numeric * 100)::bigint
WHERE statement IS NOT NULL;
