"""Clients of an adviser: added, named, closed and opened again, with whoever may work in each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import audit, client_access, clients, invitations, users
from kontobahn.access.audit import Actor
from kontobahn.access.client_access import Client, Listed
from kontobahn.access.clients import KeptClient
from kontobahn.access.invitations import NewInvitation
from kontobahn.access.principal import ROLES, Principal
from kontobahn.api.wire import Name
from kontobahn.banking.connections import accounts
from kontobahn.dashboard import bookshelf, people, todo
from kontobahn.dashboard.bookshelf import Span
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages import first_steps
from kontobahn.dashboard.pages.team import Invite
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.todo import Todo
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.reconciliation import batch_store
from kontobahn.settings import Settings
from kontobahn.vault import Vault

PATH = f"{ROOT}/clients"


class NewClient(Struct):
    name: Name


class Facts(NamedTuple):
    client: KeptClient
    # The people of our organisation who may work in it.
    people: list[Listed]
    # The client has people of its own.
    has_people: bool


@page("/clients", own=True, role="admin", help="clients")
async def client_list(visit: Visit) -> Response:
    found = await visit.read(clients.listing, visit.principal)
    return visit.show("clients.html", clients=found, role_names=ROLE_NAMES)


@action("/clients", own=True, role="admin")
async def add_client(visit: Visit) -> Response:
    """Adds a client and goes there, to set it up."""
    wanted = visit.form.read(NewClient)
    if wanted is not None:
        with visit.form.refusals():
            made = await visit.write(clients.create, visit.principal, wanted.name, visit.actor)
            visit.new_cookies["organization"] = made.id
            return visit.redirect(first_steps.PATH, _("You are now working in “%(name)s”.", name=made.name))
    response: Response = await client_list.handler(visit)
    return response


@page("/clients/{id}", own=True, role="admin", help="clients")
async def client(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    roles = [(role, _(ROLE_NAMES[role])) for role in ROLES if role != "owner" or not facts.has_people]
    return visit.show("client.html", facts=facts, client=facts.client, role_names=ROLE_NAMES, roles=roles)


def _facts(tx: Tx, principal: Principal, client_id: str) -> Facts:
    found = clients.administered(tx, principal, client_id)
    listed = client_access.listing(tx, principal.organization_id)
    ours = [item for item in listed if item.access.client_organization_id == client_id]
    return Facts(found, ours, users.any_of(tx, client_id))


@action("/clients/{id}", own=True, role="admin")
async def rename_client(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(NewClient)
    if wanted is not None:
        await visit.write(clients.rename, visit.principal, id, wanted.name, visit.actor)
        return visit.redirect(f"{PATH}/{id}", _("The client is now called “%(name)s”.", name=wanted.name))
    response: Response = await client.handler(visit, id)
    return response


@action("/clients/{id}/invitations", own=True, role="admin", confirm=True)
async def invite_to_client(visit: Visit, id: str) -> Response:
    """Invites a person of the client, who signs in there."""
    wanted = visit.form.read(Invite)
    if wanted is not None:
        with visit.form.refusals():
            made, is_mailed = await visit.write(
                _invite, visit.context.vault, visit.context.settings, visit.principal, id, wanted, visit.actor
            )
            link = invitations.link(visit.context.settings.base_url, made.secret)
            return visit.show("team_invited.html", invitation=made.invitation, link=link, is_mailed=is_mailed)
    response: Response = await client.handler(visit, id)
    return response


def _invite(
    tx: Tx, vault: Vault, settings: Settings, principal: Principal, client_id: str, wanted: Invite, actor: Actor
) -> tuple[NewInvitation, bool]:
    made = clients.invite(
        tx, vault, principal, client_id,
        email=wanted.email, role=wanted.role, days=settings.invitation_days, actor=actor,
    )  # fmt: skip
    return made, invitations.send_invitation(tx, vault, settings, made)


@page("/clients/{id}/close", own=True, role="admin", help="clients")
async def ask_to_close(visit: Visit, id: str) -> Response:
    found = await visit.read(clients.administered, visit.principal, id)
    return visit.ask_first(
        title=_("Close the client “%(name)s”?", name=found.name),
        text=_("Nothing is deleted. Nobody can work in it until somebody who administers it opens it again."),
        button=_("Close the client"),
        back=f"{PATH}/{found.id}",
    )


@action("/clients/{id}/close", own=True, role="admin", confirm=True)
async def close_client(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        found = await visit.write(clients.close, visit.principal, id, visit.actor)
        return visit.redirect(PATH, _("“%(name)s” is closed.", name=found.name))
    response: Response = await ask_to_close.handler(visit, id)
    return response


@action("/clients/{id}/open", own=True, role="admin")
async def reopen_client(visit: Visit, id: str) -> Response:
    found = await visit.write(clients.reopen, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("“%(name)s” is open again.", name=found.name))


# The clients of an adviser on one page: what waits in each, and one list of all that there is to do.


T = TypeVar("T")
BOARD_PATH = f"{ROOT}/board"
# Clients that are looked at for one page, in the order of their names, and how many at once: others want to be served too.
MAX_CLIENTS = 100
AT_ONCE = 4
_CONSENTS = ("bank_reconnect", "bank_off", "consent_ends", "ledger_reconnect")
SORTS = {
    "": N_("Most urgent"),
    "name": N_("Name"),
    "unmatched": N_("Unmatched money"),
    "activity": N_("Last activity"),
    "vat": N_("VAT"),
}


class BoardFilter(Struct):
    q: str = ""
    sort: Literal["", "name", "unmatched", "activity", "vat"] = ""


class NoFilters(Struct):
    """The list has pages, and nothing to choose."""


class BoardFacts(NamedTuple):
    client: Client
    todo: list[Todo]
    active_at: int | None
    # DATEV files of hand-overs that nobody has fetched yet.
    to_fetch: int


class BoardRow(NamedTuple):
    """A client with its figures; None for VAT of books that do not answer, or that have no such year."""

    client: Client
    active_at: int | None
    # The number of matters that wait, by kind.
    waiting: dict[str, int]
    # In whole cents, what came in and what went out.
    came: int
    went: int
    vat: int | None
    # The page that shows it; of several books the overview, which has them all.
    vat_page: str
    to_fetch: int

    @property
    def consents_page(self) -> str:
        """The list of what is to be renewed: at banks, of books, or both."""
        kinds = {kind for kind in _CONSENTS if self.waiting.get(kind)}
        if "ledger_reconnect" not in kinds:
            return f"{ROOT}/connections"
        return f"{ROOT}/ledger/connections" if len(kinds) == 1 else ROOT

    @property
    def consents(self) -> int:
        return sum(self.waiting.get(kind, 0) for kind in _CONSENTS)

    @property
    def urgency(self) -> tuple[int, int]:
        return self.consents + self.waiting.get("refused_file", 0), self.came - self.went


@page("/board", own=True, for_clients=True, help="client-board")
async def board(visit: Visit) -> Response:
    filters = visit.filters(BoardFilter)
    wanted = filters.wanted.q.casefold().split()
    fitting = [one for one in _clients(visit) if all(word in one.name.casefold() for word in wanted)]
    [month, *_more] = bookshelf.months_and_quarters(visit.today)
    rows = await _for_each(fitting[:MAX_CLIENTS], lambda client: _row(visit, client, month))
    return visit.show(
        "client_board.html",
        filters=filters,
        rows=_sorted(rows, filters.wanted.sort),
        month=month,
        count=len(fitting),
        most=MAX_CLIENTS,
        sorts=SORTS,
    )


@page("/board/tasks", own=True, help="client-board")
async def tasks(visit: Visit) -> Response:
    """Everything that waits for a person, over all clients, the most urgent first."""
    filters = visit.filters(NoFilters)
    facts = await _for_each(
        _clients(visit)[:MAX_CLIENTS], lambda client: visit.read(_board_facts, client, visit.principal.user_id)
    )
    found = [(one.client, item) for one in facts for item in one.todo]
    found.sort(key=lambda row: todo.urgency(row[1]))
    start = int(filters.after) if filters.after.isascii() and filters.after.isdigit() and len(filters.after) < 10 else 0
    numbered = [
        (number, client, item, todo.said(item))
        for number, (client, item) in enumerate(found[start : start + PAGE_SIZE + 1], start + 1)
    ]
    return visit.show("client_tasks.html", list=filters.first_page(numbered, lambda row: row[0]), count=len(found))


def _clients(visit: Visit) -> list[Client]:
    """The clients that this person has been given access to; of nobody else's anything is read."""
    assert visit.person is not None
    return visit.person.clients


async def _for_each(clients: Sequence[Client], ask: Callable[[Client], Awaitable[T]]) -> list[T]:
    found: list[T] = []
    for start in range(0, len(clients), AT_ONCE):
        found += await asyncio.gather(*(ask(client) for client in clients[start : start + AT_ONCE]))
    return found


def _board_facts(tx: Tx, client: Client, user_id: str | None) -> BoardFacts:
    logged = audit.latest(tx, client.id, 1)
    moments = [entry.at for entry in logged] + [row.updated_at for row in accounts.of_organization(tx, client.id)]
    waiting = [item for item in todo.find(tx, client.id) if todo.is_for(item, user_id, client.role)]
    return BoardFacts(client, waiting, max(moments, default=None), len(batch_store.to_fetch(tx, client.id)))


async def _row(visit: Visit, client: Client, month: Span) -> BoardRow:
    facts = await visit.read(_board_facts, client, visit.principal.user_id)
    waiting: dict[str, int] = {}
    for item in facts.todo:
        waiting[item.kind] = waiting.get(item.kind, 0) + item.number
    # A payment that waits for its release is money of the company, and not unmatched.
    unmatched = [item for item in facts.todo if item.kind == "unmatched"]
    came, went = sum(item.came for item in unmatched), sum(item.went for item in unmatched)
    vat, vat_page = await _vat(visit, client, month)
    return BoardRow(client, facts.active_at, waiting, came, went, vat, vat_page, facts.to_fetch)


async def _vat(visit: Visit, client: Client, month: Span) -> tuple[int | None, str]:
    """The VAT of all books of the client with its page, asked for with the role that the person has there."""
    assert visit.person is not None
    acting = people.look_at(visit.person, client.id).acting
    shelved = await bookshelf.shelf(visit.context, client.id)
    asked = await asyncio.gather(*(bookshelf.vat(visit.context, acting, books, [month]) for books in shelved))
    known = [
        (books, one) for books, found in zip(shelved, asked, strict=True) for one in found or [] if one is not None
    ]
    shown = [row for row in known if row[1].output or row[1].given] or known
    page_of_all = bookshelf.vat_page(shown[0][0], month, shown[0][1]) if len(shown) == 1 else ""
    return sum(one.payable for _books, one in known) if known else None, page_of_all or ROOT


def _sorted(rows: list[BoardRow], wanted: str) -> list[BoardRow]:
    """They come in the order of their names; equal ones stay in it."""
    keys: dict[str, Callable[[BoardRow], tuple[int, int]]] = {
        "": lambda row: row.urgency,
        "unmatched": lambda row: (row.came - row.went, 0),
        "activity": lambda row: (row.active_at or 0, 0),
        "vat": lambda row: (int(row.vat is not None), row.vat or 0),
    }
    return sorted(rows, key=keys[wanted], reverse=True) if wanted in keys else rows
