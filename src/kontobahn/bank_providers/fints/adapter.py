"""FinTS behind the port: reading accounts directly at German banks. Payments are order files, as for accounts kept by files.

The library blocks, so work runs in a few threads; each message goes through the one client to the network, with limits of its own. A
login has one dialog at a time. After a wrong PIN or a lock nothing is tried again before a person acts.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kontobahn import log
from kontobahn.bank_providers.file_payments import FilePayments
from kontobahn.bank_providers.fints import rules
from kontobahn.bank_providers.fints.rules import failure, snapshot_of
from kontobahn.bank_providers.fints.wire import Challenge, Documents, FintsBank, Login, Method, Work, since_when
from kontobahn.bank_providers.http import Network
from kontobahn.banking.connections.store import used_by_connection
from kontobahn.banking.interaction import Given, Interaction, Step
from kontobahn.banking.provider import (
    LOCKED,
    BadSignature,
    BankProvider,
    ConnectionFinished,
    ConnectRequest,
    ConnectStart,
    Delivery,
    ListedBank,
    PersonHere,
    PersonNeeded,
    ProviderDown,
    ProviderRefused,
    RefreshType,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import MINUTE, Clock, berlin_date
from kontobahn.db import Database, Tx, leases
from kontobahn.errors import SetupError, Unavailable
from kontobahn.outbound import Refused, Unreached, redact
from kontobahn.sentences import said, without_stop
from kontobahn.threads import Pool
from kontobahn.vault import Vault

# Logins, kept sealed; and claims on a login for a dialog with its bank: one dialog at a time, over all processes.


# Longer than a person may take for a TAN: then the bank has ended the dialog as well.
DIALOG_TIME = 10 * MINUTE
# A login is written right before its connection.
ORPHAN_TIME = 15 * MINUTE
_decode = msgspec.msgpack.Decoder(Login).decode


def save_login(tx: Tx, vault: Vault, organization_id: str, ref: str, login: Login) -> None:
    tx.run(
        "INSERT INTO fints_logins (organization_id, ref, sealed, created_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id, ref) DO UPDATE SET sealed = excluded.sealed",
        organization_id, ref, vault.seal(_encode(login), _context(ref)), tx.now,
    )  # fmt: skip


def find_login(tx: Tx, vault: Vault, ref: str) -> tuple[str, Login] | None:
    """Returns the organisation and its login."""
    row = tx.one("SELECT organization_id, sealed FROM fints_logins WHERE ref = ?", ref)
    return None if row is None else (str(row[0]), _decode(vault.open(bytes(row[1]), _context(ref))))


def forget_pin(tx: Tx, vault: Vault, organization_id: str, login: Login, known: str | None = None) -> None:
    """Forgets the PIN that the organisation's connections keep for this login; one that is known to be right takes its place."""
    for ref, sealed in tx.all("SELECT ref, sealed FROM fints_logins WHERE organization_id = ?", organization_id):
        kept = _decode(vault.open(bytes(sealed), _context(ref)))
        if _name(organization_id, kept) == _name(organization_id, login) and kept.pin not in (None, known):
            kept.pin = known
            save_login(tx, vault, organization_id, ref, kept)


def remove_login(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM fints_logins WHERE ref = ?", ref)


def remove_orphans(tx: Tx) -> None:
    """Removes logins whose flow was never finished, and claims that have expired."""
    tx.run(
        f"DELETE FROM fints_logins WHERE created_at <= ? AND NOT {used_by_connection('fints_logins')}",
        tx.now - ORPHAN_TIME, "fints",
    )  # fmt: skip
    tx.run("DELETE FROM fints_dialogs WHERE until <= ?", tx.now)


def claim_dialog(tx: Tx, organization_id: str, login: Login, holder: str) -> bool:
    """Takes the organisation's login for one dialog. False if another one of the organisation is under way."""
    taken = tx.one(
        "INSERT INTO fints_dialogs (login, holder, until) VALUES (?, ?, ?)"
        " ON CONFLICT (login) DO UPDATE SET holder = excluded.holder, until = excluded.until"
        " WHERE fints_dialogs.until <= ? OR fints_dialogs.holder = excluded.holder RETURNING holder",
        _name(organization_id, login), holder, tx.now + DIALOG_TIME, tx.now,
    )  # fmt: skip
    return taken is not None


def release_dialog(tx: Tx, organization_id: str, login: Login, holder: str) -> None:
    tx.run("DELETE FROM fints_dialogs WHERE login = ? AND holder = ?", _name(organization_id, login), holder)


def _name(organization_id: str, login: Login) -> str:
    # With the organisation: whoever types somebody else's login name keeps nobody from using it.
    # A digest: nowhere else can it be read in clear whose login it is either.
    name = f"{organization_id}/{login.blz}/{login.user}/{login.customer or ''}"
    return hashlib.sha256(name.encode()).hexdigest()


def _context(ref: str) -> str:
    return f"fints_logins:{ref}"


NAME = "fints"
# A bank that is not in the list: the person types its code and address.
OTHER_BANK, OTHER_NAME = "fints_other", "Andere Bank (FinTS)"
THREADS, WAITING = 8, 64
# One message: a bank may take its time for a year of bookings, and camt is wordy.
SECONDS, MAX_BYTES = 60.0, 32 * 1024 * 1024
STEP_TIME = 10 * MINUTE
# Less than a claim on a login lasts.
RENEW_SECONDS = 240.0
# Between two refreshes by hand.
REFRESH_AFTER = 5 * MINUTE


class Flow(msgspec.Struct):
    """The state that is sealed between two steps of a connect flow."""

    request: ConnectRequest
    bank: FintsBank
    stage: str
    holder: str
    user: str = ""
    keep_pin: bool = False
    more: bool = False
    # The piece of work, once the person has signed in.
    work: bytes = b""


class Held(NamedTuple):
    """The holder of a login while its bank is asked."""

    organization_id: str
    holder: str


_NO_PIN = "The PIN is not kept, so the person signs in for each refresh"
_encode = msgspec.msgpack.Encoder().encode
_decode_flow = msgspec.msgpack.Decoder(Flow).decode


class FintsProvider(FilePayments):
    name = NAME

    def __init__(
        self, db: Database, vault: Vault, clock: Clock, network: Network, product_id: str, banks: dict[str, FintsBank],
        orders: BankProvider,
    ) -> None:  # fmt: skip
        self._db, self._vault, self._clock, self._network = db, vault, clock, network
        self._product_id = product_id
        self._banks = banks
        super().__init__(orders)
        self._pool = Pool("fints", threads=THREADS, waiting=WAITING)

    async def close(self) -> None:
        self._pool.close()
        await self._network.close()

    async def banks(self) -> Sequence[ListedBank]:
        listed = [
            ListedBank(
                f"fints_{bank.blz}", bank.name, "DE", "partner", (bank.bic,) if bank.bic else (), (bank.blz,),
                templates=("SEPA", "SEPA_INSTANT"),
            )
            for bank in self._banks.values()
        ]  # fmt: skip
        return [
            *listed,
            ListedBank(OTHER_BANK, OTHER_NAME, "DE", "partner", templates=("SEPA", "SEPA_INSTANT")),
        ]

    # --- Connecting

    async def start_connect(self, request: ConnectRequest) -> ConnectStart:
        code = request.provider_code or OTHER_BANK
        bank = FintsBank("", "", "", "") if code == OTHER_BANK else self._banks.get(code.removeprefix("fints_"))
        user, is_kept = "", False
        if request.provider_ref is not None:
            known = await self._login(request.provider_ref)
            bank = FintsBank(known.blz, known.bank_name, "", known.url)
            user, is_kept = known.user, known.pin is not None
        if bank is None or not code.startswith("fints_"):
            raise ProviderRefused("ProviderNotFound", "the list of FinTS banks has no such bank")
        flow = Flow(request, bank, "login", secrets.token_hex(8), user)
        step = rules.sign_in_step(user, is_other=not bank.url, is_kept=is_kept)
        interaction = self._step(flow, step)
        return ConnectStart(None, interaction.expires_at, bank.name or OTHER_NAME, "DE", "", interaction)

    async def proceed(self, state: bytes, given: Given) -> Interaction | Sequence[Report]:
        flow = _decode_flow(state)
        match flow.stage:
            case "login":
                return await self._sign_in(flow, given)
            case "method":
                return await self._choose_method(flow, self._work(flow), _one(given, "method"))
            case "device":
                work = self._work(flow)
                await self._run(flow, "choose_device", work, _one(given, "device"))
                return await self._read(flow, work)
            case _:
                work = self._work(flow)
                return await self._after(flow, work, await self._run(flow, "go_on", work, _one(given, "tan")))

    async def abandon(self, state: bytes) -> None:
        flow = _decode_flow(state)
        if flow.work:
            work = self._work(flow)
            try:
                await self._run(flow, "give_up", work)
            finally:
                await self._release(flow.request.organization_id, work.login, flow.holder)

    async def _sign_in(self, flow: Flow, given: Given) -> Interaction | Sequence[Report]:
        bank = flow.bank
        if not bank.url:
            bank = flow.bank = FintsBank(_one(given, "blz"), f"Bank {_one(given, 'blz')}", "", _one(given, "url"))
        if len(bank.blz) != 8:
            raise ProviderRefused("ProviderNotFound", "A Bankleitzahl has eight digits")
        flow.keep_pin, flow.more = bool(given.get("keep")), bool(given.get("more"))
        # For a reconnect too it is a new start: the bank may know this installation no more.
        login = Login(bank.blz, bank.url, bank.name, _one(given, "user"), _one(given, "customer") or None)
        known = await self._same_login(flow.request.provider_ref, login)
        since = since_when(self._today(), known.read_on if known else None)
        work = Work(login, _one(given, "pin"), self._product_id, None if flow.more else since)
        methods: list[Method] = await self._run(flow, "find_methods", work)
        if len(methods) > 1:
            return self._step(flow, rules.method_step(methods), "method", work)
        return await self._choose_method(flow, work, methods[0].code if methods else "")

    async def _same_login(self, provider_ref: str | None, login: Login) -> Login | None:
        """Returns what a reconnect renews. Raises ProviderRefused if somebody else signs in."""
        known = None if provider_ref is None else await self._login(provider_ref)
        if known is not None and known.user != login.user:
            raise ProviderRefused(
                "InvalidCredentials", "This connection belongs to another login: sign in with the same one"
            )
        return known

    async def _choose_method(self, flow: Flow, work: Work, method: str) -> Interaction | Sequence[Report]:
        devices: list[str] = await self._run(flow, "find_devices", work, method)
        if len(devices) > 1:
            return self._step(flow, rules.device_step(devices), "device", work)
        if devices:
            await self._run(flow, "choose_device", work, devices[0])
        return await self._read(flow, work)

    async def _read(self, flow: Flow, work: Work) -> Interaction | Sequence[Report]:
        return await self._after(flow, work, await self._run(flow, "read", work))

    async def _after(self, flow: Flow, work: Work, found: Challenge | Documents) -> Interaction | Sequence[Report]:
        if isinstance(found, Challenge):
            return self._step(flow, rules.challenge_step(found), "tan", work)
        ref = flow.request.provider_ref or secrets.token_hex(16)
        work.login.pin = work.pin if flow.keep_pin else None
        work.login.read_on = self._today()
        if not flow.bank.name.strip():
            work.login.bank_name = f"Bank {work.login.blz}"
        await self._release(flow.request.organization_id, work.login, flow.holder)
        snapshot = await self._snapshot(ref, flow.request.provider_code or OTHER_BANK, work, found)
        await self._save(flow.request.organization_id, ref, work.login)
        await self._db.write(forget_pin, self._vault, flow.request.organization_id, work.login, work.pin)
        return [ConnectionFinished(ref, flow.request.pending_token, snapshot)]

    def _step(self, flow: Flow, step: Step, stage: str | None = None, work: Work | None = None) -> Interaction:
        flow.stage = stage or flow.stage
        flow.work = _encode(work) if work is not None else b""
        return Interaction(step, _encode(flow), self._clock.now() + STEP_TIME)

    def _work(self, flow: Flow) -> Work:
        return msgspec.msgpack.decode(flow.work, type=Work)

    # --- Reading

    async def refresh(
        self, provider_ref: str, kind: RefreshType, since: date | None = None, person: PersonHere | None = None
    ) -> Sequence[Report]:
        return [ConnectionFinished(provider_ref, snapshot=await self.fetch(provider_ref, since))]

    async def fetch(
        self, provider_ref: str, since: date | None = None, page: str | None = None, person: PersonHere | None = None
    ) -> Snapshot:
        """Reads without the person: ends as soon as the bank wants anything confirmed."""
        organization_id, login = await self._find(provider_ref)
        if login.pin is None:
            raise PersonNeeded(_NO_PIN)
        holder = secrets.token_hex(8)
        held = Held(organization_id, holder)
        await self._claim(organization_id, login, holder)
        try:
            # Read once more: another connection with this login may just have been refused.
            login = await self._login(provider_ref)
            if login.pin is None:
                raise PersonNeeded(_NO_PIN)
            # Older than banks hand out without a TAN only if nothing was read for that long; then the person is needed.
            work = Work(login, login.pin, self._product_id, since or since_when(self._today()))
            found: Challenge | Documents = await self._run(held, "read", work)
            if isinstance(found, Challenge):
                await self._run(held, "give_up", work)
                raise PersonNeeded(found.text[:300].rstrip(".") or "The bank wants a TAN")
        finally:
            await self._release(organization_id, login, holder)
        code = f"fints_{login.blz}" if login.blz in self._banks else OTHER_BANK
        snapshot = await self._snapshot(provider_ref, code, work, found)
        work.login.read_on = self._today()
        await self._save(organization_id, provider_ref, work.login)
        return snapshot._replace(since=work.since)

    async def remove(self, provider_ref: str) -> None:
        await self._db.write(remove_login, provider_ref)

    async def _snapshot(self, ref: str, code: str, work: Work, documents: Documents) -> Snapshot:
        return await self._pool.run(
            snapshot_of, work.login, work.accounts or [], documents, provider_ref=ref, provider_code=code,
            next_refresh_possible_at=self._clock.now() + REFRESH_AFTER,
        )  # fmt: skip

    def _today(self) -> date:
        return berlin_date(self._clock.now())

    # --- Logins

    async def _find(self, provider_ref: str) -> tuple[str, Login]:
        found = await self._db.read(find_login, self._vault, provider_ref)
        if found is None:
            raise ProviderRefused("ConnectionNotFound", "There is no such login")
        return found

    async def _login(self, provider_ref: str) -> Login:
        return (await self._find(provider_ref))[1]

    async def _save(self, organization_id: str, ref: str, login: Login) -> None:
        await self._db.write(save_login, self._vault, organization_id, ref, login)

    async def _claim(self, organization_id: str, login: Login, holder: str) -> None:
        if not await self._db.write(claim_dialog, organization_id, login, holder):
            raise ProviderDown("Another dialog with the bank is open for this login. Try again in a few minutes.")

    async def _release(self, organization_id: str, login: Login, holder: str) -> None:
        await self._db.write(release_dialog, organization_id, login, holder)

    # --- In a thread

    async def _run(self, flow: Flow | Held, name: str, work: Work, *args: Any) -> Any:
        """Does a part of the work in a thread, and raises what the port calls its failures.

        The login is claimed for it, and stays so only while the bank waits for the person: a failure ends the attempt.
        """
        held = flow if isinstance(flow, Held) else Held(flow.request.organization_id, flow.holder)
        # The import takes a second, which is nothing for the event loop.
        function, broken, refused = await self._pool.run(_library, name)
        loop = asyncio.get_running_loop()
        await self._claim(held.organization_id, work.login, held.holder)
        is_over = True
        # A bank may repeat what it was sent: PIN and TAN are nowhere shown or kept.
        told = (work.pin, *args) if name == "go_on" else (work.pin,)
        keeping = leases.renewing(self._db, RENEW_SECONDS, claim_dialog, held.organization_id, work.login, held.holder)
        try:
            result = await self._pool.run(function, work, self._poster(loop, broken), *args)
            is_over = False
            if isinstance(result, Challenge):
                result.text = redact(result.text, *told)
            return result
        except refused as error:
            problem = failure([(code, redact(text, *told)) for code, text in error.codes])
            is_refused = isinstance(problem, ProviderRefused) and problem.error_class in (LOCKED, "InvalidCredentials")
            if is_refused and isinstance(flow, Held):
                # Before the login is free again: none of its connections sends this PIN once more.
                await self._db.write(forget_pin, self._vault, held.organization_id, work.login)
            raise problem from None
        except broken as error:
            if isinstance(flow, Flow) and flow.stage == "tan":
                # The dialog is lost with its request, so there is nothing to try again.
                raise ProviderRefused("ProviderError", without_stop(str(error))) from None
            raise ProviderDown(str(error)) from None
        except (Unavailable, ProviderRefused):
            raise
        except Exception as error:
            # The library raises whatever its parser meets. What it says may repeat what was sent, so only its kind is logged.
            log.error("fints_failed", step=name, kind=type(error).__name__)
            raise ProviderRefused("ProviderError", "The bank's answer was not understood") from None
        finally:
            keeping.cancel()
            if is_over:
                await self._release(held.organization_id, work.login, held.holder)

    def _poster(self, loop: asyncio.AbstractEventLoop, broken: type[Exception]) -> Callable[[str, bytes], bytes]:
        def post(url: str, body: bytes) -> bytes:
            return asyncio.run_coroutine_threadsafe(self._post(url, body, broken), loop).result(SECONDS + 10)

        return post

    async def _post(self, url: str, body: bytes, broken: type[Exception]) -> bytes:
        try:
            reply = await self._network.send(
                "POST", url, headers={"Content-Type": "text/plain"}, body=body, seconds=SECONDS, max_bytes=MAX_BYTES, whole=True
            )  # fmt: skip
        except (Refused, Unreached) as error:
            raise broken(said("The bank cannot be reached: {reason}", reason=error)) from None
        if reply.status != 200:
            raise broken(said("The bank answers with HTTP status {status}.", status=reply.status))
        return reply.content

    # --- Pages and deliveries of the bank: there are none

    async def returned(self, fields: Mapping[str, str]) -> Sequence[Report]:
        raise ProviderRefused("ActionNotSupported", "FinTS has no pages of the bank")

    def read_webhook(self, delivery: Delivery) -> str:
        raise BadSignature("banks send nothing by FinTS")


def _library(name: str) -> tuple[Callable[..., Any], type[Exception], Any]:
    """Returns a function of `client.py`, and the library's exceptions for a broken connection and a refusal."""
    from kontobahn.bank_providers.fints import client
    from kontobahn.bank_providers.fints.client import BankError, FinTSConnectionError

    return getattr(client, name), FinTSConnectionError, BankError


def _one(given: Given, name: str) -> str:
    return "".join(given.get(name, ())).strip()


# FinTS from its settings: the list of banks with their addresses; and one harmless question that tries a bank.
#
# The list is a file that the operator has from the registration, or from elsewhere. Two forms are read: the table that
# the German banks hand out (CSV with a heading, separated by semicolons), and lines of the form
# `BLZ=name|place|BIC|…|address|…`.


MAX_LIST_BYTES = 20 * 1024 * 1024
_LINE = re.compile(r"^([0-9]{8})=(.*)$")
_BLZ = re.compile(r"^[0-9]{8}$")


def read_list(path: Path) -> dict[str, FintsBank]:
    """Returns the banks by their code. Raises SetupError if the file cannot be read as a list of banks."""
    try:
        if path.stat().st_size > MAX_LIST_BYTES:
            raise SetupError(f"The list of banks {path} is larger than {MAX_LIST_BYTES:,} bytes.")
        raw = path.read_bytes()
    except OSError as error:
        raise SetupError(f"The list of banks {path} cannot be read: {error.strerror}.") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    lines = text.splitlines()
    found = _from_lines(lines) if any(_LINE.match(line) for line in lines) else _from_table(lines)
    if not found:
        raise SetupError(f"The list of banks {path} holds no bank with a PIN/TAN address.")
    return found


def _from_lines(lines: list[str]) -> dict[str, FintsBank]:
    found: dict[str, FintsBank] = {}
    for line in lines:
        match = _LINE.match(line.strip())
        if match is None:
            continue
        parts = match[2].split("|")
        url = next((part.strip() for part in parts if part.strip().startswith("https://")), "")
        if url:
            name = " ".join(part.strip() for part in parts[:2] if part.strip())
            bic = parts[2].strip() if len(parts) > 2 else ""
            found.setdefault(match[1], FintsBank(match[1], name, bic, url))
    return found


def _from_table(lines: list[str]) -> dict[str, FintsBank]:
    rows = list(csv.reader(lines, delimiter=";"))
    found: dict[str, FintsBank] = {}
    columns: dict[str, int] = {}
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not columns:
            heads = [cell.casefold() for cell in cells]
            if "blz" in heads:
                columns = {name: heads.index(name) for name in ("blz", "bic", "institut", "ort") if name in heads}
            continue
        blz = cells[columns["blz"]] if columns["blz"] < len(cells) else ""
        url = next((cell for cell in cells if cell.startswith("https://")), "")
        if _BLZ.match(blz) and url:
            name = " ".join(filter(None, (_cell(cells, columns, "institut"), _cell(cells, columns, "ort"))))
            found.setdefault(blz, FintsBank(blz, name or blz, _cell(cells, columns, "bic"), url))
    return found


def _cell(cells: list[str], columns: dict[str, int], name: str) -> str:
    at = columns.get(name)
    return cells[at] if at is not None and at < len(cells) else ""


# --- Probe: the bank is asked who it is; nobody signs in


class Answered(Exception):
    """The bank answered, and refused."""


async def probe(
    post: Callable[[str, bytes], Coroutine[Any, Any, bytes]], *, blz: str, url: str, product_id: str
) -> str:
    """Returns the name by which the bank calls itself. Raises Answered if it refuses, and what `post` raises."""
    loop = asyncio.get_running_loop()

    def blocking_post(to: str, body: bytes) -> bytes:
        return asyncio.run_coroutine_threadsafe(post(to, body), loop).result()

    return await asyncio.to_thread(_probe, blocking_post, blz, url, product_id)


def _probe(post: Callable[[str, bytes], bytes], blz: str, url: str, product_id: str) -> str:
    from fints.exceptions import FinTSDialogInitError
    from fints.formals import CUSTOMER_ID_ANONYMOUS

    from kontobahn.bank_providers.fints.client import BankError, StrictClient

    client = StrictClient(
        post, blz=blz, url=url, user=CUSTOMER_ID_ANONYMOUS, customer=None, pin=None, product_id=product_id, data=None
    )
    try:
        # Not the client's own dialog, in which the library minds to learn which methods there are.
        with client._new_dialog():
            return str(getattr(client.bpa, "bank_name", None) or blz)
    except BankError as error:
        raise Answered(str(failure(error.codes))) from None
    except FinTSDialogInitError as error:
        # The library wraps what the network said.
        raise (error.__cause__ or error) from None
