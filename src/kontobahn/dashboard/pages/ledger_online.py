"""Connections to an accounting provider that people sign in to: connect, come back, choose the client, disconnect, requests."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct
from starlette.responses import Response

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import Conflict, KontobahnError, NotFound, SetupError
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.errors import ProviderError, translate_error
from kontobahn.ledger.provider import BookedClient, ConnectionRef, Ledger, OnlineProvider, SentRequest, SignIn

PATH = f"{ROOT}/ledger/connections"
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
    connection, provider = await _find(visit, id)
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
    connection, provider = await _find(visit, id)
    wanted = visit.form.read(Chosen)
    try:
        await provider.choose(connection, wanted.client if wanted else "")
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    await visit.write(_note, connection, visit.actor, "ledger_connection.client")
    return visit.redirect(f"{PATH}/{connection.id}", _("The client was changed."))


@page("/ledger/connections/{id}/disconnect", role="admin", help="ledger-connections")
async def ask_to_disconnect(visit: Visit, id: str) -> Response:
    connection, provider = await _find(visit, id)
    return visit.ask_first(
        title=_("Disconnect from %(name)s?", name=provider.title),
        text=_("The sign-in is revoked there, and whatever was read is deleted here. The books themselves stay as they are."),
        button=_("Disconnect"),
        back=f"{PATH}/{connection.id}",
    )  # fmt: skip


@action("/ledger/connections/{id}/disconnect", role="admin", confirm=True)
async def disconnect(visit: Visit, id: str) -> Response:
    connection, provider = await _find(visit, id)
    try:
        is_revoked = await provider.disconnect(connection)
    except ProviderError as error:
        raise _told(visit, error, connection) from None
    await visit.write(_close, connection, visit.actor)
    if is_revoked:
        return visit.redirect(PATH, _("The connection was ended, here and there."))
    told = _("The connection was ended here. Revoke what was granted at %(url)s too.", url=provider.grants_url)
    return visit.redirect(PATH, told, "bad")


def _close(tx: Tx, connection: ConnectionRef, actor: Actor) -> None:
    connections.close(tx, connection)
    transmissions.give_up(tx, connection)
    audit.record(tx, connection.organization_id, actor, "ledger_connection.close", connection.id)


@page("/ledger/connections/{id}/requests", role="admin", help="ledger-connections")
async def sent_requests(visit: Visit, id: str) -> Response:
    connection, provider = await _find(visit, id)
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


async def _find(visit: Visit, connection_id: str) -> tuple[ConnectionRef, OnlineProvider]:
    """Raises NotFound if there is no such connection, or nobody signs in for it."""
    found = await visit.read(connections.find, visit.principal, connection_id)
    provider = visit.context.part(Ledger).online(found.provider)
    if provider is None:
        raise NotFound("There is no such page.")
    return found, provider
