"""Transmissions: writes that an accounting provider carries out in its own time, so that their effect precedes our transaction.

The intent is written first, with the reservation that pays for it. Whoever then works on it holds a lease, and stores that it is
released before anything is sent that may take effect; from then on it is asked after and never sent again, whoever goes on with it.
One at a time of a client and kind, in the order in which they came. The outcome confirms the reservation or gives it back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kontobahn import credits, log
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Platform
from kontobahn.api.call import Call, Context
from kontobahn.api.idempotency import Claim
from kontobahn.api.request_log import charge_later
from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.clock import DAY, SECOND, to_datetime
from kontobahn.credits import Cause
from kontobahn.db import Database, Table, Tx
from kontobahn.db.leases import Lease, renewing
from kontobahn.errors import Conflict, KeyReused, NotFound, Refusal
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import connections
from kontobahn.ledger.errors import ProviderError, is_rejection
from kontobahn.ledger.kassenbuch import Belegbild, ReceiptImage
from kontobahn.ledger.provider import (
    FOLLOWED_BY_FILE,
    Author,
    ConnectionRef,
    Ledger,
    Outgoing,
    Progress,
    StoredFile,
    Transmission,
    TransmissionKind,
    TransmissionState,
)
from kontobahn.ledger.wire import Meldung

FINAL: tuple[TransmissionState, ...] = ("SUCCESS", "PARTIAL_SUCCESS", "FAILED", "UNKNOWN")
TAKEN_EFFECT: tuple[TransmissionState, ...] = ("SUCCESS", "PARTIAL_SUCCESS")
NOT_TAKEN: tuple[TransmissionState, ...] = ("FAILED", "UNKNOWN")
# A call waits this long for the outcome, looking this often whether another process has moved it.
WAIT_SECONDS, LOOK_SECONDS = 20.0, 0.1
LEASE_SECONDS = 30.0
# Longer than any stays open: after a lapsed reservation the credits could be spent twice.
HOLD_SECONDS = 2 * 365 * DAY // SECOND
# A provider that has no outcome by then will have none.
GIVEN_UP_AFTER = 2 * DAY
SHORTEST_PAUSE, LONGEST_PAUSE = 60, 3600
AT_ONCE = 20
# More than a person looks at one by one.
MAX_TROUBLED = 100

TRANSMISSIONS = Table("ledger_transmissions", Transmission, key=("organization_id", "id"))
_LEASE = Lease("ledger_transmissions", ("organization_id", "id", "attempt"), LEASE_SECONDS)
_IS_TROUBLED = "followed_by IS NULL AND (state = 'UNKNOWN' OR state = 'PARTIAL_SUCCESS' OR (state = 'FAILED' AND kind = 'BUCHUNGSSTAPEL'))"
_IS_OPEN = "(state = 'OPEN' OR state = 'IN_PROGRESS')"


class LeaseLost(Exception):
    """Another process has taken over."""


# --- From a call


async def send(call: Call, outgoing: Outgoing, author: Author) -> Transmission:
    """Writes the intent with its reservation, and waits a bounded time for the outcome.

    Raises ProviderError or Refusal if nothing took effect; an idempotency key stays open as long as the outcome does.
    """
    row = await call.context.db.write(
        _begin, call.principal, outgoing, author, price=call.price, cause=call.cause, claim=call.claim
    )
    row = await _follow(call.context, row, call.patience_seconds)
    if row.state == "FAILED":
        raise ProviderError(409, _why(row), type="FAILED")
    if row.state == "UNKNOWN":
        raise Conflict(
            "Nobody can tell whether the accounting provider carried this out. Look there before you send it again.",
            details={"uebermittlungId": row.id, "message": _why(row)},
        )
    if row.state in TAKEN_EFFECT:
        call.charged = call.price
    else:
        await call.leave_key_open()
    return row


async def balance(call: Call) -> Platform:
    """Returns what is left to the payer."""
    found = await call.read_inline(credits.balance, call.principal.organization_id)
    return Platform(neuesGuthaben=found.available)


def _why(row: Transmission) -> str:
    texts = [one.nachricht for one in messages_of(row) if one.typ == "FEHLER"]
    return " ".join(texts) or "The accounting provider gave no reason."


async def _follow(context: Context, row: Transmission, patience_seconds: float | None) -> Transmission:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + min(WAIT_SECONDS, patience_seconds or WAIT_SECONDS)
    while row.state not in FINAL:
        if row.next_step_at <= context.clock.now():
            moved = await step(context, row, for_caller=True)
            if moved is not None:
                row = moved
                continue
        left = give_up_at - loop.time()
        if left <= 0 or (row.next_step_at - context.clock.now()) / SECOND > left:
            break
        await asyncio.sleep(LOOK_SECONDS)
        row = await context.db.read(get, row)
    return row


def _begin(
    tx: Tx, principal: Principal, outgoing: Outgoing, author: Author, *, price: int, cause: Cause, claim: Claim | None
) -> Transmission:
    """Writes the intent, or returns that of an earlier call with the same key which may have taken effect."""
    earlier = None if claim is None else _find_by_claim(tx, principal, claim)
    if earlier is not None and earlier.state != "FAILED":
        return earlier
    payer = principal.organization_id
    hold = credits.reserve(tx, payer, price, hold_seconds=HOLD_SECONDS, cause=cause) if price else None
    made = insert(tx, outgoing, author, payer, hold_id=hold.id if hold else None, claim=claim)
    if earlier is not None:
        # It has failed, and its caller has done something about it: nobody else has to.
        TRANSMISSIONS.update(tx, earlier, followed_by=made.id)
    return made


def _find_by_claim(tx: Tx, principal: Principal, claim: Claim) -> Transmission | None:
    found = TRANSMISSIONS.one(
        tx, "payer_organization_id = ? AND idempotency_key = ? AND created_at > ? ORDER BY id DESC LIMIT 1",
        principal.organization_id, claim.key, tx.now - claim.keep_microseconds,
    )  # fmt: skip
    if found is not None and not (
        found.organization_id in principal.scope and found.idempotency_fingerprint == claim.fingerprint
    ):
        raise KeyReused("This idempotency key was used for another request: another path, query or body.")
    return found


def insert(
    tx: Tx, outgoing: Outgoing, author: Author, payer: str, *, hold_id: str | None = None, claim: Claim | None = None
) -> Transmission:
    """Writes the intent. It is carried out by the next who looks, whatever becomes of this process."""
    connection = outgoing.connection
    row = Transmission(
        organization_id=connection.organization_id, id=new_id(), connection_id=connection.id, client_id=outgoing.client_id,
        kind=outgoing.kind, title=outgoing.title, state="OPEN", content=outgoing.content, progress="", messages="[]",
        payer_organization_id=payer, hold_id=hold_id, idempotency_key=claim.key if claim else None,
        idempotency_fingerprint=claim.fingerprint if claim else None, request_id=author.request_id, quelle=author.quelle,
        attempt=0, polls=0, next_step_at=tx.now, created_at=tx.now, updated_at=tx.now, lease_until=0,
        followed_by=None,
    )  # fmt: skip
    TRANSMISSIONS.insert(tx, row)
    for position, file in enumerate(outgoing.files):
        tx.put_large(
            "INSERT INTO ledger_transmission_files (organization_id, transmission_id, position, id, dateiname, mime_typ, sha256,"
            " content, groesse) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row.organization_id, row.id, position, new_id(), file.dateiname, file.mime_typ, file.sha256, file.content,
            len(file.content),
        )  # fmt: skip
    return row


# --- A step


class _Notebook:
    def __init__(self, db: Database, row: Transmission) -> None:
        self._db, self._row = db, row

    async def keep(self, progress: str, *, is_released: bool = False) -> None:
        await self._db.write(_note, self._row, "IN_PROGRESS" if is_released else "OPEN", progress)

    async def files(self) -> list[StoredFile]:
        return await self._db.read(files_of, self._row)

    async def content(self, file: StoredFile) -> bytes:
        return await self._db.read(_content, self._row, file.position)


async def step(context: Context, row: Transmission, *, for_caller: bool = False) -> Transmission | None:
    """Takes a transmission a step further. Returns it as it is then; None if it is not its turn, or somebody else is at it.

    Raises ProviderError or Refusal `for_caller` if it failed before anything could take effect; it has failed for good then.
    """
    db = context.db
    connection = await db.read(_connection_of, row)
    provider = context.part(Ledger).transmitter(connection.provider) if connection else None
    claimed = await db.write(_claim, row)
    if claimed is None:
        return None
    if connection is None or connection.status != "connected" or provider is None:
        # Until somebody has signed in again.
        return await db.write(_postpone, claimed, LONGEST_PAUSE // 6)
    held = renewing(db, LEASE_SECONDS / 3, _renew, claimed)
    try:
        return await db.write(_settle, claimed, await provider.transmit(connection, claimed, _Notebook(db, claimed)))
    except (ProviderError, Refusal) as error:
        moved = await db.write(_stumble, claimed, error, is_final=for_caller or _is_final(error))
        if for_caller and moved.state == "FAILED":
            raise
        log.info("transmission_postponed", id=row.id, state=moved.state, detail=str(error))
        return moved
    except LeaseLost:
        return None
    finally:
        held.cancel()


def _is_final(error: ProviderError | Refusal) -> bool:
    return isinstance(error, Refusal) or (is_rejection(error) and error.status != 401)


async def carry_on(context: Context) -> None:
    """Goes on with whatever waits: what a process that died has left, and what the provider was still at."""

    async def go_on(row: Transmission) -> None:
        try:
            await step(context, row)
        except LeaseLost:
            pass

    due = await context.db.read(_due)
    for done in await asyncio.gather(*map(go_on, due), return_exceptions=True):
        if isinstance(done, BaseException):
            raise done


# --- Rows


def _claim(tx: Tx, row: Transmission) -> Transmission | None:
    """Takes the lease, if it is this one's turn among those of its client and kind."""
    tx.lock("ledger_transmissions", row.organization_id, row.connection_id, row.client_id, row.kind)
    found = get(tx, row)
    if found.state in FINAL or found.lease_until > tx.now or found.next_step_at > tx.now:
        return None
    before = tx.one(
        f"SELECT 1 FROM ledger_transmissions WHERE organization_id = ? AND connection_id = ? AND client_id = ? AND {_IS_OPEN}"
        " AND kind = ? AND id <> ? AND (id < ? OR state = 'IN_PROGRESS' OR lease_until > ?) LIMIT 1",
        row.organization_id, row.connection_id, row.client_id, row.kind, row.id, row.id, tx.now,
    )  # fmt: skip
    if before is not None:
        return None
    polls = found.polls + (found.state == "IN_PROGRESS")
    return TRANSMISSIONS.update(tx, found, attempt=found.attempt + 1, polls=polls, lease_until=_LEASE.ends_at(tx.now))


def _renew(tx: Tx, row: Transmission) -> None:
    _LEASE.renew(tx, row.organization_id, row.id, row.attempt)


def _move(tx: Tx, row: Transmission, **values: Any) -> Transmission:
    """Writes these columns, if the transmission is still this attempt's. Raises LeaseLost otherwise."""
    assignments = ", ".join(f"{name} = ?" for name in values)
    is_ours = tx.run(
        f"UPDATE ledger_transmissions SET {assignments}, updated_at = ? WHERE organization_id = ? AND id = ? AND attempt = ?"
        f" AND {_IS_OPEN}",
        *values.values(), tx.now, row.organization_id, row.id, row.attempt,
    )  # fmt: skip
    if not is_ours:
        raise LeaseLost
    return get(tx, row)


def _note(tx: Tx, row: Transmission, state: TransmissionState, progress: str) -> None:
    _move(tx, row, state=state, progress=progress)


def _settle(tx: Tx, row: Transmission, progress: Progress) -> Transmission:
    if progress.state not in FINAL and tx.now - row.created_at > GIVEN_UP_AFTER and row.state == "IN_PROGRESS":
        text = "Nach zwei Tagen wurde vom Anbieter noch kein Ergebnis genannt."
        progress = Progress("UNKNOWN", [*progress.messages, _meldung(tx, text)])
    moved = _move(
        tx, row, state=progress.state, messages=encode(progress.messages).decode(), lease_until=0,
        next_step_at=tx.now + progress.pause_seconds * SECOND,
    )  # fmt: skip
    if moved.state in FINAL:
        _settle_credits(tx, moved)
    return moved


def _settle_credits(tx: Tx, row: Transmission) -> None:
    if row.hold_id is None:
        return
    if row.state not in TAKEN_EFFECT:
        credits.expire(tx, row.payer_organization_id, row.hold_id)
        return
    try:
        charge_later(tx, row.payer_organization_id, row.hold_id)
    except credits.HoldLapsed:
        log.warning("transmission_done_after_its_reservation", id=row.id)


def _stumble(tx: Tx, row: Transmission, error: ProviderError | Refusal, *, is_final: bool) -> Transmission:
    """Ends a transmission that failed before anything could take effect, or puts the next step off."""
    now = get(tx, row)
    if now.state == "OPEN" and is_final:
        text = error.message if isinstance(error, ProviderError) else str(error)
        return _settle(tx, row, Progress("FAILED", [_meldung(tx, text)]))
    wanted = error.retry_after_seconds if isinstance(error, ProviderError) else 0
    return _postpone(tx, row, max(wanted, min(SHORTEST_PAUSE * 2 ** min(row.attempt, 10), LONGEST_PAUSE)))


def _meldung(tx: Tx, text: str) -> Meldung:
    return Meldung(dateiname=None, nachricht=text, zeitstempel=to_datetime(tx.now), typ="FEHLER")


def _postpone(tx: Tx, row: Transmission, seconds: int) -> Transmission:
    return _move(tx, row, lease_until=0, next_step_at=tx.now + seconds * SECOND)


def give_up(tx: Tx, connection: ConnectionRef) -> None:
    """Ends what is still on its way over a connection that is closed."""
    for row in TRANSMISSIONS.all(
        tx, f"organization_id = ? AND connection_id = ? AND {_IS_OPEN}", connection.organization_id, connection.id
    ):
        state: TransmissionState = "FAILED" if row.state == "OPEN" else "UNKNOWN"
        told = [*messages_of(row), _meldung(tx, "Die Verbindung wurde vorher getrennt.")]
        _settle(tx, row, Progress(state, told))


def get(tx: Tx, row: Transmission) -> Transmission:
    found = TRANSMISSIONS.one(tx, "organization_id = ? AND id = ?", row.organization_id, row.id)
    assert found is not None
    return found


def _due(tx: Tx) -> list[Transmission]:
    return TRANSMISSIONS.all(
        tx,
        f"{_IS_OPEN} AND next_step_at <= ? AND lease_until <= ? ORDER BY next_step_at, id LIMIT {AT_ONCE}",
        tx.now,
        tx.now,
    )


def _connection_of(tx: Tx, row: Transmission) -> ConnectionRef | None:
    known = connections.of_organization(tx, row.organization_id)
    return next((one for one, _ in known if one.id == row.connection_id), None)


def listing(
    tx: Tx,
    connection: ConnectionRef,
    client_id: str | None,
    before: str | None,
    limit: int,
    kind: TransmissionKind | None = None,
) -> list[Transmission]:
    """Returns those of a connection, or of one client and kind of it, the latest first."""
    only = {"client_id": client_id, "kind": kind}
    chosen = {name: value for name, value in only.items() if value}
    where = "".join(f" AND {name} = ?" for name in chosen)
    return TRANSMISSIONS.all(
        tx, f"organization_id = ? AND connection_id = ? AND id < ?{where} ORDER BY id DESC LIMIT {int(limit)}",
        connection.organization_id, connection.id, before or "g", *chosen.values(),
    )  # fmt: skip


def find(tx: Tx, connection: ConnectionRef, transmission_id: str) -> Transmission | None:
    return TRANSMISSIONS.one(
        tx, "organization_id = ? AND connection_id = ? AND id = ?",
        connection.organization_id, connection.id, transmission_id.lower(),
    )  # fmt: skip


def troubled(tx: Tx, organization_id: str, since: int) -> dict[str, int]:
    """Counts those of each connection that a person has to look at: of which a part was taken, or nobody knows, or batches that failed.

    Of anything else that failed the caller was told.
    """
    rows = tx.all(
        "SELECT connection_id FROM ledger_transmissions WHERE organization_id = ? AND updated_at >= ?"
        f" AND {_IS_TROUBLED} ORDER BY updated_at DESC LIMIT {MAX_TROUBLED}",
        organization_id, since,
    )  # fmt: skip
    return Counter(str(connection_id) for (connection_id,) in rows)


# --- After one has failed: a person sends it again, or hands its file over, and never both


def waits_for_a_person(row: Transmission) -> bool:
    """Returns whether a batch took no effect, as far as anybody knows, and nobody has done anything about it.

    Not one that was paid for by itself: its caller was told, and sends it again under the key.
    """
    return row.kind == "BUCHUNGSSTAPEL" and row.state in NOT_TAKEN and row.followed_by is None and row.hold_id is None


def send_again(tx: Tx, connection: ConnectionRef, transmission_id: str, author: Author) -> Transmission:
    """Sends a batch that failed once more. Raises Conflict if somebody has done that, or has taken the file."""
    row = find(tx, connection, transmission_id)
    if row is None:
        raise NotFound("There is no such page.")
    if connection.status != "connected":
        raise Conflict("The connection does not work: renew it first.")
    files = [
        ReceiptImage(one.dateiname, one.mime_typ, one.sha256, _content(tx, row, one.position))
        for one in files_of(tx, row)
    ]
    outgoing = Outgoing(connection, row.client_id, row.kind, row.title, row.content, tuple(files))
    made = insert(tx, outgoing, author, row.payer_organization_id)
    if not _follow_by(tx, row, made.id):
        raise _decided_already()
    return made


def take_file(tx: Tx, connection: ConnectionRef, transmission_id: str) -> ReceiptImage:
    """Returns the file of a batch that failed, which is handed over by a person from now on."""
    row = find(tx, connection, transmission_id)
    if row is None or row.kind != "BUCHUNGSSTAPEL":
        raise NotFound("There is no such page.")
    if row.followed_by != FOLLOWED_BY_FILE and not _follow_by(tx, row, FOLLOWED_BY_FILE):
        raise _decided_already()
    (file,) = files_of(tx, row)
    return ReceiptImage(file.dateiname, file.mime_typ, file.sha256, _content(tx, row, file.position))


def _follow_by(tx: Tx, row: Transmission, what: str) -> bool:
    """Returns False if it does not wait for a person, or another one was first."""
    return waits_for_a_person(row) and bool(
        tx.run(
            "UPDATE ledger_transmissions SET followed_by = ? WHERE organization_id = ? AND id = ? AND followed_by IS NULL",
            what, row.organization_id, row.id,
        )
    )  # fmt: skip


def _decided_already() -> Conflict:
    return Conflict("It is on its way, or done, or somebody has sent it again or taken its file meanwhile.")


def note_taken(tx: Tx, organization_id: str, transmission_id: str) -> None:
    """Notes that somebody has the file of a batch: if it has failed, it is not to be sent again."""
    row = last_sent(tx, organization_id, transmission_id)
    if row is not None:
        _follow_by(tx, row, FOLLOWED_BY_FILE)


def last_sent(tx: Tx, organization_id: str, transmission_id: str) -> Transmission | None:
    """Returns the last that was sent in the place of this one, or this one."""
    row = TRANSMISSIONS.one(tx, "organization_id = ? AND id = ?", organization_id, transmission_id)
    while row is not None and row.followed_by not in (None, FOLLOWED_BY_FILE):
        row = TRANSMISSIONS.one(tx, "organization_id = ? AND id = ?", organization_id, row.followed_by)
    return row


def messages_of(row: Transmission) -> list[Meldung]:
    return msgspec.json.decode(row.messages, type=list[Meldung])


# --- Files that are sent along


def files_of(tx: Tx, row: Transmission) -> list[StoredFile]:
    rows = tx.all(
        "SELECT position, id, dateiname, mime_typ, sha256, groesse FROM ledger_transmission_files"
        " WHERE organization_id = ? AND transmission_id = ? ORDER BY position",
        row.organization_id, row.id,
    )  # fmt: skip
    return [StoredFile._make(one) for one in rows]


def images_of(tx: Tx, row: Transmission) -> list[Belegbild]:
    return [
        Belegbild(id=one.id, dateiname=one.dateiname, groesse=one.groesse, mimeTyp=one.mime_typ, sha256=one.sha256)
        for one in files_of(tx, row)
    ]


def _content(tx: Tx, row: Transmission, position: int) -> bytes:
    (content,) = tx.all(
        "SELECT content FROM ledger_transmission_files WHERE organization_id = ? AND transmission_id = ? AND position = ?",
        row.organization_id, row.id, position,
    )[0]  # fmt: skip
    return bytes(content)


def find_image(tx: Tx, connection: ConnectionRef, client_id: str, image_id: str) -> ReceiptImage | None:
    """Returns a receipt that was sent along with an entry of this client: the provider does not give it back."""
    row = tx.one(
        "SELECT dateiname, mime_typ, sha256, content, transmission_id FROM ledger_transmission_files"
        " WHERE organization_id = ? AND id = ?",
        connection.organization_id, image_id.lower(),
    )  # fmt: skip
    sent_with = None if row is None else find(tx, connection, row[4])
    if row is None or sent_with is None or sent_with.client_id != client_id:
        return None
    return ReceiptImage(row[0], row[1], row[2], bytes(row[3]))


# A transmission on the wire: what was sent to the accounting provider, and what became of it.


class Uebermittlung(Answer, kw_only=True):
    id: Uuid
    clientId: str
    art: TransmissionKind
    bezeichnung: str
    status: Annotated[
        TransmissionState,
        Meta(
            description="`OPEN`: not sent yet. `IN_PROGRESS`: the provider has it. `PARTIAL_SUCCESS`: it took a part, as the messages say."
            " `FAILED`: it took nothing. `UNKNOWN`: nobody can tell any more; look there before you send it again."
        ),
    ]
    meldungen: Annotated[list[Meldung], Meta(description="The provider's protocol.")]
    erstelltAm: Timestamp
    aktualisiertAm: Timestamp


def view(row: Transmission) -> Uebermittlung:
    return Uebermittlung(
        id=row.id,
        clientId=row.client_id,
        art=row.kind,
        bezeichnung=row.title,
        status=row.state,
        meldungen=messages_of(row),
        erstelltAm=to_datetime(row.created_at),
        aktualisiertAm=to_datetime(row.updated_at),
    )
