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
LINES = [{"art": "posten", "kontonummer": "100100000", "beleg": "RE-2026-00123", "betrag": 119.0}]
REASONS = [
    {"signal": "number", "wert": "RE-2026-00123", "feld": "svwz", "von": 9, "bis": 22, "bits": 9.9},
    {"signal": "amount", "wert": "119.00", "feld": None, "von": None, "bis": None, "bits": 12.0},
    {"signal": "iban", "wert": "2051 (master data)", "feld": None, "von": None, "bis": None, "bits": 20.0},
]
_SETTINGS = {
    "account_id": ACCOUNT, "connectionId": CONNECTION, "clientId": CLIENT, "sachkonto": "12000000", "gebuehrenkonto": "49700000",
    "transferkonto": None, "start_date": "2026-01-01", "bucht": "kanzlei", "automatisch": ["A1", "A2"],
    "geaendert_von": "user:0193b2a0-0000-7000-8000-000000000002", "geaendert_am": _AT,
}  # fmt: skip
_PROPOSAL = {
    "id": PROPOSAL, "transaction_id": TRANSACTION, "status": "open", "platz": 1, "klasse": "A2", "eindeutig": True,
    "punkte": 41.9, "zeilen": LINES, "gruende": REASONS, "engine_version": ENGINE_VERSION,
}  # fmt: skip
_MATCH = {
    "id": MATCH, "transaction_id": TRANSACTION, "account_id": ACCOUNT, "connectionId": CONNECTION, "clientId": CLIENT,
    "proposal_id": PROPOSAL, "klasse": "A2", "made_on": "2026-03-02", "betrag": 119.0, "name": "Muster GmbH", "zeilen": LINES,
    "von": "user:0193b2a0-0000-7000-8000-000000000002", "am": _AT, "ruecknahme": None,
}  # fmt: skip
_TRANSACTION = {
    "id": TRANSACTION, "account_id": ACCOUNT, "status": "proposed", "entfernt": False, "made_on": "2026-03-02", "betrag": 119.0,
    "currency_code": "EUR", "name": "Muster GmbH", "iban": "DE02120300000000202051",
    "verwendungszweck": "Rechnung RE-2026-00123 danke", "vorschlag": _PROPOSAL, "match_id": None,
}  # fmt: skip
_STORED_RULE = {
    "id": _RULE, "name": "Miete Büro", "sachkonto": "42100000", "text": "Miete", "iban": "", "richtung": "ausgang",
    "von": 700.0, "bis": 900.0,
}  # fmt: skip

SETTINGS: dict[str, Any] = {"data": _SETTINGS}
ALL_SETTINGS: dict[str, Any] = {"data": [_SETTINGS]}
SETTINGS_SENT: dict[str, Any] = {"connectionId": CONNECTION, "sachkonto": "1200", "automatisch": ["A1", "A2"]}
TRANSACTIONS: dict[str, Any] = {"data": [_TRANSACTION]}
ONE_TRANSACTION: dict[str, Any] = {"data": {**_TRANSACTION, "vorschlaege": [_PROPOSAL], "zuordnungen": []}}
IGNORED: dict[str, Any] = {"data": {**_TRANSACTION, "status": "ignored", "vorschlaege": [_PROPOSAL], "zuordnungen": []}}
REJECTED: dict[str, Any] = {"data": {**_PROPOSAL, "status": "rejected"}}
CONFIRMATIONS: dict[str, Any] = {"data": [{"id": PROPOSAL, "match_id": MATCH, "fehler": None}]}
MATCHED: dict[str, Any] = {"data": _MATCH}
MATCHES: dict[str, Any] = {"data": [_MATCH]}
MATCHED_BY_HAND: dict[str, Any] = {
    "data": {
        **_MATCH, "proposal_id": None, "klasse": None, "betrag": 116.62,
        "zeilen": [*LINES, {"art": "skonto", "kontonummer": "100100000", "beleg": "RE-2026-00123", "betrag": -2.38}],
    }
}  # fmt: skip
MATCH_SENT: dict[str, Any] = {
    "transaction_id": TRANSACTION,
    "zeilen": [{"art": "posten", "kontonummer": "10010", "beleg": "RE-2026-00123", "betrag": 116.62, "skonto": 2.38}],
}
UNDONE: dict[str, Any] = {
    "data": {**_MATCH, "ruecknahme": {"id": _UNDO, "grund": "anderer Kunde", "von": _MATCH["von"], "am": _AT}}
}
LEARNED: dict[str, Any] = {
    "id": _LEARNED, "art": "iban", "wert": "DE02120300000000202051", "kontonummer": "100100000", "bestaetigt": 2,
    "wirksam": True, "zuerst": _AT, "zuletzt": _AT,
}  # fmt: skip
RULES: dict[str, Any] = {"data": [_STORED_RULE]}
RULES_SENT: dict[str, Any] = {
    "regeln": [
        {"name": "Miete Büro", "sachkonto": "4210", "text": "Miete", "richtung": "ausgang", "von": 700.0, "bis": 900.0}
    ]
}
REPORT: dict[str, Any] = {
    "data": {
        "account_id": ACCOUNT, "from_date": "2025-04-01", "to_date": "2026-03-31",
        "transaktionen": {"open": 4, "proposed": 12, "matched": 180, "ignored": 2, "booked": 31},
        "klassen": [{"klasse": "A2", "zuordnungen": 141, "automatisch": 130, "betrag": 61274.5, "zurueckgenommen": 0}],
        "automatisch": 130, "automatisch_zurueckgenommen": 0, "je_tausend": 0.0, "bestaetigt": 50, "davon_erster_platz": 48,
        "abgelehnt": 2,
    }
}  # fmt: skip
_BATCH = {
    "id": "0193b2a0-0000-7000-8000-000000000071", "account_id": ACCOUNT, "connectionId": CONNECTION, "clientId": CLIENT,
    "bucht": "kontobahn", "geschaeftsjahrStartDatum": "2026-01-01", "from_date": "2026-01-01", "to_date": "2026-03-31",
    "zuordnungen": 1, "stornos": 0, "summe": 119.0, "dateiname": "EXTF_Buchungsstapel_29098_55003_20260302_20260302.csv",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "importe": ["0193b2a0-0000-7000-8000-000000000072"], "von": "user:0193b2a0-0000-7000-8000-000000000002", "am": _AT,
}  # fmt: skip
_ROWS = {
    "zeilen": [
        {
            "match_id": MATCH, "transaction_id": TRANSACTION, "made_on": "2026-03-02", "storno": False, "kontonummer": "100100000",
            "beleg": "RE-2026-00123", "betrag": 119.0, "skonto": 0, "buchungstext": "Muster GmbH",
        }
    ],
    "ausgelassen": [],
    "posten": [{"kontonummer": "100100000", "beleg": "RE-2026-00123", "vorher": 119.0, "nachher": 0}],
}  # fmt: skip
BATCHES: dict[str, Any] = {"data": [_BATCH]}
BATCH: dict[str, Any] = {"data": {**_BATCH, **_ROWS}}
NEW_BATCH: dict[str, Any] = {**BATCH, "platform": {"neuesGuthaben": 99}}
