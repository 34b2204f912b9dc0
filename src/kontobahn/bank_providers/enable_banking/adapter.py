"""Enable Banking behind the port. The person signs in on its pages and comes back with a code, which is exchanged for a session.

A session is a connection: it ends when its consent does, and a reconnect makes another one. Accounts have another reference in each
session and are recognised by a hash. A reading is reported as the person's only if the person waits for it: banks allow about four
others a day.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec

from kontobahn import log
from kontobahn.bank_providers.enable_banking import wire
from kontobahn.bank_providers.enable_banking.client import (
    BANK_REST_SECONDS,
    BankList,
    Client,
    Rejected,
    Webhooks,
    asked,
    read_public_key_file,
    reports,
)
from kontobahn.bank_providers.enable_banking.rules import (
    AUTHORIZED,
    ENDED,
    RATE_LIMIT,
    account_facts,
    code_of,
    failure,
    named,
    not_created,
    payment_body,
    payment_report,
    psu_headers,
    psu_type_for,
    return_failure,
    session_failure,
    templates,
    transaction_facts,
)
from kontobahn.bank_providers.enable_banking.wire import Account, Application, Named, NewSession, Session
from kontobahn.bank_providers.http import Network, NotSent, path_part, read_private_key
from kontobahn.banking.connections import flows
from kontobahn.banking.connections.store import end_access, used_by_connection
from kontobahn.banking.interaction import Given, Interaction
from kontobahn.banking.provider import (
    BANK_NEEDED,
    CANNOT_BE_KNOWN,
    AccountFacts,
    BadSignature,
    BankConnectionFacts,
    ConnectionFailed,
    ConnectionFinished,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    NotRead,
    OrderFile,
    PaymentOrder,
    PaymentReport,
    PaymentStart,
    PersonHere,
    ProviderDown,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
    TransactionFacts,
)  # fmt: skip
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND, Clock, berlin_date, from_datetime, to_datetime
from kontobahn.db import Database, Tx
from kontobahn.errors import SetupError
from kontobahn.outbound import Rule
from kontobahn.sentences import without_stop
from kontobahn.settings import Settings
from kontobahn.threads import Pool

# Sessions at Enable Banking: whose they are, their accounts as the session began with them, and how long the bank wants
# a rest.


NAME = "enable_banking"
# Longer than a stored return is tried again: until then a session may still become a connection.
UNUSED_TIME = 3 * HOUR
_encode = msgspec.json.Encoder().encode
_decode_accounts = msgspec.json.Decoder(list[Account]).decode


class Kept(NamedTuple):
    ref: str
    bank: Named
    psu_type: str
    accounts: list[Account]
    # Until then the bank is not asked.
    rest_until: int


def save_session(tx: Tx, pending_token: str, session: NewSession) -> None:
    """Keeps a session as soon as it exists: its code can be used once, and what follows may fail."""
    flow = flows.find(tx, NAME, pending_token)
    if flow is not None:
        tx.run(
            "INSERT INTO enable_banking_sessions (organization_id, ref, pending_token, bank_name, bank_country, psu_type, accounts,"
            " rest_until, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
            flow.organization_id, session.session_id, pending_token, session.aspsp.name, session.aspsp.country,
            session.psu_type, _encode(session.accounts).decode(), tx.now,
        )  # fmt: skip


def find_session(tx: Tx, ref: str) -> Kept | None:
    return _found(tx, "ref = ?", ref)


def session_by_token(tx: Tx, pending_token: str) -> Kept | None:
    """The session that a flow has led to already."""
    return _found(tx, "pending_token = ?", pending_token)


def _found(tx: Tx, where: str, value: str) -> Kept | None:
    row = tx.one(
        f"SELECT ref, bank_name, bank_country, psu_type, accounts, rest_until FROM enable_banking_sessions WHERE {where}",
        value,
    )
    if row is None:
        return None
    return Kept(row[0], Named(row[1], row[2]), row[3], _decode_accounts(row[4]), row[5])


def rest_until(tx: Tx, ref: str, until: int) -> None:
    tx.run("UPDATE enable_banking_sessions SET rest_until = ? WHERE ref = ?", until, ref)


def remove_session(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM enable_banking_sessions WHERE ref = ?", ref)


def end_orphans(tx: Tx) -> None:
    """Has sessions ended at Enable Banking that no connection uses: replaced by a reconnect, or never finished."""
    unused = tx.all(
        f"SELECT s.ref FROM enable_banking_sessions s WHERE s.created_at <= ? AND NOT {used_by_connection('s')}",
        tx.now - UNUSED_TIME, NAME,
    )  # fmt: skip
    end_access(tx, NAME, [ref for (ref,) in unused])


THREADS, WAITING = 2, 64
# As long as EU law lets a consent last; and a little less than the bank allows, since clocks differ.
MAX_CONSENT, CONSENT_MARGIN = 180 * DAY, 5 * MINUTE
FLOW_TIME = 30 * MINUTE
REFRESH_AFTER = HOUR
NO_DETAILS = "The bank does not let this login read the account."
NO_BALANCE = "The bank does not let this login read the account's balance."
# Accounts of which the bank says that they cannot be read: the others are read all the same.
_NOT_READABLE = frozenset({"ASPSP_ACCOUNT_NOT_ACCESSIBLE", "ACCOUNT_DOES_NOT_EXIST"})
# The days that transactions are asked for: from a day on, as far as it goes, or as the bank likes.
_How = Literal["since", "longest", "default"]
T = TypeVar("T")


class Page(msgspec.Struct, array_like=True):
    """The place where a list of transactions goes on."""

    session: Session
    # The accounts that are still to be read, the first of them from this key on.
    uids: list[str]
    ibans: list[str]
    how: _How
    key: str | None = None


class EnableBankingSetup(NamedTuple):
    countries: tuple[str, ...]
    base_url: str
    # True if Enable Banking is to report payments by webhooks.
    with_webhooks: bool


class EnableBankingProvider:
    name = NAME
    # Many banks never report how a payment ended.
    debit_settles = True
    orders_are_files = False

    def __init__(
        self, db: Database, clock: Clock, client: Client, webhooks: Webhooks, pool: Pool, setup: EnableBankingSetup
    ) -> None:
        self._db, self._clock, self._client, self._webhooks, self._pool = db, clock, client, webhooks, pool
        self._setup = setup
        self._banks = BankList(client, clock, setup.countries)

    async def close(self) -> None:
        self._pool.close()
        await self._client.network.close()

    async def banks(self) -> Sequence[ListedBank]:
        return await self._banks.listed()

    # --- Connecting

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        if request.provider_code is None:
            raise ProviderRefused(BANK_NEEDED, "Enable Banking wants to know the bank first")
        bank = (await self._banks.offer()).banks.get(request.provider_code)
        if bank is None:
            raise ProviderRefused("ProviderNotFound", "Enable Banking lists no such bank")
        psu_type = psu_type_for(bank, request.holder)
        if request.provider_ref is not None:
            kept = await self._db.read(find_session, request.provider_ref)
            psu_type = psu_type if kept is None else kept.psu_type
        body = {
            "access": {"valid_until": to_datetime(self._consent_until(bank)).isoformat()},
            "aspsp": named(bank),
            "state": request.pending_token,
            "redirect_url": request.callback_url,
            "psu_type": psu_type,
        }
        if request.language is not None:
            body["language"] = request.language
        if request.organization_id:
            body["psu_id"] = request.organization_id
        answer = await asked(self._client.post("/auth", body, wire.Authorization))
        return ConnectStart(answer.url, self._clock.now() + FLOW_TIME, bank.name, bank.country, bank.logo)

    def _consent_until(self, bank: wire.Bank) -> int:
        longest = MAX_CONSENT if bank.maximum_consent_validity is None else bank.maximum_consent_validity * SECOND
        length = min(longest, MAX_CONSENT)
        return self._clock.now() + max(length - CONSENT_MARGIN, length // 2)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "Enable Banking has pages of its own")

    async def abandon(self, state: bytes) -> None:
        """Does nothing: there are no steps on our pages."""

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        token, code = fields.get("state", ""), fields.get("code", "")
        kept = await self._db.read(session_by_token, token)
        if kept is not None:
            # This return was taken before, and something after it failed: the code is used up, the session is there.
            return [ConnectionFinished(kept.ref, token)]
        if not code:
            error_class, said = return_failure(fields.get("error", ""), fields.get("error_description", ""))
            return [ConnectionFailed(error_class, said, None, token)]
        try:
            session = await asked(self._client.post("/sessions", {"code": code}, wire.NewSession, secret=code))
        except ProviderRefused as error:
            return [ConnectionFailed(error.error_class, str(error), None, token)]
        await self._db.write(save_session, token, session)
        return [ConnectionFinished(session.session_id, token)]

    # --- Reading

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        await self._check_rest(provider_ref)
        await self._session(provider_ref)
        # Everything there is to fetch is fetched above, page by page.
        return [ConnectionFinished(provider_ref)]

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        kept = await self._check_rest(provider_ref)
        if page is not None:
            found = msgspec.json.decode(page, type=Page)
            return await self._page(provider_ref, [], since, found, await self._psu_headers(person, found.session))
        session = await self._session(provider_ref)
        psu = await self._psu_headers(person, session)
        known = {} if kept is None else {account.uid: account for account in kept.accounts}
        accounts: list[AccountFacts] = []
        refused: list[NotRead] = []
        for uid in session.accounts:
            account = await self._account(provider_ref, uid, known.get(uid), psu, refused)
            if account is not None:
                accounts.append(account)
        first = Page(
            msgspec.structs.replace(session, accounts=[]),
            [account.provider_ref for account in accounts],
            [account.iban for account in accounts if account.iban is not None],
            _how(since),
        )
        snapshot = await self._page(provider_ref, accounts, since, first, psu)
        return snapshot._replace(not_read=[*refused, *snapshot.not_read])

    async def _session(self, provider_ref: str) -> Session:
        session = await asked(self._client.get(f"/sessions/{path_part(provider_ref)}", wire.Session))
        if session.status != AUTHORIZED:
            raise session_failure(session.status)
        return session

    async def _psu_headers(self, person: PersonHere | None, session: Session) -> Mapping[str, str]:
        offer = await self._banks.offer()
        return psu_headers(person, offer.banks.get(code_of(session.aspsp.name, session.aspsp.country)))

    async def _connection(self, provider_ref: str, session: Session) -> BankConnectionFacts:
        name, country = session.aspsp.name, session.aspsp.country
        offer, code = await self._banks.offer(), code_of(name, country)
        bank = offer.banks.get(code)
        return BankConnectionFacts(
            provider_ref=provider_ref,
            provider_code=code,
            provider_name=name,
            country_code=country,
            logo_url="" if bank is None else bank.logo,
            templates=templates(bank, (session.psu_type,)) if bank is not None and offer.can_pay else (),
            consent_expires_at=from_datetime(session.access.valid_until),
            next_refresh_possible_at=self._clock.now() + REFRESH_AFTER,
            automatic_refresh=True,
        )

    async def _account(
        self, provider_ref: str, uid: str, known: Account | None, psu: Mapping[str, str], refused: list[NotRead]
    ) -> AccountFacts | None:
        """Returns None if the bank does not let the account be read: what is known of it stays as it is, and says so."""
        path = f"/accounts/{path_part(uid)}"
        balances = wire.Balances([])
        try:
            if known is None:
                known = await self._of_bank(provider_ref, self._client.get(f"{path}/details", wire.Account, psu))
            balances = await self._of_bank(provider_ref, self._client.get(f"{path}/balances", wire.Balances, psu))
        except Rejected as error:
            log.warning("account_not_readable", provider=NAME, provider_ref=provider_ref, code=error.code)
            what = NO_BALANCE if known is not None else NO_DETAILS
            refused.append(NotRead(uid, what, is_lost=known is None))
        return None if known is None else account_facts(known, uid, balances.balances)

    async def _page(
        self, provider_ref: str, accounts: list[AccountFacts], since: date | None, page: Page, psu: Mapping[str, str]
    ) -> Snapshot:
        connection = await self._connection(provider_ref, page.session)
        if not page.uids:
            return Snapshot(connection, accounts, [])
        uid = page.uids[0]
        odd: list[str] = []
        try:
            answer = await self._transactions(provider_ref, uid, since, page, psu, odd)
        except Rejected as error:
            log.warning("transactions_not_readable", provider=NAME, provider_ref=provider_ref, code=error.code)
            odd.append("The bank does not let this login read the account's transactions.")
            answer = None
        transactions: list[TransactionFacts] = []
        if answer is not None:
            transactions = await self._pool.run(
                transaction_facts, answer.transactions, uid, frozenset(page.ibans), berlin_date(self._clock.now()), odd
            )
            page.key = answer.continuation_key
        if answer is None or not answer.continuation_key:
            page.uids, page.key, page.how = page.uids[1:], None, _how(since)
        next_page = msgspec.json.encode(page).decode() if page.uids else None
        not_read = [NotRead(uid, sentence) for sentence in odd]
        return Snapshot(connection, accounts, transactions, answer is None, next_page, not_read=not_read)

    async def _transactions(
        self, provider_ref: str, uid: str, since: date | None, page: Page, psu: Mapping[str, str], odd: list[str]
    ) -> wire.Transactions:
        path = f"/accounts/{path_part(uid)}/transactions"
        while True:
            query = {
                "date_from": since.isoformat() if since is not None and page.how == "since" else None,
                "strategy": "longest" if page.how == "longest" else None,
                "continuation_key": page.key,
            }
            try:
                return await self._of_bank(provider_ref, self._client.transactions(path, psu, odd, **query))
            except ProviderRefused as error:
                # The bank does not go so far back: then as far as it likes.
                if error.raw_status != "WRONG_TRANSACTIONS_PERIOD" or page.how == "default" or page.key is not None:
                    raise
                page.how = "default"

    async def _of_bank(self, provider_ref: str, call: Awaitable[T]) -> T:
        """Asks something that the bank answers. Raises Rejected only if it is about this one account."""
        try:
            return await call
        except Rejected as error:
            if error.code == RATE_LIMIT:
                until = self._clock.now() + (error.rest_seconds or BANK_REST_SECONDS) * SECOND
                await self._db.write(rest_until, provider_ref, until)
            if error.code in _NOT_READABLE:
                raise
            raise failure(error.status, error.refusal) from None

    async def _check_rest(self, provider_ref: str) -> Kept | None:
        kept = await self._db.read(find_session, provider_ref)
        if kept is not None and kept.rest_until > self._clock.now():
            raise ProviderDown(
                "The bank allows no more readings for a while.",
                retry_after_seconds=max(1, (kept.rest_until - self._clock.now()) // SECOND),
            )
        return kept

    async def remove(self, provider_ref: str) -> None:
        try:
            await self._client.delete(f"/sessions/{path_part(provider_ref)}")
        except Rejected as error:
            if error.status != 404 and error.code not in ENDED:
                raise failure(error.status, error.refusal) from None
        await self._db.write(remove_session, provider_ref)

    # --- Paying

    async def create_payment(self, order: PaymentOrder) -> PaymentStart:
        try:
            kept = await self._db.read(find_session, order.connection_ref)
            if kept is None or order.account_ref not in {account.uid for account in kept.accounts}:
                raise ProviderRefused("ConnectionNotFound", "There is no such account at Enable Banking")
            bank = (await self._banks.offer()).banks.get(code_of(kept.bank.name, kept.bank.country))
            if bank is None:
                raise ProviderRefused("ProviderNotFound", "Enable Banking no longer lists the bank")
            hook = f"{self._setup.base_url}/v2/banking/webhooks/{NAME}" if self._setup.with_webhooks else None
            body = payment_body(
                order, bank, kept.psu_type, redirect_url=order.callback_url, state=order.state, webhook_url=hook
            )
        except ProviderDown as error:
            # The payment itself was not asked for yet.
            raise ProviderRefused("PaymentFailed", without_stop(str(error))) from None
        try:
            created = await self._client.post("/payments", body, wire.CreatedPayment)
        except NotSent as error:
            raise ProviderRefused("PaymentFailed", without_stop(str(error))) from None
        except Rejected as error:
            if error.status == 408 or error.status >= 500 or error.code == "ASPSP_TIMEOUT":
                raise ProviderDown("Enable Banking does not say whether it has the payment.") from None
            raise not_created(error.refusal, error.status) from None
        first = payment_report(created.status, None)
        # Whatever the code: the payer has not even seen it.
        report = first if first.status in ("failed", "rejected") else first._replace(status="initiated")
        # Nobody says until when the payer may authorise it, so time alone never ends it.
        return PaymentStart(created.payment_id, created.url, None, report)

    async def find_payment(self, order: PaymentOrder) -> Literal["cannot be known"]:
        """Payments cannot be listed there."""
        return CANNOT_BE_KNOWN

    async def payment_status(self, provider_ref: str) -> PaymentReport:
        payment = await asked(self._client.get(f"/payments/{path_part(provider_ref)}", wire.Payment))
        return payment_report(payment.status, payment.status_reason_information, is_last=payment.final_status is True)

    async def cancel_payment(self, provider_ref: str) -> PaymentReport:
        raise ProviderRefused(
            "ActionNotSupported", "Enable Banking cancels no payments: it is not made unless the payer confirms it"
        )

    def order_file(
        self, message_id: str, created_at: int, orders: Sequence[PaymentOrder], issued_at: int | None = None
    ) -> OrderFile:
        raise ProviderRefused("ActionNotSupported", "The payer authorises payments on the bank's page")

    # --- Deliveries

    def read_webhook(self, delivery: Delivery) -> str:
        if not self._setup.with_webhooks:
            raise BadSignature("webhooks of Enable Banking are switched off (enable_banking_webhooks)")
        return self._webhooks.check(delivery)

    def reports(self, kind: str, body: bytes) -> list[Report]:
        return reports(body)


def _how(since: date | None) -> _How:
    return "longest" if since is None else "since"


# Enable Banking from its settings, and one harmless question that tries them.


_COUNTRY = re.compile(r"[A-Z]{2}")


def set_up(settings: Settings, db: Database, clock: Clock, network: Network, rule: Rule) -> EnableBankingProvider:
    """Raises SetupError if a setting cannot be used."""
    pool = Pool(NAME, threads=THREADS, waiting=WAITING)
    pinned = None
    if settings.enable_banking_webhook_key:
        pinned = read_public_key_file(Path(settings.enable_banking_webhook_key), clock.now() // SECOND)
    webhooks = Webhooks(network, clock, rule, settings.enable_banking_app_id, pinned)
    setup = EnableBankingSetup(_countries(settings), settings.base_url, settings.enable_banking_webhooks)
    return EnableBankingProvider(db, clock, make_client(settings, clock, network, pool), webhooks, pool, setup)


def make_client(settings: Settings, clock: Clock, network: Network, pool: Pool) -> Client:
    if not settings.enable_banking_app_id:
        raise SetupError("Set enable_banking_app_id first: the id that the application has at Enable Banking.")
    if not settings.enable_banking_key:
        raise SetupError("Set enable_banking_key: the file with the private key of the application at Enable Banking.")
    key = read_private_key(Path(settings.enable_banking_key).expanduser(), "enable_banking_key")
    return Client(
        network, clock, pool, url=settings.enable_banking_url, application_id=settings.enable_banking_app_id, key=key
    )


async def probe(settings: Settings, clock: Clock, network: Network, return_url: str) -> str:
    """Returns in a sentence how the application stands. Raises SetupError if it cannot be used at all."""
    pool = Pool(NAME, threads=1, waiting=1)
    try:
        found = await make_client(settings, clock, network, pool).get("/application", Application)
    except Rejected as error:
        if error.status == 401:
            raise SetupError(
                "Enable Banking does not know this application by this key: check enable_banking_app_id and"
                " enable_banking_key, and that the clock of this machine is right."
            ) from None
        said = error.refusal.message or error.code or f"HTTP status {error.status}"
        raise SetupError(f"Enable Banking refuses: {said.rstrip('.')}.") from None
    except ProviderDown as error:
        raise SetupError(f"{error}") from None
    finally:
        pool.close()
    return _judge(found, settings, return_url)


def _judge(found: Application, settings: Settings, return_url: str) -> str:
    who = f"Enable Banking knows the application “{found.name}” ({found.environment})"
    if not found.active:
        return f"{who}, but it is not active yet: link your own accounts, or sign the contract, in the control panel."
    missing = sorted(set(_countries(settings)) - set(found.countries)) if found.countries else []
    if not settings.base_url:
        return f"{who}. Set base_url: people come back to it from their bank."
    if return_url not in found.redirect_urls:
        return f"{who}, but people cannot come back: add the redirect URL {return_url} to it in the control panel."
    if missing:
        return f"{who}, but not for {', '.join(missing)} (enable_banking_countries)."
    paying = "accounts and payments" if "PIS" in found.services else "accounts, no payments"
    return f"{who}; it may use {paying}. Signing in is tried when somebody connects an account."


def _countries(settings: Settings) -> tuple[str, ...]:
    names = tuple(filter(None, (name.strip().upper() for name in settings.enable_banking_countries.split(","))))
    for name in names:
        if _COUNTRY.fullmatch(name) is None:
            raise SetupError(f"The setting enable_banking_countries names “{name}”; write codes like DE, AT.")
    return tuple(dict.fromkeys(names))
