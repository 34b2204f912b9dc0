"""Notices by mail: matters that wait for somebody, each told once to the people who want to know."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Literal, NamedTuple

from kontobahn import mail
from kontobahn.access import client_access, organizations, users
from kontobahn.access.principal import ROLES, ClientRole, Role
from kontobahn.access.users import User
from kontobahn.api.call import Context
from kontobahn.clock import DAY, berlin_date, berlin_datetime
from kontobahn.dashboard import people, todo, words
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.todo import Todo
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.mail import Mail
from kontobahn.reconciliation import store as matching
from kontobahn.settings import Settings
from kontobahn.vault import Vault

Kind = Literal["banks", "files", "money", "events", "releases", "summary"]
PATH = f"{ROOT}/notices"
# Money may wait for so long before anybody is told.
DAYS_UNMATCHED = 7
# The hour in Germany from which the week's summary goes out on Mondays.
SUMMARY_HOUR = 6
_DAYS_KEPT = 400


class Choice(NamedTuple):
    """A kind of notice that people may want, from a role on."""

    kind: Kind
    label: str
    least: Role
    # Sent to whoever has chosen nothing.
    by_default: bool = True


CHOICES = (
    Choice("banks", N_("A connection to a bank or to the books ends, or needs to be renewed"), "bookkeeping"),
    Choice("files", N_("A file was refused"), "bookkeeping"),
    Choice("money", N_("Money has been unmatched for a week"), "bookkeeping"),
    Choice("events", N_("Events cannot be delivered"), "admin"),
    Choice("releases", N_("A payment waits for your release"), "member"),
    Choice("summary", N_("Every Monday: all that waits"), "read_only", by_default=False),
)
_KIND_OF: dict[todo.Kind, Kind] = {
    "bank_reconnect": "banks",
    "bank_off": "banks",
    "consent_ends": "banks",
    "ledger_reconnect": "banks",
    "refused_file": "files",
    "receiver_stopped": "events",
    "failed_events": "events",
    "release": "releases",
}


class Reader(NamedTuple):
    """Somebody who may be told about an organisation, with the role there."""

    user: User
    role: Role | ClientRole


# --- Choices of people


def chosen(tx: Tx, user: User) -> dict[Kind, bool]:
    """Returns what the person has chosen or, where nothing was chosen, what is sent by default."""
    rows = tx.all(
        "SELECT kind, wanted FROM dashboard_notices WHERE organization_id = ? AND user_id = ?",
        user.organization_id, user.id,
    )  # fmt: skip
    return {choice.kind: choice.by_default for choice in CHOICES} | {kind: bool(wanted) for kind, wanted in rows}


def choose(tx: Tx, user: User, wanted: Iterable[str]) -> None:
    wanted = set(wanted)
    for choice in CHOICES:
        tx.run(
            "INSERT INTO dashboard_notices (organization_id, user_id, kind, wanted) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (organization_id, user_id, kind) DO UPDATE SET wanted = excluded.wanted",
            user.organization_id, user.id, choice.kind, int(choice.kind in wanted),
        )  # fmt: skip


def token(vault: Vault, user_id: str) -> str:
    """Opens the page of choices without signing in, from a mail. Nothing else can be done with it."""
    return f"{user_id}.{hmac.digest(vault.derive('notices'), user_id.encode(), 'sha256').hex()[:32]}"


def user_of(tx: Tx, vault: Vault, given: str) -> User:
    user_id = given.partition(".")[0]
    user = users.find(tx, user_id) if hmac.compare_digest(given.encode(), token(vault, user_id).encode()) else None
    if user is None:
        raise NotFound("This link is not valid, or no longer valid. Ask for a new one.")
    return user


# --- Mail


async def write_due(context: Context) -> None:
    """Writes a mail to everybody for whom something new waits. Without a mail server nobody is told, and nothing counts as told."""
    if not context.settings.smtp_url:
        return
    for organization in await context.db.read(organizations.all_organizations):
        # Nearly always there is none: a look keeps no writer waiting.
        if await context.db.read(_has_news, organization.id):
            await context.db.write(_tell, context.vault, context.settings, organization.id)


def _has_news(tx: Tx, organization_id: str) -> bool:
    """Returns whether anybody is to be told something, or something that was told is over."""
    readers = list(_readers(tx, organization_id))
    if not readers:
        return False
    standing = _standing(tx, organization_id)
    for reader in readers:
        wanted, told = _wanted(tx, reader), _told(tx, organization_id, reader.user.id)
        if told - standing.keys() or any(
            fact not in told for fact, (kind, item) in standing.items() if kind in wanted and _is_for(reader, item)
        ):
            return True
    return False


def _tell(tx: Tx, vault: Vault, settings: Settings, organization_id: str) -> None:
    standing = _standing(tx, organization_id)
    everything = [item for _kind, item in standing.values() if item is not None]
    for reader in _readers(tx, organization_id):
        wanted = _wanted(tx, reader)
        _forget(tx, organization_id, reader.user.id, standing)
        new = [
            (kind, item)
            for fact, (kind, item) in standing.items()
            if kind in wanted and _is_for(reader, item) and _is_told_now(tx, organization_id, reader.user.id, fact)
        ]
        if not new:
            continue
        if any(kind == "summary" for kind, _item in new):
            subject = N_("%(organization)s: what waits this week")
            items = [item for item in everything if _is_for(reader, item)]
        else:
            subject, items = N_("%(organization)s: something waits for you"), [item for _kind, item in new if item]
        name = organizations.get(tx, organization_id).name
        mail.put(tx, vault, organization_id, _mail(tx, vault, settings, reader.user, name, subject, items))


def _is_for(reader: Reader, item: Todo | None) -> bool:
    return item is None or todo.is_for(item, reader.user.id, reader.role)


def _standing(tx: Tx, organization_id: str) -> dict[str, tuple[Kind, Todo | None]]:
    """Returns what may be told now; the summary of a week is about all of it."""
    found: dict[str, tuple[Kind, Todo | None]] = dict(_facts(tx, organization_id))
    summary = _week_of_summary(tx.now)
    if summary is not None:
        found[summary] = ("summary", None)
    return found


def _facts(tx: Tx, organization_id: str) -> dict[str, tuple[Kind, Todo]]:
    """Returns what waits, each by a name that stays the same while it is the same matter."""
    year, week, _day = berlin_date(tx.now).isocalendar()
    found: dict[str, tuple[Kind, Todo]] = {}
    for item in todo.find(tx, organization_id):
        kind = _KIND_OF.get(item.kind)
        if kind is not None:
            since = f"{year}-{week}" if item.kind == "failed_events" else item.at or ""
            found[f"{item.kind} {item.url} {since}"] = (kind, item)
    waiting = matching.unmatched(tx, organization_id, berlin_date(tx.now) - timedelta(days=DAYS_UNMATCHED))
    if waiting.transactions:
        item = Todo(
            "unmatched", "", f"{ROOT}/reconciliation", waiting.transactions, waiting.came_minor, waiting.went_minor
        )
        found[f"unmatched {year}-{week}"] = ("money", item)
    return found


def _week_of_summary(now: int) -> str | None:
    moment = berlin_datetime(now)
    if moment.isoweekday() != 1 or moment.hour < SUMMARY_HOUR:
        return None
    year, week, _day = moment.isocalendar()
    return f"summary {year}-{week}"


def _readers(tx: Tx, organization_id: str) -> Iterator[Reader]:
    """The organisation's own people, and others' who work in it."""
    for user in users.listing(tx, organization_id):
        yield Reader(user, user.role)
    for listed in client_access.listing(tx, organization_id):
        access = listed.access
        if access.client_organization_id == organization_id:
            yield Reader(users.by_id(tx, access.organization_id, access.user_id), access.role)


def _wanted(tx: Tx, reader: Reader) -> set[Kind]:
    wanted = chosen(tx, reader.user)
    rank = ROLES.index(reader.role)
    return {choice.kind for choice in CHOICES if wanted[choice.kind] and rank >= ROLES.index(choice.least)}


def _is_told_now(tx: Tx, organization_id: str, user_id: str, fact: str) -> bool:
    """Notes that the person is told. Returns False if that was done before, or is being done elsewhere."""
    return bool(
        tx.run(
            "INSERT INTO dashboard_notices_told (organization_id, user_id, fact, told_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            organization_id, user_id, fact, tx.now,
        )
    )  # fmt: skip


def _told(tx: Tx, organization_id: str, user_id: str) -> set[str]:
    rows = tx.all(
        "SELECT fact FROM dashboard_notices_told WHERE organization_id = ? AND user_id = ?", organization_id, user_id
    )
    return {fact for (fact,) in rows}


def _forget(tx: Tx, organization_id: str, user_id: str, standing: Collection[str]) -> None:
    """A matter that is over is forgotten: if it comes again, it is told again."""
    for fact in _told(tx, organization_id, user_id).difference(standing):
        tx.run(
            "DELETE FROM dashboard_notices_told WHERE organization_id = ? AND user_id = ? AND fact = ?",
            organization_id, user_id, fact,
        )  # fmt: skip


def _mail(
    tx: Tx, vault: Vault, settings: Settings, user: User, organization: str, subject: str, items: list[Todo]
) -> Mail:
    """The mail in the person's language."""
    before = words.language()
    words.speak(words.choose(people.language(tx, user)))
    try:
        choices = f"{settings.base_url}{PATH}/{token(vault, user.id)}"
        lines = [_("Hello %(name)s,", name=user.name), ""]
        if items:
            lines.append(_("this waits for somebody at %(organization)s:", organization=organization))
        else:
            lines.append(_("nothing waits at %(organization)s.", organization=organization))
        for item in items:
            said = todo.said(item)
            lines += ["", f"* {said.text} {said.hint}".rstrip(), f"  {settings.base_url}{item.url}"]
        lines += ["", "--", _("Choose what you are told by mail:"), choices]
        return Mail(user.email, _(subject, organization=organization), "\n".join(lines) + "\n", choices)
    finally:
        words.speak(before)


def purge(tx: Tx) -> int:
    """Forgets what was told to people who have gone since."""
    return tx.run("DELETE FROM dashboard_notices_told WHERE told_at <= ?", tx.now - _DAYS_KEPT * DAY)
