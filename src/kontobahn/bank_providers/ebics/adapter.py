"""EBICS behind the port: the company's own line to its bank, which fetches statements unattended and cannot pay.

From the data sheet to the first statement takes weeks, because a letter goes to the bank: an access is kept from its keys on, and
whoever connects again goes on with it. Nothing is asked of a bank whose keys nobody has compared.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta

import msgspec

from kontobahn import log
from kontobahn.bank_providers.ebics import client, letter, orders, rules, statements, store
from kontobahn.bank_providers.ebics.client import EbicsClient, Line
from kontobahn.bank_providers.ebics.store import NAME, DownloadRow
from kontobahn.bank_providers.ebics.wire import Access, KeptKey, kept_pair, kept_public
from kontobahn.bank_providers.file_payments import FilePayments
from kontobahn.bank_providers.http import Network
from kontobahn.banking.bank_line import LineFacts, WaitingOrder
from kontobahn.banking.interaction import FILE, Given, Interaction, Step
from kontobahn.banking.payments import submissions
from kontobahn.banking.provider import (
    LOCKED,
    BadSignature,
    BankProvider,
    ConnectionFinished,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    OrderFile,
    PersonHere,
    ProviderDown,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
    Submission,
    Template,
)  # fmt: skip
from kontobahn.clock import MINUTE, Clock, berlin_date, to_datetime
from kontobahn.db import Database, Tx, leases
from kontobahn.errors import SetupError
from kontobahn.formats.ebics import answers
from kontobahn.formats.ebics.documents import EbicsError
from kontobahn.formats.ebics.keys import Protocol, PublicKey, new_key, typed_digest
from kontobahn.formats.ebics.requests import BankKeys, Period, check_id
from kontobahn.formats.ebics.services import Kind, Order, Rights, order_of, read_rights, read_to_fetch
from kontobahn.formats.invoices.model import Refused
from kontobahn.formats.statements import StatementError, StatusReport
from kontobahn.outbound import Refused as NotReached
from kontobahn.outbound import Unreached
from kontobahn.payables import pdf_reader
from kontobahn.sentences import without_stop
from kontobahn.threads import Pool
from kontobahn.vault import Vault

BANK_NAME = "EBICS-Zugang Ihrer Bank"
THREADS, WAITING = 4, 64
STEP_TIME = 60 * MINUTE
RENEW_SECONDS = 120.0
REFRESH_AFTER = 5 * MINUTE
# Statements that banks usually keep for a first fetch.
HISTORY = timedelta(days=90)


class Flow(msgspec.Struct):
    """The state that is sealed between two steps. The access itself is not in it."""

    request: ConnectRequest
    stage: str
    ref: str = ""
    # The bank's keys that are to be compared.
    bank: list[KeptKey] = []
    # From a data sheet that was uploaded.
    proposed: dict[str, str] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode_flow = msgspec.msgpack.Decoder(Flow).decode


class EbicsProvider(FilePayments):
    name = NAME

    def __init__(self, db: Database, vault: Vault, clock: Clock, network: Network, files: BankProvider) -> None:
        self._db, self._vault, self._clock, self._network = db, vault, clock, network
        super().__init__(files)
        self._pool = Pool(NAME, threads=THREADS, waiting=WAITING)
        self._client = EbicsClient(db, vault, clock, network, self._pool)

    async def close(self) -> None:
        self._pool.close()
        await self._network.close()

    async def banks(self) -> Sequence[ListedBank]:
        return [ListedBank(statements.CODE, BANK_NAME, "DE", "partner", templates=("SEPA", "SEPA_INSTANT"))]

    # --- Connecting

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        if (request.provider_code or statements.CODE) != statements.CODE:
            raise ProviderRefused("ProviderNotFound", "EBICS has no such bank in its list")
        if request.provider_ref is not None:
            _, access = await self._find(request.provider_ref)
            interaction = await self._compare_again(Flow(request, "compare", request.provider_ref), access)
            return ConnectStart(None, interaction.expires_at, access.bank_name, "DE", "", interaction)
        waiting = await self._db.read(store.unfinished, self._vault, request.organization_id)
        flow = Flow(request, "choose" if waiting else "sheet")
        interaction = self._step(flow, rules.choice_step(waiting) if waiting else rules.data_sheet_step())
        return ConnectStart(None, interaction.expires_at, BANK_NAME, "DE", "", interaction)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        flow = _decode_flow(state)
        match flow.stage:
            case "choose":
                return await self._choose(flow, _one(given, "access"))
            case "sheet":
                return await self._take_sheet(flow, given)
            case "letter":
                return await self._activated(flow)
            case _:
                return await self._compare(flow, given)

    async def abandon(self, state: bytes) -> None:
        """Does nothing: the access waits for whoever comes back."""

    async def _choose(self, flow: Flow, chosen: str) -> Interaction | Sequence[Report]:
        if chosen == "new":
            return self._step(flow, rules.data_sheet_step(), "sheet")
        organization_id, access = await self._find(chosen)
        if organization_id != flow.request.organization_id:
            raise ProviderRefused("ConnectionNotFound", "There is no such access")
        flow.ref = chosen
        if access.stage == "made":
            access = await self._send_keys(flow, access)
        if access.stage == "compared":
            return await self._finish(flow, access)
        return await self._show_letter(flow, access)

    async def _propose(self, flow: Flow, file: str) -> Interaction:
        """Fills in the data sheet's form from a file of it: a person looks at it before anything is sent."""
        text = await self._pool.run(_text_of, base64.b64decode(file))
        flow.proposed = {str(name): value for name, value in rules.read_sheet(text).values.items()}
        return self._step(flow, rules.data_sheet_step(flow.proposed))

    async def _take_sheet(self, flow: Flow, given: Given) -> Interaction:
        if FILE in given:
            return await self._propose(flow, _one(given, FILE))
        try:
            host = check_id("Host ID", _one(given, "host"))
            partner, user = check_id("Partner ID", _one(given, "partner")), check_id("User ID", _one(given, "user"))
        except EbicsError as error:
            raise ProviderRefused("InvalidCredentials", without_stop(str(error))) from None
        url = _one(given, "url")
        spoken = await self._client.versions(url, host)
        if not spoken:
            raise ProviderRefused("ProviderError", "The bank speaks neither version 3.0 nor 2.5 of EBICS")
        protocol: Protocol = "H005" if "H005" in spoken else "H004"
        keys = await self._new_keys(f"{partner} {user}")
        access = Access(
            bank_name=_one(given, "bank"), url=url, protocol=protocol, host_id=host, partner_id=partner, user_id=user,
            company=_one(given, "company"), signature=keys[0], authentication=keys[1], encryption=keys[2],
            proposed_hashes={name: value for name, value in flow.proposed.items() if name in ("x002", "e002")},
        )  # fmt: skip
        flow.ref = secrets.token_hex(16)
        # Before the bank sees them: keys that it has and we have not would be of no use to anybody.
        await self._db.write(store.create, self._vault, flow.request.organization_id, flow.ref, access)
        return await self._show_letter(flow, await self._send_keys(flow, access))

    async def _new_keys(self, name: str) -> list[KeptKey]:
        """Makes keys for signature, authentication and encryption."""
        now = to_datetime(self._clock.now())
        return [kept_pair(await self._pool.run(new_key, version, name, now)) for version in ("A006", "X002", "E002")]

    async def _send_keys(self, flow: Flow, access: Access) -> Access:
        """Sends INI and HIA, each until the bank has it."""
        async with self._holding(flow.ref):
            organization_id, access = await self._find(flow.ref)
            for order_type in ("INI", "HIA"):
                if order_type in access.sent:
                    continue
                was_tried = order_type in access.tried
                access.tried = [*access.tried, order_type]
                await self._save(organization_id, flow.ref, access)
                answer = await self._client.send_keys(access, order_type)
                # The answer to an earlier attempt was lost: the bank has the keys, and takes none a second time.
                if not (was_tried and answer.code in answers.USER_STATE):
                    rules.check(answer)
                access.sent = [*access.sent, order_type]
                await self._save(organization_id, flow.ref, access)
            if access.stage == "made":
                access.stage, access.sent_at = "sent", self._clock.now()
                await self._save(organization_id, flow.ref, access)
        return access

    async def _show_letter(self, flow: Flow, access: Access, refused: str | None = None) -> Interaction:
        documents = await self._pool.run(letter.letters, access, berlin_date(access.sent_at or self._clock.now()))
        return self._step(flow, rules.letter_step(documents, refused), "letter")

    async def _activated(self, flow: Flow) -> Interaction:
        _, access = await self._find(flow.ref)
        try:
            return await self._compare_again(flow, access)
        except ProviderRefused as error:
            if error.error_class != rules.NOT_GRANTED:
                raise
            return await self._show_letter(flow, access, error.raw_status or "")

    async def _compare_again(self, flow: Flow, access: Access) -> Interaction:
        bank = await self._client.bank_keys(access)
        flow.bank = [kept_public(bank.authentication), kept_public(bank.encryption)]
        # The sheet is from before the bank changed its keys.
        proposed = {} if flow.request.provider_ref else access.proposed_hashes
        return self._step(flow, rules.comparison_step(proposed), "compare")

    async def _compare(self, flow: Flow, given: Given) -> Sequence[Report]:
        organization_id, access = await self._find(flow.ref)
        bank = BankKeys(flow.bank[0].public(), flow.bank[1].public())
        for key, name in ((bank.authentication, "x002"), (bank.encryption, "e002")):
            try:
                typed = typed_digest(_one(given, name))
            except EbicsError as error:
                raise ProviderRefused("InvalidCredentials", f"{name.upper()}: {without_stop(str(error))}") from None
            if not _is_hash_of(key, typed):
                raise ProviderRefused(
                    "InvalidCredentials",
                    f"The hash of the bank's key {name.upper()} is another one: nothing was connected. Ask your bank before you try again",
                )
        async with self._holding(flow.ref):
            organization_id, access = await self._find(flow.ref)
            access.bank_authentication, access.bank_encryption = flow.bank
            access.stage = "compared"
            await self._save(organization_id, flow.ref, access)
        return await self._finish(flow, access)

    async def _finish(self, flow: Flow, access: Access) -> Sequence[Report]:
        snapshot = await self._read(flow.ref, None, is_first=flow.request.provider_ref is None)
        return [ConnectionFinished(flow.ref, flow.request.pending_token, snapshot)]

    def _step(self, flow: Flow, step: Step, stage: str | None = None) -> Interaction:
        flow.stage = stage or flow.stage
        return Interaction(step, _encode(flow), self._clock.now() + STEP_TIME)

    # --- Reading

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        return [ConnectionFinished(provider_ref, snapshot=await self.fetch(provider_ref, since))]

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        return await self._read(provider_ref, since)

    async def _read(self, ref: str, since: date | None, *, is_first: bool = False) -> Snapshot:
        """Fetches what is new at the bank, stores it, and returns what is stored since a day."""
        async with self._speaking(ref) as line:
            access = line.access
            await self._client.resume(line)
            rights = await self._rights(line)
            if is_first:
                await self._ask_to_fetch(line)
            today = berlin_date(self._clock.now())
            for kind in rules.wanted_kinds(rights):
                for order in self._orders_of(kind, rights, access):
                    has_history = is_first and kind in ("camt.053", "mt940")
                    await self._client.download(
                        line, kind, order, Period(today - HISTORY, today) if has_history else None
                    )
            await orders.look_up(self._db, self._client, line, self._clock.now())
            return await self._snapshot(line, rights, since)

    def _orders_of(self, kind: Kind, rights: Rights | None, access: Access) -> list[Order]:
        return [order_of(kind, access.protocol)] if rights is None else rights.orders_of(kind)

    async def _rights(self, line: Line) -> Rights | None:
        """Asks what we may do. None if the bank does not tell."""
        told = await self._fetch_if_offered(line, "HTD") or await self._fetch_if_offered(line, "HKD")
        if told is None:
            return None
        try:
            rights = await self._pool.run(read_rights, told, line.access.user_id)
        except EbicsError as error:
            raise ProviderRefused("ProviderError", without_stop(str(error))) from None
        if told != line.access.rights:
            line.access.rights = told
            await self._save(line.organization_id, line.ref, line.access)
        return rights

    async def _fetch_if_offered(self, line: Line, order_type: str) -> bytes | None:
        try:
            return await self._client.fetch_small(line, order_type)
        except ProviderRefused as error:
            if error.raw_status in answers.NOT_OFFERED:
                return None
            # The bank may have taken new keys later than it said.
            if error.raw_status not in answers.NOT_ACCEPTED or not line.access.next_keys:
                raise
            if not await client.settle_keys(self._client, line, self._clock.now(), self._saving(line)):
                raise
        return await self._client.fetch_small(line, order_type)

    async def _ask_to_fetch(self, line: Line) -> None:
        told = await self._fetch_if_offered(line, "HAA")
        try:
            line.access.to_fetch = [] if told is None else read_to_fetch(told)
        except EbicsError as error:
            log.info("to_fetch_not_read", provider=NAME, detail=str(error))
            line.access.to_fetch = []
        line.access.asked_at = self._clock.now()
        await self._save(line.organization_id, line.ref, line.access)

    async def _snapshot(self, line: Line, rights: Rights | None, since: date | None) -> Snapshot:
        rows = await self._db.write(store.since, line.organization_id, line.ref, since)
        reading = statements.Reading(rights.accounts if rights else (), line.access.closings)
        for row in rows:
            await self._add(reading, row)
        for report in reading.reports:
            await self._db.write(_apply, line.organization_id, report)
        if reading.closings != line.access.closings:
            line.access.closings = reading.closings
            await self._save(line.organization_id, line.ref, line.access)
        connection = statements.connection_facts(line.access, line.ref, self._clock.now() + REFRESH_AFTER)
        missing = rules.missing_rights(rights, line.access.protocol)
        return await self._pool.run(reading.snapshot, connection, missing, since)

    async def _add(self, reading: statements.Reading, row: DownloadRow) -> None:
        with await self._client.plain(row) as plain:
            await self._pool.run(reading.add, statements.Plain(f"{row.kind}-{row.id}", plain))

    async def remove(self, provider_ref: str) -> None:
        await self._db.write(store.remove, provider_ref)

    # --- Accesses

    async def _find(self, ref: str) -> tuple[str, Access]:
        found = await self._db.read(store.find, self._vault, ref)
        if found is None:
            raise ProviderRefused("ConnectionNotFound", "There is no such access")
        return found

    async def _save(self, organization_id: str, ref: str, access: Access) -> None:
        await self._db.write(store.save, self._vault, organization_id, ref, access)

    @asynccontextmanager
    async def _holding(self, ref: str) -> AsyncIterator[None]:
        """Has the access for one piece of work, over all processes."""
        holder = secrets.token_hex(8)
        if not await self._db.write(store.claim, ref, holder):
            await self._find(ref)  # Says so if there is none.
            raise ProviderDown("Another process speaks with the bank for this access. Try again in a few minutes.")
        keeping = leases.renewing(self._db, RENEW_SECONDS, store.claim, ref, holder)
        try:
            yield
        finally:
            keeping.cancel()
            await self._db.write(store.release, ref, holder)

    @asynccontextmanager
    async def _speaking(self, ref: str, organization_id: str | None = None) -> AsyncIterator[Line]:
        """Has the line to a bank whose keys somebody has compared; with an organisation, only if it is its own."""
        async with self._holding(ref):
            owner, access = await self._find(ref)
            if organization_id not in (None, owner):
                raise ProviderRefused("ConnectionNotFound", "There is no such access")
            if access.suspended_at:
                raise ProviderRefused(LOCKED, rules.SUSPENDED)
            if access.stage != "compared":
                raise ProviderRefused(rules.NOT_GRANTED, "Nobody has compared the bank's keys yet")
            line = Line(owner, ref, access)
            if access.next_in_doubt:
                await client.settle_keys(self._client, line, self._clock.now(), self._saving(line))
            yield line

    def _saving(self, line: Line) -> Callable[[], Awaitable[None]]:
        return lambda: self._save(line.organization_id, line.ref, line.access)

    # --- Orders: files, which wait at the bank for people to sign them

    async def submit(
        self, organization_id: str, connection_ref: str, file: OrderFile, template: Template
    ) -> Submission:
        async with self._speaking(connection_ref, organization_id) as line:
            signs = await self._db.read(store.signs, connection_ref)
            way = orders.way_for(await self._rights(line), template, signs=signs)
            return await orders.send(self._db, self._client, line, file, way)

    async def submission(self, organization_id: str, message_id: str) -> Submission | None:
        row = await self._db.read(store.find_order, organization_id, message_id)
        return None if row is None else orders.as_submission(row, self._clock.now())

    async def decide(self, organization_id: str, message_id: str, note: Callable[[Tx], None], *, has_it: bool) -> None:
        await self._db.write(orders.decide, organization_id, message_id, note, has_it=has_it)

    # --- A person at the line: rights, signatures, keys

    async def line(self, organization_id: str, connection_ref: str) -> LineFacts:
        owner, access = await self._find(connection_ref)
        if owner != organization_id:
            raise ProviderRefused("ConnectionNotFound", "There is no such access")
        signs = await self._db.read(store.signs, connection_ref)
        return await self._pool.run(rules.line_facts, access, signs=signs)

    async def ask_rights(self, organization_id: str, connection_ref: str) -> None:
        async with self._speaking(connection_ref, organization_id) as line:
            await self._rights(line)
            await self._ask_to_fetch(line)

    def allow_signing(self, tx: Tx, organization_id: str, connection_ref: str, *, allowed: bool) -> None:
        store.allow_signing(tx, organization_id, connection_ref, allowed=allowed)

    async def waiting(self, organization_id: str, connection_ref: str) -> list[WaitingOrder]:
        async with self._speaking(connection_ref, organization_id) as line:
            signs = await self._db.read(store.signs, connection_ref)
            return await orders.list_waiting(self._db, self._client, line, signs=signs)

    async def waiting_order(self, organization_id: str, connection_ref: str, order_id: str) -> WaitingOrder:
        async with self._speaking(connection_ref, organization_id) as line:
            signs = await self._db.read(store.signs, connection_ref)
            return await orders.find_waiting(self._db, self._client, line, order_id, signs=signs)

    async def sign(self, organization_id: str, connection_ref: str, order_id: str, digest: str) -> None:
        async with self._signing(connection_ref, organization_id) as line:
            await orders.sign_waiting(self._db, self._client, line, order_id, digest)
            await self._look_up(line)

    async def cancel(self, organization_id: str, connection_ref: str, order_id: str, digest: str) -> None:
        async with self._signing(connection_ref, organization_id) as line:
            await orders.cancel_waiting(self._db, self._client, line, order_id, digest)
            await self._look_up(line)

    @asynccontextmanager
    async def _signing(self, ref: str, organization_id: str) -> AsyncIterator[Line]:
        async with self._speaking(ref, organization_id) as line:
            # Read here, while nobody else speaks: somebody may have switched it off meanwhile.
            if not await self._db.read(store.signs, ref):
                raise ProviderRefused("ActionNotSupported", orders.SWITCHED_OFF)
            await self._rights(line)
            yield line

    async def _look_up(self, line: Line) -> None:
        try:
            await orders.look_up(self._db, self._client, line, self._clock.now())
        except ProviderDown as error:
            # The next fetch asks again.
            log.info("protocol_not_read", provider=NAME, detail=str(error))

    async def change_keys(self, organization_id: str, connection_ref: str) -> bool:
        async with self._speaking(connection_ref, organization_id) as line:
            name = f"{line.access.partner_id} {line.access.user_id}"
            return await client.change_keys(
                self._client, line, lambda: self._new_keys(name), self._clock.now(), self._saving(line)
            )

    async def suspend(self, organization_id: str, connection_ref: str) -> None:
        async with self._speaking(connection_ref, organization_id) as line:
            await client.suspend_keys(self._client, line, self._clock.now(), self._saving(line))

    # --- Pages and deliveries of the bank: there are none

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "EBICS has no pages of the bank")

    def read_webhook(self, delivery: Delivery) -> str:
        raise BadSignature("banks send nothing by EBICS")


def _apply(tx: Tx, organization_id: str, report: StatusReport) -> None:
    try:
        submissions.apply_report(tx, organization_id, report)
    except StatementError:
        # About orders that the company gave in another way.
        log.info("report_of_unknown", provider=NAME, report=report.message_id)


def _is_hash_of(key: PublicKey, typed: bytes) -> bool:
    """Returns whether it is the hash of the certificate, or that of the key itself: letters show the one or the other."""
    known = [key.digest("H004"), *([key.digest("H005")] if key.certificate else [])]
    return any(hmac.compare_digest(typed, digest) for digest in known)


def _text_of(content: bytes) -> str:
    """Returns the text of a file, empty if it has none. A PDF is read in a process of its own."""
    if content.startswith(b"%PDF"):
        try:
            return pdf_reader.read(content).text
        except Refused as error:
            log.info("data_sheet_not_read", provider=NAME, detail=error.fault.rule)
            return ""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _one(given: Given, name: str) -> str:
    return "".join(given.get(name, ())).strip()


# One harmless question that tries a bank: which versions of EBICS it speaks. Nobody signs in.


SECONDS, MAX_BYTES = 30.0, 1024 * 1024


async def probe(network: Network, url: str, host_id: str) -> str:
    """Returns in a sentence what the bank speaks. Raises SetupError if it does not answer, or not in EBICS."""
    from kontobahn.formats.ebics.answers import read_versions
    from kontobahn.formats.ebics.documents import EbicsError
    from kontobahn.formats.ebics.requests import check_id, versions_request

    try:
        body = versions_request(check_id("The host id", host_id))
        reply = await network.send(
            "POST", url, headers={"Content-Type": "text/xml; charset=UTF-8"}, body=body, seconds=SECONDS, max_bytes=MAX_BYTES,
            whole=True,
        )  # fmt: skip
        if reply.status != 200:
            raise SetupError(f"What answers at {url} does so with HTTP status {reply.status}.")
        versions = read_versions(reply.content)
    except (NotReached, Unreached) as error:
        raise SetupError(f"The bank cannot be reached at {url}: {error}") from None
    except EbicsError as error:
        raise SetupError(f"The bank does not answer as EBICS has it: {without_stop(str(error))}.") from None
    if not versions:
        return "The bank answers, but speaks neither version 3.0 (H005) nor 2.5 (H004) of EBICS."
    names = ", ".join(f"{name} ({number})" for name, number in sorted(versions.items(), reverse=True))
    used = "3.0" if "H005" in versions else "2.5"
    return f"The bank answers, and speaks {names}; version {used} is used. Keys and rights are tried when somebody connects an account."
