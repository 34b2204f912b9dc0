"""Habits of the made-up client's payers, in parts of a hundred or so. The verdict's mix is not the one tuned with."""

from __future__ import annotations

Mix = dict[str, dict[str, int]]

TUNING: Mix = {
    "schemes": {"RE-2026-00123": 20, "2026-0123": 10, "20260123": 10, "R00123": 8, "123 (short)": 6, "RG26/0123": 8, "100123": 10,
                "7000123": 8, "INV.26.K.0123": 5, "AR2603-0123": 5, "random 8": 5, "K4T-88123": 5},
    "prices": {"free": 50, "list": 35, "flat": 15},
    "known": {"iban": 60, "suppliers": 16, "other_name": 5},
    "habits": {"number": 30, "sentence": 34, "reshaped": 12, "customer": 8, "reference": 6, "end": 3, "typo": 2, "never": 5},
    "events": {"full": 590, "skonto": 80, "skonto_late": 8, "skonto_too_high": 5, "several": 60, "several_skonto": 15, "part": 18,
               "over": 8, "double": 8, "two_customers": 3, "deviating": 15, "returned": 18, "refund": 8, "supplier": 60,
               "own_payment": 60, "noise": 30, "transfer": 14},
}  # fmt: skip
# Other schemes lead, more payers write nothing, more of them are unknown, more list prices, more of what is rare.
VERDICT: Mix = {
    "schemes": {"RE-2026-00123": 8, "2026-0123": 14, "20260123": 8, "R00123": 12, "123 (short)": 8, "RG26/0123": 6, "100123": 12,
                "7000123": 6, "INV.26.K.0123": 8, "AR2603-0123": 8, "random 8": 5, "K4T-88123": 5},
    "prices": {"free": 40, "list": 40, "flat": 20},
    "known": {"iban": 50, "suppliers": 14, "other_name": 8},
    "habits": {"number": 26, "sentence": 32, "reshaped": 15, "customer": 9, "reference": 6, "end": 3, "typo": 3, "never": 6},
    "events": {"full": 560, "skonto": 90, "skonto_late": 10, "skonto_too_high": 6, "several": 70, "several_skonto": 20, "part": 20,
               "over": 10, "double": 9, "two_customers": 4, "deviating": 20, "returned": 20, "refund": 10, "supplier": 55,
               "own_payment": 50, "noise": 32, "transfer": 14},
}  # fmt: skip
