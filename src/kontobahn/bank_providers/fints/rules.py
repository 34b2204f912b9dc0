"""FinTS translated: return codes to failures, documents to a snapshot, and what a bank wants to the steps that hosted pages show."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from kontobahn.bank_providers.fints.wire import IN_MEMORY, Challenge, Documents, Login, Method, SeenAccount
from kontobahn.banking.imports.files import entry_facts, reference_of
from kontobahn.banking.interaction import CONFIRM, Field, Option, Picture, Polling, Step, StepKind, Words
from kontobahn.banking.provider import (
    LOCKED,
    AccountFacts,
    BankConnectionFacts,
    Nature,
    NotRead,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    Snapshot,
    TransactionFacts,
)
from kontobahn.banking.reports.intake import Gathered
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Balance, Closing, Entry, Opening, StatementError
from kontobahn.sentences import said

# (code, text) as the bank sent them.
Codes = Sequence[tuple[str, str]]

# In this order: a locked access is also one whose PIN was wrong. No machine may try again after any of the first three lines.
_CLASSES: tuple[tuple[str, frozenset[str]], ...] = (
    (LOCKED, frozenset({"3931", "3938", "9930", "9931"})),
    ("InvalidCredentials", frozenset({"9340", "9910", "9942"})),
    ("InvalidInteractiveCredentials", frozenset({"9941", "9943"})),
    ("InteractiveTimeout", frozenset({"9951"})),
)
# The bank wants a strong confirmation, or to know this installation anew: with the person there, both are done by reconnecting.
_NEEDS_PERSON = frozenset({"9075", "9391"})
_NOT_REGISTERED = frozenset({"3078", "9078"})
_MAINTENANCE = frozenset({"9997"})


def is_failure(code: str) -> bool:
    """Returns whether a code is an error, or a warning that says the access is locked."""
    return code.startswith("9") or code in _CLASSES[0][1]


def failure(codes: Codes) -> Exception:
    """Returns what to raise for an answer with these codes."""
    present = {code for code, _ in codes}
    words = _said(codes)
    for error_class, members in _CLASSES:
        if present & members:
            return ProviderRefused(error_class, words, ", ".join(sorted(present & members)))
    if present & _NEEDS_PERSON:
        return PersonNeeded(words)
    if present & _NOT_REGISTERED:
        return ProviderRefused(
            "ProviderError", said("The bank does not accept the product id (fints_product_id): {reason}", reason=words)
        )
    if present & _MAINTENANCE:
        return ProviderDown(said("The bank is being maintained: {reason}.", reason=words))
    return ProviderRefused("ProviderError", words, ", ".join(sorted(code for code in present if is_failure(code))))


def concerns_one_order(codes: Codes) -> bool:
    """Returns whether a bank refused an order, and neither the person, the installation nor the dialog."""
    present = {code for code, _ in codes}
    error = failure(codes)
    is_general = isinstance(error, ProviderRefused) and error.error_class == "ProviderError"
    return is_general and "9800" not in present and not present & _NOT_REGISTERED


def _said(codes: Codes) -> str:
    """The bank's words about the failure, without those that only say that there was one."""
    failures = [(code, text) for code, text in codes if is_failure(code)]
    special = [item for item in failures if item[0] not in ("9050", "9800")] or failures
    return "; ".join(f"{text.strip().rstrip('.')} ({code})" for code, text in special)[:500] or "The bank refused"


# --- Snapshots, with the readers that statement files have


# Account types of the user parameters, by their tens.
_NATURES: dict[int, Nature] = {
    0: "checking",
    1: "savings",
    3: "investment",
    4: "loan",
    5: "credit_card",
    6: "investment",
}
# The account's number alone, after a bank's code and a slash, or right after a code of eight digits.
_BANK_AND_NUMBER = re.compile(r"(?:[0-9A-Z]{1,11}/)?((?:[0-9]{8})?([0-9]{1,10}))|([0-9]+)", re.ASCII)
# German banks' own marks for an empty document, and what XML needs at least.
_MIN_DOCUMENT = 20


def snapshot_of(
    login: Login, accounts: list[SeenAccount], documents: Documents, *, provider_ref: str, provider_code: str,
    next_refresh_possible_at: int,
) -> Snapshot:  # fmt: skip
    """Says which accounts cannot be read, or not as a whole: of these nothing is taken, since half a statement is worse than none."""
    facts, transactions = [], Gathered()
    not_read: list[NotRead] = []
    # By account: references that several of its bookings have.
    shared: dict[str, set[str]] = {}
    own = {account.iban for account in accounts}
    for number, account in enumerate(accounts):
        reading = _Reading(account)
        not_read += _not_allowed(account)
        for is_pending in (False, True):
            try:
                found = Gathered(reading.transactions(documents, number, own - {account.iban}, is_pending=is_pending))
            except StatementError as error:
                sentence = said(
                    "A statement of the bank cannot be read: {reason}", reason=error.without_file(_ref(account))
                )
                not_read.append(NotRead(_ref(account), sentence))
                break
            transactions.add(found)
        not_read += [NotRead(_ref(account), sentence) for sentence in reading.strange]
        facts.append(_account(account, reading.balance_minor))
        if reading.shared:
            shared[_ref(account)] = reading.shared
    if shared:
        transactions = Gathered(_without(transactions, shared))
    connection = BankConnectionFacts(
        provider_ref=provider_ref,
        provider_code=provider_code,
        provider_name=login.bank_name,
        country_code="DE",
        logo_url="",
        # Payments are order files, which every bank takes.
        templates=("SEPA", "SEPA_INSTANT"),
        # Choice 40: FinTS names no end of a consent.
        consent_expires_at=None,
        next_refresh_possible_at=next_refresh_possible_at,
        automatic_refresh=login.pin is not None,
    )
    return Snapshot(connection, facts, transactions, not_read=not_read)


def _not_allowed(account: SeenAccount) -> list[NotRead]:
    """Returns what the bank does not hand out of an account; the others do not suffer from it."""
    ref, found = _ref(account), []
    if not account.may_balance:
        found.append(NotRead(ref, "The bank does not let this login read the account's balance.", is_lost=False))
    if not account.may_bookings:
        found.append(NotRead(ref, "The bank does not let this login read the account's transactions.", is_lost=False))
    if account.balance_told:
        text = said(
            "The balance {text} cannot be read as an amount in {currency}.",
            text=account.balance_told,
            currency=account.currency,
        )
        found.append(NotRead(ref, text, is_lost=False))
    if account.refused:
        found.append(
            NotRead(ref, said("The bank refused to let the account be read: {reason}.", reason=_said(account.refused)))
        )
    return found


def _account(account: SeenAccount, closing_minor: int | None) -> AccountFacts:
    balance = account.balance_minor if account.balance_minor is not None else closing_minor
    return AccountFacts(
        provider_ref=_ref(account),
        name=account.name or f"Konto {account.number}",
        nature=_NATURES.get(account.type // 10, "account"),
        balance_minor=balance,
        currency_code=account.currency,
        iban=account.iban or None,
        holder_name=account.holder,
    )


def _ref(account: SeenAccount) -> str:
    return account.iban or f"{account.blz}/{account.number}/{account.sub}"


class _Reading:
    """Reads an account's documents one after the other; afterwards `balance_minor` is what the latest one closes with.

    `shared` are references that several bookings have: such a one identifies none of them.
    """

    def __init__(self, account: SeenAccount) -> None:
        self._account = account
        # Digests, because there may be hundreds of thousands.
        self._seen: set[int] = set()
        self._latest: Balance | None = None
        self.shared: set[str] = set()
        # Sentences about statements that were left out.
        self.strange: list[str] = []

    @property
    def balance_minor(self) -> int | None:
        return None if self._latest is None else self._latest.amount_minor

    def transactions(
        self, documents: Documents, number: int, own: set[str], *, is_pending: bool
    ) -> Iterator[TransactionFacts]:
        """Raises StatementError if a document cannot be read."""
        ref = _ref(self._account)
        for file in _files(documents.of_account(number, is_pending=is_pending)):
            for entry in self._entries(file, is_pending=is_pending):
                reference = reference_of(entry)
                if reference is not None:
                    if hash(reference) in self._seen:
                        self.shared.add(reference)
                    self._seen.add(hash(reference))
                yield entry_facts(entry, ref, own, reference=reference)

    def _is_later(self, balance: Balance) -> bool:
        return self._latest is None or balance.day >= self._latest.day

    def _entries(self, file: IO[bytes], *, is_pending: bool) -> Iterator[Entry]:
        account = self._account
        names, is_own = _Names(account), True
        items = read(file, _ref(account), ibans=names, unbalanced=True, pending=is_pending)  # type: ignore[arg-type]
        for item in items:
            if isinstance(item, Opening):
                is_own = not account.iban or item.account.iban == account.iban
                if not is_own:
                    self.strange.append(
                        said("A statement is about another account ({iban}), and was left out.", iban=item.account.iban)
                    )
            elif isinstance(item, Entry) and is_own:
                yield item
            elif (
                isinstance(item, Closing)
                and is_own
                and not is_pending
                and item.balance
                and self._is_later(item.balance)
            ):
                self._latest = item.balance


def _without(transactions: Gathered, shared: dict[str, set[str]]) -> Iterator[TransactionFacts]:
    for facts in transactions:
        is_shared = facts.provider_ref in shared.get(facts.account_ref, ())
        yield facts._replace(provider_ref=None) if is_shared else facts


def _files(documents: Iterator[bytes]) -> Iterator[IO[bytes]]:
    """Puts the parts of an MT940 together, which banks cut at any place. camt comes in whole documents."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as whole:
        for document in documents:
            if document.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"<":
                whole.write(document)
            elif not _is_empty(document):
                yield io.BytesIO(document)
        if whole.tell() >= _MIN_DOCUMENT:
            whole.seek(0)
            yield whole


def _is_empty(document: bytes) -> bool:
    """Returns whether it is a camt without a report, which some banks send where there is nothing."""
    return b"Rpt>" not in document and b"Stmt>" not in document


class _Names(Mapping[str, str]):
    """The names by which a bank calls the account that it was asked for: its number, with the bank's code of today, an old one or none."""

    def __init__(self, account: SeenAccount) -> None:
        self._iban, self._number = account.iban, account.number.lstrip("0")

    def __getitem__(self, name: str) -> str:
        digits = _BANK_AND_NUMBER.fullmatch(name.replace(" ", ""))
        numbers = {text.lstrip("0") for text in digits.groups() if text} if digits else set()
        if not self._iban or not self._number or self._number not in numbers:
            raise KeyError(name)
        return self._iban

    def __iter__(self) -> Iterator[str]:
        return iter((self._number,))

    def __len__(self) -> int:
        return 1


# --- Steps


OTHER = Words(
    "Die Angaben stehen in den Unterlagen Ihrer Bank unter „FinTS“ oder „HBCI mit PIN/TAN“.",
    "Your bank's documents have these under “FinTS” or “HBCI with PIN/TAN”.",
)
PIN_STAYS = Words(
    "Anmeldename und PIN gehen von dieser Installation direkt an Ihre Bank.",
    "Login and PIN go from this installation directly to your bank.",
)


def sign_in_step(user: str, *, is_other: bool, is_kept: bool) -> Step:
    bank = (
        Field("blz", Words("Bankleitzahl", "Bank code (BLZ)"), "digits", max_length=8),
        Field("url", Words("FinTS-Adresse", "FinTS address"), hint=OTHER, max_length=500),
    )
    fields = (
        *(bank if is_other else ()),
        Field("user", Words("Anmeldename oder Legitimations-ID", "Login"), value=user, max_length=100, autocomplete="username"),
        Field(
            "customer", Words("Kunden-ID", "Customer id"), is_required=False, max_length=100,
            hint=Words("Nur wenn Ihre Bank eine eigene verlangt.", "Only if your bank wants one."),
        ),
        Field("pin", Words("PIN", "PIN"), "secret", max_length=99),
        Field(
            "keep", Words("PIN verschlüsselt aufbewahren", "Keep the PIN, encrypted"), "check", value="yes" if is_kept else "",
            hint=Words(
                "Dann kommen neue Umsätze von selbst. Sonst geben Sie die PIN bei jedem Abruf ein.",
                "New transactions then come by themselves. Otherwise you enter the PIN each time.",
            ),
        ),
        Field(
            "more", Words("Auch ältere Umsätze", "Older transactions too"), "check",
            hint=Words(
                "So weit zurück, wie die Bank sie hat. Dafür verlangt sie meistens eine TAN.",
                "As far back as the bank has them. It usually wants a TAN for that.",
            ),
        ),
    )  # fmt: skip
    return Step("form", Words("Bei der Bank anmelden", "Sign in at your bank"), hint=PIN_STAYS, fields=fields)


def method_step(methods: list[Method]) -> Step:
    options = tuple(Option(method.code, method.name) for method in methods)
    legend = Words("Womit bestätigen Sie?", "How do you confirm?")
    return Step(
        "choice", Words("TAN-Verfahren wählen", "Choose a TAN method"), choice="method", legend=legend, options=options
    )


def device_step(names: list[str]) -> Step:
    options = tuple(Option(name, name) for name in names)
    legend = Words("Mit welchem Gerät?", "With which device?")
    return Step("choice", Words("Gerät wählen", "Choose a device"), choice="device", legend=legend, options=options)


def challenge_step(challenge: Challenge) -> Step:
    if challenge.is_decoupled:
        polling = Polling(
            challenge.first_seconds, challenge.next_seconds, challenge.max_polls, challenge.by_itself, challenge.by_hand
        )
        return Step(
            "decoupled", Words("In der App bestätigen", "Confirm in the app"), said=challenge.text, polling=polling
        )
    field = Field("tan", Words("TAN", "TAN"), max_length=99, autocomplete="one-time-code")
    kind: StepKind = "form"
    picture = None
    if challenge.image is not None and challenge.image_type is not None:
        kind, picture = "image", Picture(challenge.image_type, challenge.image)
    elif challenge.flicker is not None:
        kind = "flicker"
    return Step(
        kind, Words("TAN eingeben", "Enter the TAN"), said=challenge.text, fields=(field,), picture=picture,
        flicker=challenge.flicker if kind == "flicker" else None, button=CONFIRM,
    )  # fmt: skip
