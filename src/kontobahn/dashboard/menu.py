"""The menu: one line a page. A person sees what their role may open; `key` is the letter after `g`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kontobahn.access.principal import Principal, Role
from kontobahn.api.call import Context
from kontobahn.dashboard.declare import ROOT, Page, every_page
from kontobahn.dashboard.words import N_, gettext


class Entry(NamedTuple):
    text: str
    path: str
    icon: str
    key: str = ""


class Section(NamedTuple):
    text: str
    entries: tuple[Entry, ...]


MENU = (
    Section("", (Entry(N_("Overview"), "/dashboard", "home", "o"),)),
    Section(
        N_("Bank"),
        (
            Entry(N_("Accounts"), "/dashboard/accounts", "account", "a"),
            Entry(N_("Transactions"), "/dashboard/transactions", "list", "t"),
            Entry(N_("Payments"), "/dashboard/payments", "payment", "p"),
            Entry(N_("Match payments"), "/dashboard/reconciliation", "check", "x"),
            Entry(N_("Bank connections"), "/dashboard/connections", "bank", "b"),
            Entry(N_("Statement files"), "/dashboard/statements", "upload", "s"),
        ),
    ),
    Section(
        N_("Books"),
        (
            Entry(N_("Clients and years"), "/dashboard/books", "book", "l"),
            Entry(N_("Open items"), "/dashboard/open-items", "clock", "i"),
            Entry(N_("Trial balance"), "/dashboard/trial-balance", "scale", "m"),
            Entry(N_("Partners"), "/dashboard/partners", "people", "n"),
            Entry(N_("Cash book"), "/dashboard/cash-book", "cash", "h"),
            Entry(N_("Booking batches"), "/dashboard/batches", "stack", "d"),
            Entry(N_("Accounting connections"), "/dashboard/ledger/connections", "plug"),
        ),
    ),
    Section(
        N_("Invoices"),
        (
            Entry(N_("Customers"), "/dashboard/customers", "people"),
            Entry(N_("Invoices"), "/dashboard/invoices", "invoice", "v"),
            Entry(N_("Seller's data"), "/dashboard/seller", "building"),
        ),
    ),
    Section(
        N_("Developers"),
        (
            Entry(N_("API keys"), "/dashboard/keys", "key", "k"),
            Entry(N_("Requests"), "/dashboard/requests", "pulse", "r"),
            Entry(N_("Credits"), "/dashboard/credits", "coin", "c"),
            Entry(N_("Webhooks"), "/dashboard/webhooks", "bell", "e"),
            Entry(N_("Sandbox"), "/dashboard/sandbox", "flask"),
        ),
    ),
    Section(
        N_("Organisation"),
        (
            Entry(N_("Team"), "/dashboard/team", "team", "u"),
            Entry(N_("Audit log"), "/dashboard/audit", "shield"),
        ),
    ),
)


class Shown(NamedTuple):
    """An entry as it is shown."""

    text: str
    path: str
    icon: str
    key: str
    is_here: bool


@cache
def _shown() -> dict[str, Page]:
    return {page.path: page for page in every_page() if page.method == "GET"}


def may_open(principal: Principal, path: str) -> bool:
    """Whether a link leads somewhere for this person. Parameters of a path do not matter: /accounts/17 is /accounts/{id}."""
    wanted = path.partition("?")[0].split("/")
    for parts, role in _known().get(len(wanted), ()):
        if all(a == b or a.startswith("{") for a, b in zip(parts, wanted, strict=True)):
            return principal.may(role)
    return not path.startswith("/dashboard")


@cache
def _known() -> dict[int, list[tuple[list[str], Role]]]:
    """The pages by the number of their segments."""
    found: dict[int, list[tuple[list[str], Role]]] = {}
    for path, page in _shown().items():
        parts = path.split("/")
        found.setdefault(len(parts), []).append((parts, page.role))
    return found


def menu_of(principal: Principal, path: str, context: Context) -> list[tuple[str, list[Shown]]]:
    """The sections with what this person may open, in the language of the request."""
    return sections(open_entries(principal, context), here(path))


def open_entries(principal: Principal, context: Context) -> frozenset[str]:
    """The entries that this person may open, by their paths."""
    pages = _shown()
    paths = (entry.path for section in MENU for entry in section.entries)
    return frozenset(
        path for path in paths if (page := pages.get(path)) and principal.may(page.role) and page.offered(context)
    )


def sections(opened: frozenset[str], here: str) -> list[tuple[str, list[Shown]]]:
    """`here` is the path of the entry that the page belongs to."""
    found = []
    for section in MENU:
        entries = [
            Shown(gettext(entry.text), entry.path, entry.icon, entry.key, entry.path == here)
            for entry in section.entries
            if entry.path in opened
        ]
        if entries:
            found.append((gettext(section.text) if section.text else "", entries))
    return found


def here(path: str) -> str:
    """The entry that a page belongs to: the longest that its address begins with."""
    entries = [entry.path for section in MENU for entry in section.entries]
    fitting = [entry for entry in entries if path == entry or (path.startswith(entry + "/") and entry != ROOT)]
    return max(fitting, key=len, default="")
