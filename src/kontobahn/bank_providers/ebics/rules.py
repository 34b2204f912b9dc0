"""EBICS translated: return codes to failures, and the way from the data sheet to the first statement to the steps that pages show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from kontobahn.bank_providers.ebics.wire import Access
from kontobahn.banking.bank_line import Ability, LineFacts
from kontobahn.banking.interaction import CONFIRM, Document, Field, Option, Step, Words
from kontobahn.banking.provider import PersonNeeded, ProviderDown, ProviderRefused
from kontobahn.formats.ebics import answers as codes
from kontobahn.formats.ebics.answers import Answer, NotSigned
from kontobahn.formats.ebics.keys import Protocol, grouped
from kontobahn.formats.ebics.services import KNOWN, Kind, Rights, asked_for

NOT_GRANTED = "ProviderAccessNotGranted"
SUSPENDED = "You have had the bank lock this access. Delete it, and connect anew with a new user and a new letter"
NEW_KEYS = "The bank has new keys. Reconnect, and compare their hashes with the bank's letter"


def failure(code: str, text: str = "") -> Exception:
    """Returns what to raise for an answer with this code."""
    words = codes.in_words(code, text)
    if code == codes.NEW_BANK_KEYS:
        return PersonNeeded(NEW_KEYS)
    if code in codes.USER_STATE or code == "061001":
        return ProviderRefused(NOT_GRANTED, words, code)
    if code in codes.PASSING:
        return ProviderDown(f"{words}.")
    return ProviderRefused("ProviderError", words, code)


def check(answer: Answer) -> None:
    """Raises unless the bank did what it was asked for."""
    for code in (answer.technical, answer.business):
        if code not in codes.NOTICES:
            raise failure(code, answer.text)


def not_signed(error: NotSigned) -> Exception:
    """Returns what to raise for an answer that is not the bank's: nothing that it says is believed, but that there may be new keys."""
    if error.code == codes.NEW_BANK_KEYS:
        return PersonNeeded(NEW_KEYS)
    return ProviderRefused("ProviderError", str(error).rstrip("."))


def missing_rights(rights: Rights | None, protocol: str) -> list[str]:
    """Returns in sentences what to ask the bank for; nothing if it does not tell the rights."""
    if rights is None:
        return []
    found = []
    if not rights.orders_of("camt.053") and not rights.orders_of("mt940"):
        name = asked_for("camt.053", "H004" if protocol == "H004" else "H005")
        found.append(
            f"Your bank has not allowed you to fetch account statements (camt.053): ask it for the right {name}."
        )
    return found


def wanted_kinds(rights: Rights | None) -> tuple[Kind, ...]:
    """Returns what is fetched: statements, MT940 only where there is no camt, notifications only where there are no statements."""
    if rights is None:
        return ("camt.053",)
    booked: Kind = "camt.053" if rights.orders_of("camt.053") else "mt940"
    if not rights.orders_of(booked):
        booked = "camt.054"
    return tuple(kind for kind in (booked, "camt.052", "pain.002", "payee_checks") if rights.orders_of(kind))


# --- The line in words


# The order in which people look for them.
_ABILITIES: tuple[Kind, ...] = (
    "camt.053", "mt940", "camt.052", "camt.054", "pain.002", "payee_checks",
    "transfers", "checked_transfers", "instant_transfers", "checked_instant_transfers",
)  # fmt: skip


def line_facts(access: Access, *, signs: bool) -> LineFacts:
    rights = access.told_rights()
    own = (access.signature, access.authentication, access.encryption)
    return LineFacts(
        version="3.0 (H005)" if access.protocol == "H005" else "2.5 (H004)",
        host_id=access.host_id, partner_id=access.partner_id, user_id=access.user_id,
        user_name=(rights.user_name if rights else None) or "",
        abilities=None if rights is None else tuple(_ability(rights, kind, access.protocol) for kind in _ABILITIES),
        to_fetch=tuple(access.to_fetch), asked_at=access.asked_at, signs=signs,
        hashes=tuple((key.version, grouped(key.own().public().digest(access.protocol))) for key in own),
        keys_since=access.keys_since or access.sent_at, has_new_keys=bool(access.next_keys),
        suspended_at=access.suspended_at or None,
    )  # fmt: skip


def _ability(rights: Rights, kind: Kind, protocol: Protocol) -> Ability:
    is_upload = KNOWN[kind].direction == "upload"
    classes = rights.classes_of(kind) if is_upload else set()
    return Ability(kind, bool(rights.orders_of(kind)), ", ".join(sorted(classes)), asked_for(kind, protocol))


# --- Steps


UPLOAD = Words("Datenblatt als Datei (PDF oder Text)", "Data sheet as a file (PDF or text)")
BANK_HAS_IT = Words(
    "Die Angaben stehen im EBICS-Datenblatt (Bankparameterblatt) Ihrer Bank.",
    "You find these in your bank's EBICS data sheet.",
)


def choice_step(waiting: list[tuple[str, Access]]) -> Step:
    """Asks whether to go on with an access that waits, or to begin with a new one."""
    options = tuple(
        Option(ref, f"{access.bank_name}: {access.host_id} / {access.partner_id} / {access.user_id}")
        for ref, access in waiting
    )
    return Step(
        "choice",
        Words("EBICS-Zugang", "EBICS access"),
        choice="access",
        legend=Words("Womit möchten Sie weitermachen?", "What would you like to go on with?"),
        options=(*options, Option("new", "Neuer Zugang / new access")),
    )


PROPOSED = Words(
    "Vorschlag aus Ihrem Datenblatt: Bitte vergleichen Sie ihn mit dem Papier.",
    "Proposed from your data sheet: please compare it with the paper.",
)
NOTHING_PROPOSED = Words(
    "In der Datei wurde nichts gefunden, was in dieses Formular gehört. Bitte füllen Sie es von Hand aus.",
    "Nothing that belongs in this form was found in the file. Please fill it in by hand.",
)


def _proposing(fields: tuple[Field, ...], proposed: Mapping[str, str]) -> tuple[Field, ...]:
    """Puts proposals into the fields that they fit into, and says of each that it is one."""
    return tuple(
        field._replace(value=proposed[field.name], hint=PROPOSED)
        if len(proposed.get(field.name, "")) in range(1, field.max_length + 1)
        else field
        for field in fields
    )


def data_sheet_step(proposed: Mapping[str, str] | None = None) -> Step:
    """Asks for the data sheet; with what a file of it seems to say, if there was one."""
    fields: tuple[Field, ...] = (
        Field("bank", Words("Name der Bank", "Name of the bank"), max_length=100),
        Field("url", Words("EBICS-Adresse (URL)", "EBICS address (URL)"), hint=BANK_HAS_IT, max_length=500),
        Field("host", Words("Host-ID", "Host ID"), max_length=35),
        Field("partner", Words("Kunden-ID (Partner-ID)", "Partner ID"), max_length=35),
        Field("user", Words("Teilnehmer-ID (User-ID)", "User ID"), max_length=35),
        Field("company", Words("Firma und Name der unterzeichnenden Person", "Company and name of the person who signs"), max_length=140),
    )  # fmt: skip
    hint = Words(
        "Die Schlüssel entstehen hier und verlassen diese Installation nie. Bestellen Sie bei der Bank einen technischen Teilnehmer mit"
        " Unterschriftsklasse T: Er kann Auszüge abholen und Aufträge einreichen, aber nichts freigeben.",
        "The keys are made here and never leave this installation. Order a technical user of signature class T from the bank: it can"
        " fetch statements and submit orders, but release nothing.",
    )
    return Step(
        "form", Words("Bankparameterblatt", "Data sheet of the bank"), hint=NOTHING_PROPOSED if proposed == {} else hint,
        fields=_proposing(fields, proposed or {}), upload=UPLOAD,
    )  # fmt: skip


def letter_step(documents: tuple[Document, ...], refused: str | None = None) -> Step:
    """`refused` is the code that the bank answered with, if it was asked and does not take the user yet."""
    hint = Words(
        "Ihre Schlüssel sind bei der Bank. Drucken Sie den Brief aus, unterschreiben Sie ihn und schicken Sie ihn der Bank. Die Bank"
        " schaltet Sie frei, sobald sie die Hashwerte verglichen hat; das dauert meist einige Tage. Sie können diese Seite schließen und"
        " später unter „Bank verbinden“ mit demselben Zugang weitermachen. Ist die Freischaltung da, geht es hier weiter.",
        "Your keys are at the bank. Print the letter, sign it and send it to the bank. It activates you once it has compared the hashes,"
        " which usually takes some days. You may close this page and go on later with the same access under “Connect a bank”. Once you"
        " are activated, go on here.",
    )
    if refused is not None:
        code = f" (Code {refused})" if refused else ""
        hint = Words(
            f"Die Bank hat Sie noch nicht freigeschaltet, oder sie hat den Zugang gesperrt{code}. {hint.de}",
            f"The bank has not activated you yet, or has locked the access{code.lower()}. {hint.en}",
        )
    return Step(
        "form", Words("Brief an die Bank", "Letter to the bank"), hint=hint, documents=documents,
        button=Words("Die Bank hat mich freigeschaltet", "The bank has activated me"),
    )  # fmt: skip


def comparison_step(proposed: Mapping[str, str]) -> Step:
    hint = Words(
        "Die Bank hat ihre Schlüssel geschickt, aber niemand bürgt dafür, dass sie es war. Übertragen Sie beide Hashwerte aus dem Brief"
        " oder von der Internetseite der Bank. Stimmt einer nicht, wird nichts verbunden.",
        "The bank has sent its keys, but nobody vouches that it was the bank. Copy both hashes from the bank's letter or website. If one"
        " differs, nothing is connected.",
    )
    fields = (
        Field(
            "x002", Words("Hashwert Authentifikation (X002)", "Hash for authentication (X002)"), "long", max_length=200
        ),
        Field("e002", Words("Hashwert Verschlüsselung (E002)", "Hash for encryption (E002)"), "long", max_length=200),
    )
    return Step(
        "form", Words("Schlüssel der Bank vergleichen", "Compare the bank's keys"), hint=hint,
        fields=_proposing(fields, proposed), button=CONFIRM,
    )  # fmt: skip


# --- A data sheet (Bankparameterblatt) as text: what it seems to say, for a person to confirm
#
# Banks have no form for it in common. A value is proposed only where a label that banks use stands before it, and only if the sheet
# does not say something else under the same label elsewhere.


SheetName = Literal["bank", "url", "host", "partner", "user", "x002", "e002"]
MAX_SHEET_LENGTH = 200_000
_BETWEEN = r"[\s:=;|\"'>.]*"
# In capitals and digits, as banks print ids: words of the sheet's own sentences are none.
_ID = r"(?P<value>[A-Z0-9][A-Z0-9,=]{1,34})(?![\w/-])"
_LABELS: dict[SheetName, str] = {
    "host": r"(?:EBICS[ -]?)?Host[ -]?(?:ID|Name)|Bankrechner(?:[ -]?ID|name)?",
    "partner": r"(?:Kunden|Partner|Customer)[ -]?(?:ID|Kennung)",
    "user": r"(?:Teilnehmer|User|Benutzer|Nutzer)[ -]?(?:ID|Kennung)",
}
_NO_IDS = frozenset({"ID", "EBICS", "HOST", "PARTNER", "USER", "URL", "KUNDEN", "TEILNEHMER", "SHA", "SHA256"})
_URL = re.compile(r"https?://[^\s\"'<>;|]+", re.IGNORECASE)
_BANK = re.compile(r"(?:Name der Bank|Kreditinstitut|Institut|Bank name|Bank)\s*[:=]\s*(?P<value>[^\n\r;|\"<]{3,100})")
# 64 hexadecimal digits, in groups or not; the version of the key stands before them.
_HEX = r"[0-9A-Fa-f]"
_HASH = re.compile(
    rf"(?<!{_HEX})(?<!{_HEX}[\s:-])(?P<value>(?:{_HEX}{{2}}[\s:-]{{0,4}}){{31}}{_HEX}{{2}})(?![\s:-]{{0,4}}{_HEX}{{2}}\b)(?!{_HEX})"
)
_MAX_BETWEEN = 200


class Sheet(NamedTuple):
    """By name: what the sheet seems to say. What it does not say clearly is not there."""

    values: dict[SheetName, str]


def read_sheet(text: str) -> Sheet:
    text = text[:MAX_SHEET_LENGTH]
    found: dict[SheetName, str] = {}
    for name, label in _LABELS.items():
        pattern = re.compile(rf"(?i:(?<![\w-])(?:{label}))\W{{0,3}}{_BETWEEN}{_ID}")
        _take(found, name, {match["value"] for match in pattern.finditer(text)} - _NO_IDS)
    urls = {url.rstrip(".,)") for url in _URL.findall(text)}
    _take(found, "url", {url for url in urls if "ebics" in url.lower()} or urls)
    for name, version in (("x002", "X002"), ("e002", "E002")):
        _take(found, name, _hashes(text, version))
    _take(found, "bank", {match["value"].strip() for match in _BANK.finditer(text)})
    return Sheet(found)


def _take(found: dict[SheetName, str], name: SheetName, values: set[str]) -> None:
    if len(values) == 1:
        found[name] = values.pop()


def _hashes(text: str, version: str) -> set[str]:
    """Returns the hashes before which this version was the last one named."""
    # Both may look like digits of the hash that follows them.
    text = re.sub(r"\b([AXE])00(\d)\b", r"<\1\2>", re.sub(r"(?i)SHA[ -]?256", "#", text))
    found = set()
    for match in _HASH.finditer(text):
        named = re.findall(r"<(.)(.)>", text[max(0, match.start() - _MAX_BETWEEN) : match.start()])
        if named and named[-1] == (version[0], version[-1]):
            found.add("".join(re.findall(_HEX, match["value"])).upper())
    return found
