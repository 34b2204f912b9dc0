"""What commands share: the data directory, the open installation, output for people and for scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any

import msgspec
import typer

from kontobahn import log
from kontobahn.access import organizations
from kontobahn.access.organizations import Organization
from kontobahn.clock import SystemClock, from_datetime, to_datetime
from kontobahn.db import Database, open_database
from kontobahn.db.migrate import migrate
from kontobahn.demo import facts_path, read_facts
from kontobahn.errors import NotFound, SetupError
from kontobahn.ledger.books.upgrade import FOLLOW_UPS
from kontobahn.settings import Settings, load
from kontobahn.vault import Vault, open_vault

DataOption = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="Data directory (default: KONTOBAHN_DATA, or ./data).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Output for scripts.")]
OrganizationOption = Annotated[
    str | None,
    typer.Option("--organization", "-o", metavar="ID", help="Which organisation; not needed if there is only one."),
]
_DURATION = re.compile(r"^(\d+)([smhd])$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Installation:
    """The open database of a data directory. Its key is opened by the commands that need it, and created by no other."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self.settings = settings
        self.db = db

    @cached_property
    def vault(self) -> Vault:
        return open_vault(self.settings)

    def organization(self, wanted: str | None) -> Organization:
        """Returns the organisation asked for, by id or exact name; otherwise the only one, or the demo's."""
        known = self.db.read_now(organizations.all_organizations)
        if wanted is None and len(known) == 1:
            return known[0]
        organization_id = self._demo_organization_id() if wanted is None else wanted
        for organization in known:
            if organization.id == organization_id or organization.name == wanted:
                return organization
        if wanted is not None:
            raise NotFound(f"There is no organisation “{wanted}”. `kontobahn organizations list` shows them.")
        raise NotFound(f"There are {len(known)} organisations: choose one with --organization ID.")

    def _demo_organization_id(self) -> str | None:
        facts = read_facts(facts_path(self.settings))
        return facts["organization_id"] if facts else None


def read_settings(data: str | None, **overrides: Any) -> Settings:
    settings = load(data=data, **overrides)
    log.configure(settings.log_level)
    return settings


@contextmanager
def installation(data: str | None) -> Iterator[Installation]:
    """Opens the database and brings it up to date."""
    settings = read_settings(data)
    if not settings.on_postgres and not settings.sqlite_path.exists():
        raise SetupError(
            f"There is no database in {settings.data_dir}. Make one with `kontobahn migrate --data {settings.data}`."
        )
    db = open_database(settings, SystemClock())
    try:
        migrate(db, FOLLOW_UPS)
        yield Installation(settings, db)
    finally:
        db.close()


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on standard error. Yields a function to call with the progress and the total."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def say(facts: Any, text: str, *, as_json: bool) -> None:
    print(msgspec.json.encode(facts).decode() if as_json else text)


def say_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool, empty: str) -> None:
    if as_json:
        print(msgspec.json.encode([dict(zip(columns, row, strict=True)) for row in rows]).decode())
        return
    if not rows:
        print(empty)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 300  # a pipe has no width, and wrapping would break values
    console.print(table)


def moment(instant: int | None) -> str | None:
    """An instant for output: ISO 8601, whole seconds, UTC."""
    return None if instant is None else to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_duration(text: str) -> int:
    """Seconds of `30s`, `15m`, `24h` or `90d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise typer.BadParameter(f"“{text}” is not a duration; write for example 30s, 15m, 24h or 90d.")
    return int(match[1]) * _SECONDS[match[2]]


def parse_expiry(text: str | None, now: int) -> int | None:
    """An instant from a date (to its end, UTC), a date-time with zone, or a duration from now."""
    if text is None:
        return None
    if _DURATION.match(text.strip()):
        return now + parse_duration(text) * 1_000_000
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"“{text}” is neither a date like 2027-12-31 nor a duration like 90d.") from None
    if len(text) == len("2027-12-31"):
        parsed = parsed.replace(hour=23, minute=59, second=59, tzinfo=UTC)
    if parsed.tzinfo is None:
        raise typer.BadParameter(f"“{text}” has no time zone.")
    return from_datetime(parsed)
