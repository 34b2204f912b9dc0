"""The menu: one line a page. A person sees what their role may open; `key` is the letter after `g`."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kontobahn.api.call import Context
from kontobahn.dashboard.declare import ROOT, Page
from kontobahn.dashboard.people import Person
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
    Section(
        "",
        (
            Entry(N_("Overview"), "/dashboard", "home", "o"),
            Entry(N_("All clients"), "/dashboard/board", "team", "j"),
        ),
    ),
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
        N_("Accounting"),
        (
            Entry(N_("Clients and years"), "/dashboard/books", "book", "l"),
            Entry(N_("Open items"), "/dashboard/open-items", "clock", "i"),
            Entry(N_("Trial balance"), "/dashboard/trial-balance", "scale", "m"),
            Entry(N_("Reports"), "/dashboard/reports", "pulse", "w"),
            Entry(N_("Partners"), "/dashboard/partners", "people", "n"),
            Entry(N_("Received invoices"), "/dashboard/payables", "invoice", "y"),
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
            Entry(N_("Assistants"), "/dashboard/assistants", "people"),
            Entry(N_("Sandbox"), "/dashboard/sandbox", "flask"),
        ),
    ),
    Section(
        N_("Organisation"),
        (
            Entry(N_("Company"), "/dashboard/company", "building"),
            Entry(N_("Team"), "/dashboard/team", "team", "u"),
            Entry(N_("Clients"), "/dashboard/clients", "people"),
            Entry(N_("Audit log"), "/dashboard/audit", "shield"),
        ),
    ),
)


# A page that belongs to no group shows this one open.
_USUAL = MENU[1].text


class Shown(NamedTuple):
    """An entry as it is shown."""

    text: str
    path: str
    icon: str
    key: str
    is_here: bool


class ShownSection(NamedTuple):
    """A group as it is shown; the one that the page belongs to is open, so that the others leave room for it."""

    text: str
    entries: list[Shown]
    is_open: bool


_ADDRESS = re.compile(r'(?:action|href)="([^"]*)"')


class Menu:
    """The pages of the dashboard, and which of them a person may open."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._shown = {page.path: page for page in pages if page.method == "GET"}
        # By method and number of segments, plain ones first: /keys/new is not a key called “new”.
        self._known: dict[tuple[str, int], list[tuple[list[str], Page]]] = {}
        for page in sorted(pages, key=lambda page: ("{" in page.path, page.path)):
            parts = page.path.split("/")
            self._known.setdefault((page.method, len(parts)), []).append((parts, page))

    def may_open(self, person: Person, path: str, method: str = "GET") -> bool:
        """Returns whether a link leads somewhere for this person. Parameters of a path do not matter: /accounts/17 is /accounts/{id}."""
        wanted = path.partition("?")[0].split("/")
        for parts, page in self._known.get((method, len(wanted)), ()):
            if all(a == b or a.startswith("{") for a, b in zip(parts, wanted, strict=True)):
                return page.caller == "anybody" or person.may_use(page)
        return not path.startswith(ROOT)

    def help_of(self, path: str) -> str:
        """The topic of the guide that explains the page at an address; one that shows no page of its own has that of the page above."""
        wanted = path.split("/")
        while len(wanted) > 1:
            for parts, page in self._known.get(("GET", len(wanted)), ()):
                if page.help and all(a == b or a.startswith("{") for a, b in zip(parts, wanted, strict=True)):
                    return page.help
            wanted.pop()
        return ""

    def open_entries(self, person: Person, context: Context) -> frozenset[str]:
        """The entries that this person may open, by their paths."""
        shown = (self._shown.get(entry.path) for section in MENU for entry in section.entries)
        return frozenset(
            page.path
            for page in shown
            if page and person.may_use(page) and page.offered(context) and (person.clients or not page.for_clients)
        )

    def permitted(self, text: str, person: Person, path: str) -> str:
        """Returns a page without the forms and buttons that this person's role may not use; what they lead to would be refused."""
        if person.principal.may("admin") and person.acting.may("admin"):
            return text

        def shown(element: str) -> str:
            head = element[: element.find(">")]
            is_form = element.startswith("<form")
            if is_form and ('method="post"' not in head or "<button" not in element):
                return element
            found = _ADDRESS.search(head)
            address = html.unescape(found[1]) if found else path
            if self.may_open(person, address or path, "POST" if is_form else "GET"):
                return element
            is_small = not is_form or 'class="action"' in head
            return "" if is_small else f'<p class="hint">{gettext("Your role does not allow this.")}</p>'

        return _each(_each(text, "<form ", "</form>", shown), '<a class="button', "</a>", shown)


def _each(text: str, begins: str, ends: str, change: Callable[[str], str]) -> str:
    """Returns the text with every element that begins and ends so changed."""
    parts, at = [], 0
    while (start := text.find(begins, at)) >= 0 and (end := text.find(ends, start)) >= 0:
        end += len(ends)
        parts += [text[at:start], change(text[start:end])]
        at = end
    return "".join(parts) + text[at:]


def sections(opened: frozenset[str], here: str) -> list[ShownSection]:
    """`here` is the path of the entry that the page belongs to."""
    found = []
    for section in MENU:
        entries = [
            Shown(gettext(entry.text), entry.path, entry.icon, entry.key, entry.path == here)
            for entry in section.entries
            if entry.path in opened
        ]
        if entries:
            is_open = any(entry.is_here for entry in entries)
            found.append(ShownSection(gettext(section.text) if section.text else "", entries, is_open))
    if not any(section.is_open for section in found if section.text):
        found = [section._replace(is_open=section.text == gettext(_USUAL)) for section in found]
    return found


def here(path: str) -> str:
    """The entry that a page belongs to: the longest that its address begins with."""
    entries = [entry.path for section in MENU for entry in section.entries]
    fitting = [entry for entry in entries if path == entry or (path.startswith(entry + "/") and entry != ROOT)]
    return max(fitting, key=len, default="")
