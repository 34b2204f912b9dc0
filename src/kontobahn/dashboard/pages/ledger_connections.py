"""Accounting connections: their status, what they may do with one sentence for each refusal, and renewing one that has ended."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.wire import Name
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.refusals import help_url_of, words_of
from kontobahn.dashboard.visit import QUELLE, Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import Conflict, KontobahnError, NotFound, SetupError
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.connections import ClientQuery, LedgerConnection
from kontobahn.ledger.errors import ProviderError, translate_error
from kontobahn.ledger.kassenbuch import ReceiptImage
from kontobahn.ledger.provider import (
    FOLLOWED_BY_FILE,
    Author,
    BookedClient,
    ConnectionRef,
    Ledger,
    OnlineProvider,
    OwnBooks,
    SentRequest,
    SignIn,
)
from kontobahn.ledger.routes import rewe_read
from kontobahn.ledger.routes.rewe_read import ProbeEintrag, Rechte
from kontobahn.ledger.transmissions import Uebermittlung, view

# Connections to an accounting provider that people sign in to: connect, come back, choose the client, disconnect,
# requests.


REQUESTS_SHOWN = 50


class Online(NamedTuple):
    """A connection's sign-in, as its page shows it."""

    provider: OnlineProvider
    sign_in: SignIn | None
    clients: list[BookedClient]

    @property
    def signed_in_at(self) -> Any:
        return optional_datetime(self.sign_in.signed_in_at if self.sign_in else None)

    @property
    def expires_at(self) -> Any:
        return optional_datetime(self.sign_in.expires_at if self.sign_in else None)

    @property
    def default(self) -> BookedClient | None:
        return next((client for client in self.clients if client.is_default), None)

    @property
    def lacks_service(self) -> bool:
        """Returns whether the client that is read has not booked what that takes."""
        return self.default is not None and self.provider.needed_service not in self.default.services


async def online_of(visit: Visit, connection: ConnectionRef) -> Online | None:
    provider = visit.context.part(Ledger).online(connection.provider)
    if provider is None:
        return None
    return Online(provider, await provider.sign_in_of(connection), await provider.booked_clients(connection))


def offered(visit: Visit) -> list[OnlineProvider]:
    return visit.context.part(Ledger).all_online


# --- There and back


class Wanted(Struct):
    provider: str


@action("/ledger/connections/connect", role="admin", confirm=True)
async def connect(visit: Visit) -> Response:
    wanted = visit.form.read(Wanted)
    provider = visit.context.part(Ledger).online(wanted.provider if wanted else "")
    if provider is None:
        raise NotFound("There is no such page.")
    made = await visit.write(_new_connection, visit.organization_id, provider.name, provider.title, visit.actor)
    return await set_out(visit, provider, made)


async def set_out(visit: Visit, provider: OnlineProvider, connection: ConnectionRef) -> Response:
    """Leads the browser to the provider's sign-in."""
    assert visit.person is not None
    try:
        url = await provider.begin_sign_in(connection, visit.person.session.id)
    except SetupError as error:
        # The person can tell the operator.
        raise Conflict(str(error)) from None
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    return visit.leave(url, _("On the way to %(name)s", name=provider.title))


def _new_connection(tx: Tx, organization_id: str, provider: str, title: str, actor: Actor) -> ConnectionRef:
    """Returns one that nobody has finished yet, or a new one."""
    for known, _since in connections.of_organization(tx, organization_id):
        if (known.provider, known.status) == (provider, "pending"):
            return known
    made = connections.create(tx, organization_id, bezeichnung=title, provider=provider, status="pending")
    audit.record(tx, organization_id, actor, "ledger_connection.pending", made, name=title)
    return ConnectionRef(organization_id, made, provider, "pending")


@page("/ledger/sign-in", role="admin", help="ledger-connections")
async def come_back(visit: Visit) -> Response:
    """The address that the provider leads people back to."""
    query = {name: values[-1] for name, values in visit.query.items()}
    assert visit.person is not None
    for provider in offered(visit):
        try:
            found = await provider.finish_sign_in(visit.organization_id, visit.person.session.id, query)
        except ProviderError as error:
            log.warning("ledger_sign_in_failed", detail=error.message, request_id=visit.exchange.request_id)
            raise _told(visit, error, None) from None
        await visit.write(_note, found, visit.actor, "ledger_connection.sign_in")
        status = await visit.read(connections.status_of, found.organization_id, found.id)
        if status == "connected":
            return visit.redirect(f"{PATH}/{found.id}", _("The connection works."))
        return visit.redirect(
            f"{PATH}/{found.id}", _("You are signed in, but nothing can be read yet. This page says why."), "bad"
        )
    raise NotFound("There is no such page.")


def _note(tx: Tx, connection: ConnectionRef, actor: Actor, what: str) -> None:
    audit.record(tx, connection.organization_id, actor, what, connection.id)


def _told(visit: Visit, error: ProviderError, connection: ConnectionRef | None) -> KontobahnError:
    url = connections.reconnect_url(visit.context.settings, connection.id) if connection else PATH
    return translate_error(error, url)


# --- The connection


@action("/ledger/connections/{id}/look-again", role="admin")
async def look_again(visit: Visit, id: str) -> Response:
    connection, provider = await _find_online(visit, id)
    try:
        works = await provider.look_again(connection)
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    if works:
        return visit.redirect(f"{PATH}/{connection.id}", _("The connection works."))
    return visit.redirect(f"{PATH}/{connection.id}", _("Nothing can be read yet. This page says why."), "bad")


class Chosen(Struct):
    client: str


@action("/ledger/connections/{id}/client", role="admin")
async def choose_client(visit: Visit, id: str) -> Response:
    connection, provider = await _find_online(visit, id)
    wanted = visit.form.read(Chosen)
    try:
        await provider.choose(connection, wanted.client if wanted else "")
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    await visit.write(_note, connection, visit.actor, "ledger_connection.client")
    return visit.redirect(f"{PATH}/{connection.id}", _("The client was changed."))


@page("/ledger/connections/{id}/disconnect", role="admin", help="ledger-connections")
async def ask_to_disconnect(visit: Visit, id: str) -> Response:
    connection, provider = await _find_online(visit, id)
    return visit.ask_first(
        title=_("Disconnect from %(name)s?", name=provider.title),
        text=_("The sign-in is revoked there, and whatever was read is deleted here. The books themselves stay as they are."),
        button=_("Disconnect"),
        back=f"{PATH}/{connection.id}",
    )  # fmt: skip


@action("/ledger/connections/{id}/disconnect", role="admin", confirm=True)
async def disconnect(visit: Visit, id: str) -> Response:
    connection, provider = await _find_online(visit, id)
    try:
        is_revoked = await provider.disconnect(connection)
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    await visit.write(_close_online, connection, visit.actor)
    if is_revoked:
        return visit.redirect(PATH, _("The connection was ended, here and there."))
    told = _("The connection was ended here. Revoke what was granted at %(url)s too.", url=provider.grants_url)
    return visit.redirect(PATH, told, "bad")


def _close_online(tx: Tx, connection: ConnectionRef, actor: Actor) -> None:
    connections.close(tx, connection)
    transmissions.give_up(tx, connection)
    audit.record(tx, connection.organization_id, actor, "ledger_connection.close", connection.id)


@page("/ledger/connections/{id}/requests", role="admin", help="ledger-connections")
async def sent_requests(visit: Visit, id: str) -> Response:
    connection, provider = await _find_online(visit, id)
    before = (visit.query.get("before") or [""])[-1][:40] or None
    found = await provider.sent_requests(connection, before, REQUESTS_SHOWN + 1)
    rows = [Shown(one, to_datetime(one.sent_at)) for one in found[:REQUESTS_SHOWN]]
    more = rows[-1].request.id if len(found) > REQUESTS_SHOWN else ""
    return visit.show("ledger_requests.html", connection=connection, provider=provider, rows=rows, more=more)


class Shown(NamedTuple):
    request: SentRequest
    at: Any

    @property
    def kind(self) -> str:
        status = self.request.status
        return "plain" if status is None else "good" if status < 400 else "bad"


async def _find_online(visit: Visit, connection_id: str) -> tuple[ConnectionRef, OnlineProvider]:
    """Raises NotFound if there is no such connection, or nobody signs in for it."""
    found = await visit.read(connections.find, visit.principal, connection_id)
    provider = visit.context.part(Ledger).online(found.provider)
    if provider is None:
        raise NotFound("There is no such page.")
    return found, provider


PATH = f"{ROOT}/ledger/connections"
STATUS = {
    "connected": (N_("connected"), "good"),
    "pending": (N_("not finished"), "warn"),
    "expired": (N_("expired"), "bad"),
    "revoked": (N_("revoked"), "bad"),
    "error": (N_("failing"), "bad"),
}
AREAS = {
    "stammdaten": N_("Master data and fiscal years"),
    "konten": N_("Accounts"),
    "buchungen": N_("Bookings and open items"),
    "susa": N_("Trial balance"),
    "zahlungsbedingungen": N_("Terms of payment"),
    "personenkonten": N_("Partners"),
    "kassenbuch": N_("Cash book"),
    "belege": N_("Receipts"),
}
_TO_DO = {
    "permission": N_("Ask your tax adviser to grant this right to the account that the connection uses."),
    "expired": N_("Renew the connection."),
    "error": N_("The accounting program did not answer as it should. Try again later."),
    "unknown": N_("This will be known once the master data can be read."),
}


@page("/ledger/connections", help="ledger-connections")
async def ledger_connections(visit: Visit) -> Response:
    found = await visit.read(connections.listing, (visit.organization_id,))
    closed = await visit.read(connections.closed, visit.organization_id)
    return visit.show("ledger_connections.html", connections=found, closed=closed, states=STATUS, online=offered(visit))


@page("/ledger/connections/{id}", help="ledger-connections")
async def ledger_connection(visit: Visit, id: str) -> Response:
    found = await _find(visit, id)
    problem = help_url = ""
    rights: list[tuple[str, ProbeEintrag, str]] = []
    try:
        answer: Data[Rechte] = await visit.ask(
            rewe_read.get_permissions, query=ClientQuery(connection_id=found.id)
        )  # fmt: skip
    except KontobahnError as error:
        # A connection without books yet, or a provider that is down: its page is there nevertheless.
        problem, help_url = words_of(error), help_url_of(error)
    else:
        for area, name in AREAS.items():
            entry: ProbeEintrag = getattr(answer.data, area)
            rights.append((_(name), entry, _(_TO_DO.get(entry.status, ""))))
    is_closed = found.id in await visit.read(connections.closed, visit.organization_id)
    online = await online_of(visit, await visit.read(connections.find, visit.principal, id))
    return visit.show(
        "ledger_connection.html", connection=found, rights=rights, problem=problem, explained_at=help_url, states=STATUS,
        is_closed=is_closed, online=online,
        client_choices=[(one.client_id, f"{one.name} ({one.client_id})") for one in online.clients] if online else [],
    )  # fmt: skip


@page("/ledger/connections/{id}/reconnect", help="ledger-connections")
async def reconnect_page(visit: Visit, id: str) -> Response:
    """The page that `reconnectUrl` leads to."""
    return visit.show("ledger_reconnect.html", connection=await _find(visit, id), states=STATUS)


@action("/ledger/connections/{id}/reconnect", role="admin", confirm=True)
async def reconnect(visit: Visit, id: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    online = await online_of(visit, connection)
    if online is not None:
        return await set_out(visit, online.provider, connection)
    await visit.write(_renew, visit.principal, id, visit.actor)
    return visit.redirect(f"{PATH}/{id}", _("The connection works again."))


def _renew(tx: Tx, principal: Principal, connection_id: str, actor: Actor) -> None:
    found = connections.find(tx, principal, connection_id)
    connections.set_status(tx, found, "connected")
    audit.record(tx, found.organization_id, actor, "ledger_connection.renew", found.id)


# --- Named and closed


class Named(Struct):
    name: Name


@action("/ledger/connections/{id}/name", role="admin")
async def rename(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Named)
    if wanted is not None:
        await visit.write(_rename, visit, id, wanted.name)
        return visit.redirect(f"{PATH}/{id}", _("The books are now called “%(name)s”.", name=wanted.name))
    response: Response = await ledger_connection.handler(visit, id)
    return response


def _rename(tx: Tx, visit: Visit, connection_id: str, name: str) -> None:
    found = connections.find(tx, visit.principal, connection_id)
    connections.rename(tx, found, name)
    keeping = visit.context.part(OwnBooks)
    clients = keeping.versteuerungen(tx, found) if found.provider == keeping.provider else {}
    if len(clients) == 1:
        # The connection of one client goes by the client's name.
        keeping.rename(tx, found, next(iter(clients)), name)
    audit.record(tx, found.organization_id, visit.actor, "ledger_connection.rename", found.id, name=name)


@page("/ledger/connections/{id}/close", role="admin", help="ledger-connections")
async def ask_to_close(visit: Visit, id: str) -> Response:
    found = await _find(visit, id)
    return visit.ask_first(
        title=_("Close the books “%(name)s”?", name=found.bezeichnung or found.id),
        text=_("Nothing is deleted. The books can neither be read nor written until somebody opens them again."),
        button=_("Close the books"),
        back=f"{PATH}/{found.id}",
        ends=False,
    )


@action("/ledger/connections/{id}/close", role="admin", confirm=True)
async def close(visit: Visit, id: str) -> Response:
    if await online_of(visit, await visit.read(connections.find, visit.principal, id)) is not None:
        # Its tokens must be revoked, which takes the provider.
        return visit.redirect(f"{PATH}/{id}/disconnect")
    await visit.write(_close, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("The books are closed."))


def _close(tx: Tx, principal: Principal, connection_id: str, actor: Actor) -> None:
    found = connections.find(tx, principal, connection_id)
    connections.close(tx, found)
    audit.record(tx, found.organization_id, actor, "ledger_connection.close", found.id)


async def _find(visit: Visit, connection_id: str) -> LedgerConnection:
    await visit.read(connections.find, visit.principal, connection_id)
    found = await visit.read(connections.listing, visit.principal.scope)
    return next(item for item in found if item.id == connection_id.lower())


# Transmissions to an accounting provider that carries them out in its own time, and what became of each.


STATES = {
    "OPEN": (N_("waiting"), "warn"),
    "IN_PROGRESS": (N_("under way"), "warn"),
    "SUCCESS": (N_("done"), "good"),
    "PARTIAL_SUCCESS": (N_("done in part"), "bad"),
    "FAILED": (N_("refused"), "bad"),
    "UNKNOWN": (N_("not known"), "bad"),
}
KINDS = {
    "KASSENBUCH": N_("Cash entry"),
    "PERSONENKONTO": N_("Partner"),
    "BUCHUNGSSTAPEL": N_("Booking batch"),
}
# To be done about it by a person.
TO_DO = {
    "PARTIAL_SUCCESS": N_("The messages say what is missing. Enter that alone: the rest would be booked twice."),
    "UNKNOWN": N_("Look at the provider whether it is there, before you send it again."),
}


class NoFilters(Struct):
    """The list has pages, and nothing to choose."""


class Sent(NamedTuple):
    sent: Uebermittlung
    # A person decides whether it is sent again, or its file handed over.
    waits: bool
    followed_by: str | None


@page("/ledger/connections/{id}/transmissions", poll=10, help="ledger-connections")
async def transmission_list(visit: Visit, id: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    provider = visit.context.part(Ledger).online(connection.provider)
    if provider is None:
        raise NotFound("There is no such page.")
    filters = visit.filters(NoFilters)
    rows = await visit.read(transmissions.listing, connection, None, filters.after or None, PAGE_SIZE + 1)
    shown = [Sent(view(row), transmissions.waits_for_a_person(row), row.followed_by) for row in rows]
    return visit.show(
        "ledger_transmissions.html",
        connection=connection,
        provider=provider,
        list=filters.first_page(shown, lambda one: one.sent.id),
        states=STATES,
        kinds=KINDS,
        to_do=TO_DO,
        by_file=FOLLOWED_BY_FILE,
    )


# --- After one has failed


@page("/ledger/connections/{id}/transmissions/{sent}/send-again", role="bookkeeping", help="ledger-connections")
async def ask_to_send_again(visit: Visit, id: str, sent: str) -> Response:
    await visit.read(connections.find, visit.principal, id)
    return visit.ask_first(
        title=_("Send the batch again?"),
        text=_("First check with the accounting provider whether the batch has arrived: if it has, everything would be booked twice."),
        button=_("Send again"),
        back=f"{PATH}/{id}/transmissions",
        ends=False,
    )  # fmt: skip


@action("/ledger/connections/{id}/transmissions/{sent}/send-again")
async def send_again(visit: Visit, id: str, sent: str) -> Response:
    connection = await visit.read(connections.find, visit.principal, id)
    author = Author(visit.exchange.request_id, QUELLE, visit.actor.name)
    await visit.write(_send_again, connection, sent, author, visit.actor)
    return visit.redirect(
        f"{PATH}/{connection.id}/transmissions", _("The batch is sent again. Its outcome appears here.")
    )


def _send_again(tx: Tx, connection: ConnectionRef, sent: str, author: Author, actor: Actor) -> None:
    made = transmissions.send_again(tx, connection, sent, author)
    audit.record(tx, connection.organization_id, actor, "ledger_transmission.again", made.id, name=made.title)


@action("/ledger/connections/{id}/transmissions/{sent}/file")
async def take_file(visit: Visit, id: str, sent: str) -> Response:
    """The file of a batch that failed, to be handed over by a person from now on."""
    connection = await visit.read(connections.find, visit.principal, id)
    file = await visit.write(_take_file, connection, sent, visit.actor)
    return visit.download(file.content, file.mime_typ, file.dateiname)


def _take_file(tx: Tx, connection: ConnectionRef, sent: str, actor: Actor) -> ReceiptImage:
    file = transmissions.take_file(tx, connection, sent)
    audit.record(tx, connection.organization_id, actor, "ledger_transmission.file", sent.lower(), name=file.dateiname)
    return file
