"""The letter with which a person vouches for the keys: printed, signed and sent to the bank, in German or English."""

from __future__ import annotations

import json
import threading
from datetime import date
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from kontobahn.bank_providers.ebics.wire import Access, KeptKey
from kontobahn.banking.interaction import Document, Language
from kontobahn.formats.ebics.keys import grouped

if TYPE_CHECKING:
    import typst

_TEXTS: dict[Language, dict[str, str]] = {
    "de": {
        "title": "Initialisierungsbrief für EBICS",
        "bank": "Bank", "host": "Host-ID", "partner": "Kunden-ID", "user": "Teilnehmer-ID", "protocol": "EBICS-Version",
        "date": "Datum", "company": "Auftraggeber", "address": "EBICS-Adresse",
        "A": "Öffentlicher Schlüssel für die elektronische Unterschrift",
        "X": "Öffentlicher Schlüssel für die Authentifikation",
        "E": "Öffentlicher Schlüssel für die Verschlüsselung",
        "version": "Version", "bits": "Bit", "exponent": "Exponent", "modulus": "Modulus", "certificate": "Zertifikat",
        "hash_H005": "Hashwert des Zertifikats (SHA-256)", "hash_H004": "Hashwert des Schlüssels (SHA-256)",
        "confirm": "Ich bestätige hiermit die obigen öffentlichen Schlüssel für meinen EBICS-Zugang.",
        "place": "Ort, Datum", "name": "Name", "signature": "Unterschrift",
    },
    "en": {
        "title": "Initialisation letter for EBICS",
        "bank": "Bank", "host": "Host ID", "partner": "Partner ID", "user": "User ID", "protocol": "EBICS version",
        "date": "Date", "company": "Customer", "address": "EBICS address",
        "A": "Public key for the electronic signature",
        "X": "Public key for authentication",
        "E": "Public key for encryption",
        "version": "Version", "bits": "bits", "exponent": "Exponent", "modulus": "Modulus", "certificate": "Certificate",
        "hash_H005": "Hash of the certificate (SHA-256)", "hash_H004": "Hash of the key (SHA-256)",
        "confirm": "I hereby confirm the above public keys for my EBICS access.",
        "place": "Place, date", "name": "Name", "signature": "Signature",
    },
}  # fmt: skip
_lock = threading.Lock()
_VERSIONS = {"H005": "3.0 (H005)", "H004": "2.5 (H004)"}
_NAMES: dict[Language, str] = {"de": "EBICS-Brief", "en": "EBICS-letter"}


def letters(access: Access, day: date) -> tuple[Document, ...]:
    """Returns the letter in both languages. Slow: run it in a thread."""
    return tuple(
        Document(f"{_NAMES[language]}-{access.user_id}.pdf", "application/pdf", _pdf(access, day, language), language)
        for language in ("de", "en")
    )


def _pdf(access: Access, day: date, language: Language) -> bytes:
    texts = _TEXTS[language]
    facts = [
        [texts["date"], day.strftime("%d.%m.%Y") if language == "de" else day.isoformat()],
        [texts["bank"], access.bank_name], [texts["address"], access.url], [texts["company"], access.company],
        [texts["host"], access.host_id], [texts["partner"], access.partner_id], [texts["user"], access.user_id],
        [texts["protocol"], _VERSIONS[access.protocol]],
    ]  # fmt: skip
    data = {
        "language": language, "title": texts["title"], "person": f"{access.partner_id} · {access.user_id}",
        "facts": facts, "confirm": texts["confirm"],
        "lines": [texts["place"], texts["name"], texts["signature"]],
        "keys": [
            _key(access, kept, texts, texts[kept.version[0]])
            for kept in (access.signature, access.authentication, access.encryption)
        ],
    }  # fmt: skip
    with _lock:
        made = _compiler().compile(_template(), format="pdf", sys_inputs={"data": json.dumps(data)})
    assert isinstance(made, bytes)
    return made


def _key(access: Access, kept: KeptKey, texts: dict[str, str], title: str) -> dict[str, Any]:
    key = kept.own().public()
    modulus = f"{key.modulus:X}"
    return {
        "title": title,
        "facts": [
            [texts["version"], f"{kept.version} · {key.modulus.bit_length()} {texts['bits']}"],
            [texts["exponent"], f"{key.exponent:X}"],
            [texts["modulus"], "\n".join(_pairs(modulus[start : start + 48]) for start in range(0, len(modulus), 48))],
        ],
        "hash_title": texts[f"hash_{access.protocol}"],
        "hash": grouped(key.digest(access.protocol)),
    }


def _pairs(digits: str) -> str:
    return " ".join(digits[start : start + 2] for start in range(0, len(digits), 2))


@cache
def _compiler() -> typst.Compiler:
    # Imported for the first letter, not when the service starts.
    import typst

    # Only the typefaces bundled with Typst, so that the letter looks the same on every machine.
    return typst.Compiler(ignore_system_fonts=True)


@cache
def _template() -> bytes:
    return resources.files("kontobahn.bank_providers.ebics").joinpath("templates/letter.typ").read_bytes()
