"""Examples that the documentation shows of reconciliation: one payment of one invoice, from proposal to undoing."""

from __future__ import annotations

from typing import Any

from kontobahn.reconciliation.core.model import ENGINE_VERSION

ACCOUNT, TRANSACTION = "1000000000001", "1000000000042"
CONNECTION, CLIENT = "0193b2a0-0000-7000-8000-000000000001", "29098-55003"
PROPOSAL, MATCH = "0193b2a0-0000-7000-8000-000000000021", "0193b2a0-0000-7000-8000-000000000031"
_UNDO, _LEARNED = "0193b2a0-0000-7000-8000-000000000041", "0193b2a0-0000-7000-8000-000000000051"
_RULE = "0193b2a0-0000-7000-8000-000000000061"
_AT = "2026-03-31T18:00:00Z"
LINES = [{"kind": "item", "konto": "100100000", "beleg": "RE-2026-00123", "amount": 119.0}]
REASONS = [
    {"signal": "number", "value": "RE-2026-00123", "field": "svwz", "start": 9, "end": 22, "bits": 9.9},
    {"signal": "amount", "value": "119.00", "field": None, "start": None, "end": None, "bits": 12.0},
    {"signal": "iban", "value": "2051 (master data)", "field": None, "start": None, "end": None, "bits": 20.0},
]
_SETTINGS = {
    "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT, "konto": "12000000", "fee_konto": "49700000",
    "transfer_konto": None, "start_date": "2026-01-01", "booked_by": "adviser", "automatic_classes": ["A1", "A2"],
    "updated_by": "user:0193b2a0-0000-7000-8000-000000000002", "updated_at": _AT,
}  # fmt: skip
_PROPOSAL = {
    "id": PROPOSAL, "transaction_id": TRANSACTION, "status": "open", "rank": 1, "evidence_class": "A2", "clear": True,
    "score": 41.9, "lines": LINES, "reasons": REASONS, "engine_version": ENGINE_VERSION,
}  # fmt: skip
_MATCH = {
    "id": MATCH, "transaction_id": TRANSACTION, "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT,
    "proposal_id": PROPOSAL, "evidence_class": "A2", "made_on": "2026-03-02", "amount": 119.0, "name": "Muster GmbH", "lines": LINES,
    "created_by": "user:0193b2a0-0000-7000-8000-000000000002", "created_at": _AT, "undo": None,
}  # fmt: skip
_TRANSACTION = {
    "id": TRANSACTION, "account_id": ACCOUNT, "status": "proposed", "removed": False, "made_on": "2026-03-02", "amount": 119.0,
    "currency_code": "EUR", "name": "Muster GmbH", "iban": "DE02120300000000202051",
    "purpose": "Rechnung RE-2026-00123 danke", "best_proposal": _PROPOSAL, "match_id": None,
}  # fmt: skip
_STORED_RULE = {
    "id": _RULE, "name": "Miete Büro", "konto": "42100000", "text": "Miete", "iban": "", "direction": "out",
    "min_amount": 700.0, "max_amount": 900.0, "automatic": False,
}  # fmt: skip

SETTINGS: dict[str, Any] = {"data": _SETTINGS}
ALL_SETTINGS: dict[str, Any] = {"data": [_SETTINGS]}
SETTINGS_SENT: dict[str, Any] = {"connection_id": CONNECTION, "konto": "1200", "automatic_classes": ["A1", "A2"]}
TRANSACTIONS: dict[str, Any] = {"data": [_TRANSACTION]}
ONE_TRANSACTION: dict[str, Any] = {"data": {**_TRANSACTION, "proposals": [_PROPOSAL], "matches": []}}
IGNORED: dict[str, Any] = {"data": {**_TRANSACTION, "status": "ignored", "proposals": [_PROPOSAL], "matches": []}}
REJECTED: dict[str, Any] = {"data": {**_PROPOSAL, "status": "rejected"}}
CONFIRMATIONS: dict[str, Any] = {"data": [{"id": PROPOSAL, "match_id": MATCH, "error": None}]}
MATCHED: dict[str, Any] = {"data": _MATCH}
MATCHES: dict[str, Any] = {"data": [_MATCH]}
MATCHED_BY_HAND: dict[str, Any] = {
    "data": {
        **_MATCH, "proposal_id": None, "evidence_class": None, "amount": 116.62,
        "lines": [*LINES, {"kind": "skonto", "konto": "100100000", "beleg": "RE-2026-00123", "amount": -2.38}],
    }
}  # fmt: skip
MATCH_SENT: dict[str, Any] = {
    "transaction_id": TRANSACTION,
    "lines": [{"kind": "item", "konto": "10010", "beleg": "RE-2026-00123", "amount": 116.62, "skonto": 2.38}],
}
UNDONE: dict[str, Any] = {
    "data": {
        **_MATCH,
        "undo": {"id": _UNDO, "reason": "anderer Kunde", "created_by": _MATCH["created_by"], "created_at": _AT},
    }
}
LEARNED: dict[str, Any] = {
    "id": _LEARNED, "kind": "iban", "value": "DE02120300000000202051", "konto": "100100000", "confirmations": 2,
    "effective": True, "first_at": _AT, "last_at": _AT,
}  # fmt: skip
RULES: dict[str, Any] = {"data": [_STORED_RULE]}
RULES_SENT: dict[str, Any] = {
    "rules": [
        {
            "name": "Miete Büro",
            "konto": "4210",
            "text": "Miete",
            "direction": "out",
            "min_amount": 700.0,
            "max_amount": 900.0,
        }
    ]
}
REPORT: dict[str, Any] = {
    "data": {
        "account_id": ACCOUNT, "from_date": "2025-04-01", "to_date": "2026-03-31",
        "transactions": {"open": 4, "proposed": 12, "matched": 180, "ignored": 2, "booked": 31},
        "classes": [{"evidence_class": "A2", "matches": 141, "automatic": 130, "amount": 61274.5, "undone": 0}],
        "automatic": 130, "automatic_undone": 0, "undone_per_thousand": 0.0, "confirmed": 50, "confirmed_first": 48,
        "rejected": 2,
    }
}  # fmt: skip
_BATCH = {
    "id": "0193b2a0-0000-7000-8000-000000000071", "account_id": ACCOUNT, "connection_id": CONNECTION, "client_id": CLIENT,
    "booked_by": "kontobahn", "fiscal_year_start": "2026-01-01", "from_date": "2026-01-01", "to_date": "2026-03-31",
    "matches": 1, "reversals": 0, "total": 119.0, "file_name": "EXTF_Buchungsstapel_29098_55003_20260302_20260302.csv",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "import_ids": ["0193b2a0-0000-7000-8000-000000000072"], "created_by": "user:0193b2a0-0000-7000-8000-000000000002", "created_at": _AT,
}  # fmt: skip
_ROWS = {
    "lines": [
        {
            "match_id": MATCH, "transaction_id": TRANSACTION, "made_on": "2026-03-02", "reversal": False, "konto": "100100000",
            "beleg": "RE-2026-00123", "amount": 119.0, "skonto": 0, "text": "Muster GmbH",
        }
    ],
    "left_out": [],
    "items": [{"konto": "100100000", "beleg": "RE-2026-00123", "open_before": 119.0, "open_after": 0}],
}  # fmt: skip
BATCHES: dict[str, Any] = {"data": [_BATCH]}
BATCH: dict[str, Any] = {"data": {**_BATCH, **_ROWS}}
BATCH_BOOKINGS: dict[str, Any] = {
    "data": [
        {
            "match_id": MATCH, "transaction_id": TRANSACTION, "made_on": "2026-03-02", "konto": "100100000", "beleg": "RE-2026-00123",
            "amount": 119.0, "skonto": 0, "outcome": "otherwise", "booked_on": "2026-03-09", "booked_konto": "100100000",
            "booked_beleg": "RE-2026-00123", "booked_amount": 117.0, "booked_skonto": 0, "difference": -2.0,
        }
    ]
}  # fmt: skip
NEW_BATCH: dict[str, Any] = {**BATCH, "platform": {"neuesGuthaben": 99}}
