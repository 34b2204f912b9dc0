"""Salt Edge behind the port: people choose their bank and sign in on its pages, and callbacks report the outcome.

Callbacks say that something happened, never what: connections are read again. Payments have no key against doubling there, so a
creation is sent once, and after one without an answer they are looked for by our end-to-end id.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

import msgspec

from kontobahn.bank_providers.http import Network, NotSent, path_part, read_key_file, read_private_key
from kontobahn.bank_providers.salt_edge import client, rules
from kontobahn.bank_providers.salt_edge.client import Answered, Directory, SaltEdgeClient, translated
from kontobahn.bank_providers.salt_edge.rules import (
    PAYMENT_NEWS,
    PROVIDER_NEWS,
    REMEDIES,
    TOKEN_FIELD,
    class_of,
    payment_report,
)
from kontobahn.bank_providers.salt_edge.wire import (
    Account,
    Callback,
    CallbackBody,
    Connection,
    ConnectPage,
    Consent,
    Customer,
    One,
    Page,
    Payment,
    Provider,
    Refreshed,
    custom,
    instant,
)  # fmt: skip
from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    CANNOT_BE_KNOWN,
    BadSignature,
    BankConnectionFacts,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentReported,
    PaymentStart,
    PersonHere,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import DAY, HOUR, Clock, berlin_date
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign
from kontobahn.sentences import said, without_stop
from kontobahn.settings import Settings
from kontobahn.vault import Vault

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey


# Callbacks: whether Salt Edge signed them, and what they report. They come at least once, in any order, one address for
# each kind.


# A callback that is older was recorded by somebody: repeats are recognised for longer than this.
MAX_AGE = 14 * DAY
_PEM = re.compile(rb"-----BEGIN [A-Z ]{1,40}-----.+?-----END [A-Z ]{1,40}-----", re.DOTALL)


def read_public_keys(path: Path) -> list[RSAPublicKey]:
    """Reads the keys that callbacks are signed with: several while one replaces another. Raises SetupError with the reason."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = read_key_file(path, "salt_edge_callback_key")
    try:
        keys = [load_pem_public_key(block) for block in _PEM.findall(content)]
    except ValueError:
        keys = []
    found = [key for key in keys if isinstance(key, RSAPublicKey)]
    if not found or len(found) < len(keys):
        raise SetupError(f"The file salt_edge_callback_key ({path}) is not a PEM public RSA key.")
    return found


def check(keys: list[RSAPublicKey], delivery: Delivery, now: int) -> str:
    """Returns the delivery's id. Raises BadSignature unless one of the keys signed the configured address and the raw body."""
    try:
        signature = base64.b64decode(delivery.headers.get("signature", ""), validate=True)
    except (binascii.Error, ValueError):
        signature = b""
    text = delivery.url.encode() + b"|" + delivery.body
    if not signature or not any(_is_signed(key, signature, text) for key in keys):
        version = delivery.headers.get("signature-key-version", "unknown")[:20]
        raise BadSignature(
            f"no key in salt_edge_callback_key signed this for {delivery.url} (version of the key: {version})"
        )
    try:
        meta = decode_foreign(delivery.body, CallbackBody).meta
    except msgspec.MsgspecError:
        raise BadSignature("it is signed, but not a callback") from None
    sent_at = instant(meta.time) if meta else None
    if sent_at is not None and sent_at < now - MAX_AGE:
        raise BadSignature(f"it was sent at {meta.time if meta else None}, which is too long ago")
    digest = hashlib.sha256(delivery.kind.encode() + b"|" + delivery.body).hexdigest()
    # Without a time, the news of today reads like that of yesterday. To apply one twice does no harm: the connection is read again.
    return digest if sent_at is not None else f"{digest}-{now}"


def _is_signed(key: RSAPublicKey, signature: bytes, text: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        key.verify(signature, text, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def reports(kind: str, body: bytes) -> list[Report]:
    news = decode_foreign(body, CallbackBody).data
    if kind in PAYMENT_NEWS:
        return _payment_reports(kind, news)
    if news.connection_id is None and kind != "fail":
        return []
    ref = None if news.connection_id is None else str(news.connection_id)
    token = custom(news.custom_fields).get(TOKEN_FIELD)
    token = token if isinstance(token, str) else None
    match kind:
        case "success" if ref and news.stage in (None, "finish"):
            return [ConnectionFinished(ref, token)]
        case "fail":
            message = news.error_message or news.error_class or "The bank refused"
            # It may have been overtaken by a success, so the connection is asked.
            return [
                ConnectionFailed(class_of(news.error_class or "ProviderError"), message, ref, token, is_certain=False)
            ]
        case "destroy" if ref:
            return [ConnectionGone(ref)]
        case _:
            # Stages on the way, and news about banks.
            return []


def _payment_reports(kind: str, news: Callback) -> list[Report]:
    if news.payment_id is None:
        return []
    payment = Payment(
        status=news.status or ("failed" if kind == "payment-fail" else None),
        raw_provider_status=news.raw_provider_status,
        error_class=news.error_class,
        error_message=news.error_message,
    )
    return [PaymentReported(str(news.payment_id), payment_report(payment))]


def is_about_banks(kind: str) -> bool:
    return kind == PROVIDER_NEWS


NAME = "salt_edge"
# The lists that the bookings of a connection are in, in the order we read them.
LISTS: dict[str, dict[str, bool]] = {"posted": {}, "pending": {"pending": True}, "duplicated": {"duplicated": True}}
ROWS = 1000
SCOPES = ("accounts", "holder_info", "transactions")
# Accounts are read this many days back if the bank does not say how far it goes.
DAYS_BACK = 90
# The lifetime of a page of theirs if they do not say.
PAGE_LIFE = HOUR
# The facts of this many connections are kept from one page to the next.
KEPT = 256


class SaltEdgeProvider:
    name = NAME
    # Many banks never report more than `executed`: what is executed is settled by its debit, what is not waits for their word.
    debit_settles = False
    orders_are_files = False

    def __init__(
        self, client: SaltEdgeClient, clock: Clock, keys: list[Any], seal_key: bytes, *, sandboxes: bool
    ) -> None:
        self._client, self._clock, self._keys, self._seal_key = client, clock, keys, seal_key
        self._directory = Directory(client, clock, sandboxes=sandboxes)
        self._sandboxes = sandboxes
        self._facts: dict[str, BankConnectionFacts] = {}

    async def close(self) -> None:
        await self._client.close()

    async def banks(self) -> Sequence[ListedBank]:
        return await self._directory.banks()

    # --- Connecting

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        try:
            if request.provider_ref is not None:
                connection = await self._connection(request.provider_ref)
                bank = await self._directory.bank_or_none(connection.provider_code)
                path = f"/connections/{path_part(request.provider_ref)}/reconnect"
                body = self._flow(request, str(connection.customer_id), bank)
            else:
                bank = await self._directory.bank(request.provider_code) if request.provider_code else None
                customer = await self._customer(request.organization_id)
                path, body = "/connections/connect", self._flow(request, customer, bank)
                body |= {
                    "customer_id": customer,
                    # Our own schedule refreshes: two would use up the four times a day that banks allow.
                    "automatic_refresh": False,
                    "provider": {"include_sandboxes": self._sandboxes, **({"code": bank.code} if bank else {})},
                    "kyc": {"type_of_account": request.holder},
                }
            page = (await self._client.change(One[ConnectPage], "POST", path, body)).data
        except Answered as error:
            raise translated(error) from None
        expires_at = instant(page.expires_at) or self._clock.now() + PAGE_LIFE
        if bank is None:
            return ConnectStart(page.connect_url, expires_at)
        return ConnectStart(page.connect_url, expires_at, bank.name, bank.country_code, bank.logo_url or "")

    def _flow(self, request: ConnectRequest, customer: str, bank: Provider | None) -> dict[str, Any]:
        """Returns the part of the body that a connect and a reconnect have in common."""
        days = min((bank.max_fetch_interval if bank else None) or DAYS_BACK, 365)
        since = (berlin_date(self._clock.now()) - timedelta(days=days)).isoformat()
        scopes = list(request.scopes or SCOPES)
        consent: dict[str, Any] = {"scopes": scopes, "from_date": since}
        if bank and bank.max_consent_days:
            consent["period_days"] = bank.max_consent_days
        attempt = {
            "fetch_scopes": scopes,
            "fetch_from_date": since,
            "custom_fields": {rules.TOKEN_FIELD: request.pending_token},
            **({"return_to": self._return_to(request, customer)} if request.callback_url else {}),
            # Duplicates are marked, not deleted: what a bank books stays visible.
            "unduplication_strategy": "mark_as_duplicate",
            **({"locale": request.language} if request.language else {}),
        }
        return {"consent": consent, "attempt": attempt, "return_connection_id": True, "return_error_class": True}

    async def _customer(self, organization_id: str) -> str:
        """Returns whose connections these are at Salt Edge: one customer for each organisation."""
        identifier = organization_id
        try:
            made = (await self._client.change(One[Customer], "POST", "/customers", {"identifier": identifier})).data
        except Answered as error:
            if error.status != 409 and error.error_class != "DuplicatedCustomer":
                raise
            listed = await self._client.get(Page[Customer], "/customers", identifier=identifier)
            matching = [one for one in listed.data if one.identifier in (None, identifier)]
            if len(matching) != 1:
                raise ProviderDown("Salt Edge knows this organisation, but does not say as whom.") from None
            made = matching[0]
        found = made.customer_id if made.customer_id is not None else made.id
        if found is None:
            raise ProviderDown("Salt Edge's answer names no customer.")
        return str(found)

    # --- People who come back

    def _return_to(self, request: ConnectRequest, customer: str) -> str:
        token = request.pending_token
        fields = {"state": token, "customer": customer, "seal": self._seal(token, customer)}
        return f"{request.callback_url}?{urlencode(fields)}"

    def _seal(self, token: str, customer: str) -> str:
        return hmac.digest(self._seal_key, f"{token}|{customer}".encode(), hashlib.sha256).hex()[:32]

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        token, customer = fields["state"], fields.get("customer", "")
        if not hmac.compare_digest(fields.get("seal", "").encode(), self._seal(token, customer).encode()):
            raise ProviderRefused("ProviderError", "The address of the return was changed")
        ref, error_class = fields.get("connection_id"), fields.get("error_class")
        if not ref:
            ours = class_of(error_class or "Cancelled")
            return [ConnectionFailed(ours, fields.get("error_message") or ours, None, token)]
        try:
            connection = await self._connection(ref)
        except Answered as error:
            raise translated(error) from None
        # The address says which connection it is, and whoever returns can change that: it must be the organisation's own.
        if str(connection.customer_id) != customer:
            raise ProviderRefused("ConnectionNotFound", "The connection belongs to somebody else")
        attempt = connection.last_attempt
        if attempt is not None and attempt.fail_at and not attempt.success_at:
            failed = class_of(attempt.fail_error_class or error_class or "ProviderError")
            return [ConnectionFailed(failed, attempt.fail_message or failed, ref, token)]
        if attempt is not None and attempt.finished is False:
            raise ProviderDown("Salt Edge is still reading the accounts.")
        return [ConnectionFinished(ref, token)]

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "Salt Edge has pages of its own")

    async def abandon(self, state: bytes) -> None:
        """Does nothing: there are no steps on our pages."""

    # --- Reading

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        try:
            if page is None:
                return await self._first_page(provider_ref, since)
            name, _, ids = page.partition(":")
            from_id, _, after = ids.partition(":")
            facts = self._facts.get(provider_ref)
            if facts is None:
                facts, _ = await self._read_connection(provider_ref)
            return await self._page(Snapshot(facts, [], []), name, int(from_id or 0), int(after), since)
        except Answered as error:
            raise translated(error) from None

    async def _accounts(self, provider_ref: str) -> list[Account]:
        found: dict[str, Account] = {}
        next_id: str | int | None = None
        while True:
            page = await self._client.get(Page[Account], "/accounts", connection_id=provider_ref, from_id=next_id)
            before = len(found)
            found |= {str(account.id): account for account in page.data}
            if page.meta is None or page.meta.next_id is None or len(found) == before:
                return list(found.values())
            next_id = page.meta.next_id

    async def _first_page(self, provider_ref: str, since: date | None) -> Snapshot:
        facts, is_finished = await self._read_connection(provider_ref)
        found = await self._accounts(provider_ref)
        self._facts.pop(provider_ref, None)
        self._facts[provider_ref] = facts
        while len(self._facts) > KEPT:
            del self._facts[next(iter(self._facts))]
        begun = Snapshot(facts, rules.account_facts(found), [], is_partial=not is_finished)
        return await self._page(begun, "posted", 0, 0, since)

    async def _page(self, begun: Snapshot, name: str, from_id: int, after: int, since: date | None) -> Snapshot:
        """Returns a page of one of the lists; the next page is the list's next one, or the first of the next list."""
        ref = begun.connection.provider_ref
        # The pending list is read as a whole: a booking that is missing there is gone.
        from_date = since.isoformat() if since and name != "pending" else None
        found = await self._bookings(ref, name, from_id, after, from_date)
        if found.next_id is not None:
            if from_id and found.next_id <= from_id:
                raise ProviderDown("Salt Edge's list of transactions does not end.")
            next_page: str | None = f"{name}:{found.next_id}:{found.last_id}"
        else:
            names = list(LISTS)
            position = names.index(name) + 1
            next_page = f"{names[position]}::0" if position < len(names) else None
        return begun._replace(
            transactions=found.facts,
            next_page=next_page,
            is_partial=begun.is_partial or any(not told.account_ref for told in found.not_read),
            not_read=found.not_read,
        )

    async def _bookings(self, ref: str, name: str, from_id: int, after: int, from_date: str | None) -> rules.Bookings:
        query: dict[str, Any] = {"connection_id": ref, **LISTS[name], "from_id": from_id or None, "per_page": ROWS}

        def read(content: bytes) -> rules.Bookings:
            return rules.bookings(content, name, after)

        try:
            return await self._client.read(read, "/transactions", **query, from_date=from_date)
        except Answered as error:
            if from_date is None or error.status not in (400, 406) or error.is_later:
                raise
            # Not every version of the service takes a date; then it hands out everything, which is recognised.
            return await self._client.read(read, "/transactions", **query)

    async def _connection(self, provider_ref: str) -> Connection:
        return (await self._client.get(One[Connection], f"/connections/{path_part(provider_ref)}")).data

    async def _read_connection(self, provider_ref: str) -> tuple[BankConnectionFacts, bool]:
        """Returns the connection, and whether its last attempt is over. Raises ProviderRefused if the access does not work."""
        connection = await self._connection(provider_ref)
        consent = rules.consent_of(connection, await self._consents(provider_ref))
        rules.check_works(connection, consent)
        bank = await self._directory.bank_or_none(connection.provider_code)
        facts = rules.connection_facts(connection, bank, consent, self._clock.now())
        attempt = connection.last_attempt
        return facts, attempt is None or attempt.finished is not False

    async def _consents(self, provider_ref: str) -> list[Consent]:
        """Returns the consents; none if Salt Edge does not show them to this installation: then their end is not known."""
        try:
            return (await self._client.get(Page[Consent], "/consents", connection_id=provider_ref)).data
        except Answered as error:
            if error.is_passing or error.is_ours or error.error_class == "ConnectionNotFound":
                raise
            return []

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        try:
            connection = await self._connection(provider_ref)
            possible_at = instant(connection.next_refresh_possible_at)
            if possible_at is not None and possible_at > self._clock.now():
                # The bank is not asked before its time; what Salt Edge has is read.
                return [ConnectionFinished(provider_ref)]
            attempt: dict[str, Any] = {
                "fetch_scopes": list(SCOPES),
                "unduplication_strategy": "mark_as_duplicate",
                # Instead of the token of the flow that made the connection: its news are not that flow's.
                "custom_fields": {"refresh": kind},
            }
            if since is not None:
                attempt["fetch_from_date"] = since.isoformat()
            path = f"/connections/{path_part(provider_ref)}/refresh"
            answer = (await self._client.change(One[Refreshed], "POST", path, {"attempt": attempt})).data
        except Answered as error:
            raise translated(error) from None
        if answer.connect_url is not None:
            raise PersonNeeded("The bank wants the person to sign in", answer.connect_url)
        return ()

    async def remove(self, provider_ref: str) -> None:
        try:
            await self._client.change(msgspec.Raw, "DELETE", f"/connections/{path_part(provider_ref)}")
        except Answered as error:
            if error.status != 404 and error.error_class != "ConnectionNotFound":
                raise translated(error) from None

    # --- Paying

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        try:
            connection = await self._connection(order.connection_ref)
            accounts = await self._accounts(order.connection_ref)
        except Answered as error:
            raise _refusal(error) from None
        except ProviderDown as error:
            # Nothing was sent that could become a payment.
            raise ProviderRefused("ProviderUnavailable", without_stop(str(error))) from None
        if order.account_ref not in {str(account.id) for account in accounts}:
            raise ProviderRefused("AccountNotFound", "Salt Edge does not know the account any more")
        body = rules.payment_body(order, str(connection.customer_id), connection.provider_code)
        try:
            made = (await self._client.change(One[Payment], "POST", "/payments/create", body)).data
        except NotSent as error:
            raise ProviderRefused("ProviderUnavailable", without_stop(str(error))) from None
        except Answered as error:
            if error.is_certain:
                raise _refusal(error) from None
            raise ProviderDown(
                said("Salt Edge does not say whether it took the payment: {reason}.", reason=error.message)
            ) from None
        if made.ref is None:
            raise ProviderDown("Salt Edge's answer names no payment.")
        return self._start(made.ref, made)

    async def find_payment(self, order: PaymentOrder) -> PaymentStart | Literal["cannot be known"] | None:
        """Looks through the payments of the customer. That ours is not among them proves nothing: nobody says how soon it would be."""
        if not order.connection_ref:
            return CANNOT_BE_KNOWN
        try:
            customer = str((await self._connection(order.connection_ref)).customer_id)
            found = await client.search_payment(self._client, customer, order)
        except Answered as error:
            if error.status == 404:
                return CANNOT_BE_KNOWN
            raise translated(error) from None
        return CANNOT_BE_KNOWN if found is None or found.ref is None else self._start(found.ref, found)

    def _start(self, ref: str, payment: Payment) -> PaymentStart:
        report = rules.payment_report(payment) if payment.status else PaymentReport("initiated")
        return PaymentStart(ref, payment.payment_url, instant(payment.expires_at), report)

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        try:
            return rules.payment_report(await client.ask_payment(self._client, provider_ref))
        except Answered as error:
            raise translated(error) from None

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        raise ProviderRefused(
            "ActionNotSupported", "Salt Edge cancels no payments: who does not confirm it does not pay"
        )

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        raise ProviderRefused("ActionNotSupported", "The payer authorises payments on the bank's page")

    # --- Deliveries

    def read_webhook(self, delivery: Delivery) -> str:
        return check(self._keys, delivery, self._clock.now())

    def reports(self, kind: str, body: bytes) -> list[Report]:
        if is_about_banks(kind):
            self._directory.forget()
            return []
        return reports(kind, body)


def _refusal(error: Answered) -> ProviderRefused:
    """Returns what to raise for an error that left certainly no payment behind."""
    unnamed = "ProviderUnavailable" if error.is_passing else "ProviderError"
    return ProviderRefused(class_of(error.error_class or unnamed), error.message)


# Salt Edge from its settings, and one harmless question that tries them.


def set_up(settings: Settings, vault: Vault, clock: Clock, network: Network) -> SaltEdgeProvider:
    """Raises SetupError, naming the setting, if one is missing or cannot be used."""
    if not settings.salt_edge_callback_key:
        raise SetupError(
            "Salt Edge needs the setting salt_edge_callback_key: the file with its public key, without which no callback is believed."
        )
    keys = read_public_keys(Path(settings.salt_edge_callback_key))
    client = _client(settings, clock, network)
    return SaltEdgeProvider(
        client, clock, keys, vault.derive("salt edge returns"), sandboxes=settings.salt_edge_sandboxes
    )


def _client(settings: Settings, clock: Clock, network: Network) -> SaltEdgeClient:
    if not settings.salt_edge_secret:
        raise SetupError("Salt Edge needs the setting salt_edge_secret beside salt_edge_app_id.")
    key = None
    if settings.salt_edge_private_key:
        key = read_private_key(Path(settings.salt_edge_private_key), "salt_edge_private_key")
    return SaltEdgeClient(
        network, clock, settings.salt_edge_url, settings.salt_edge_app_id, settings.salt_edge_secret, key
    )


async def probe(settings: Settings, clock: Clock, network: Network) -> str:
    """Asks for one bank of the list. Returns what was found, as a sentence. Raises SetupError with what is wrong."""
    if not settings.salt_edge_app_id:
        raise SetupError("Set salt_edge_app_id first: Salt Edge shows it in its dashboard, beside the secret.")
    client = _client(settings, clock, network)
    try:
        await client.get(Page[Provider], "/providers", include_sandboxes=True, per_page=1)
    except Answered as error:
        reason = REMEDIES.get(error.error_class, error.message)
        raise SetupError(f"Salt Edge answers, but refuses ({error.error_class or error.status}): {reason}.") from None
    except ProviderDown as error:
        raise SetupError(f"{error} ({settings.salt_edge_url})") from None
    finally:
        await client.close()
    if settings.salt_edge_callback_key:
        read_public_keys(Path(settings.salt_edge_callback_key))
    missing = [
        name for name in ("salt_edge_private_key", "salt_edge_callback_key") if not getattr(settings, name)
    ]  # fmt: skip
    if missing:
        return f"Salt Edge answers, and accepts this app. Not set yet: {', '.join(missing)}."
    return "Salt Edge answers, and accepts this app and its signature. Callbacks are tried when somebody connects an account."
