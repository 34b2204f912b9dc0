"""The parts that commands share: the data directory, the open installation, output for people and for scripts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from kontobahn import log
from kontobahn.access import organizations
from kontobahn.access.organizations import Organization
from kontobahn.api.wire import plain_words
from kontobahn.cli.output import print_table, text_of
from kontobahn.clock import SystemClock, from_datetime, to_datetime
from kontobahn.db import Database, open_database
from kontobahn.db.migrate import migrate
from kontobahn.demo.facts import facts_path, read_facts
from kontobahn.errors import NotFound, SetupError
from kontobahn.json_text import plain
from kontobahn.settings import Settings, load
from kontobahn.vault import Vault, open_vault

R = TypeVar("R", bound=str)
DataOption = Annotated[
    str | None, typer.Option("--data", metavar="DIR", help="Data directory (default: KONTOBAHN_DATA, or ./data).")
]
UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="KONTOBAHN_URL", help="The service (default: the demo in the data directory)."),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", envvar="KONTOBAHN_API_KEY", help="An API key (default: the demo's).")
]
OrganizationOption = Annotated[
    str | None,
    typer.Option("--organization", "-o", metavar="ID", help="Which organisation; not needed if there is only one."),
]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DURATION = re.compile(r"^(\d+)([smhd])$")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_DURATION_DAYS = 36_525


def harmless(value: object) -> object:
    """A cell of a CSV file that a spreadsheet shows as it is: a text that it would take for a formula begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


class Installation:
    """The open database of a data directory. Its key is opened by the commands that need it, and created by no other."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self.settings = settings
        self.db = db

    @cached_property
    def vault(self) -> Vault:
        return open_vault(self.settings)

    def organization(self, wanted: str | None) -> Organization:
        """Returns the organisation asked for, by id or exact name; otherwise the demo's, or the only one.

        At a terminal, the person is asked if it could be several; elsewhere that is refused.
        """
        found, sentence = _possible(
            self.db.read_now(organizations.all_organizations), wanted, self._demo_organization_id()
        )
        if len(found) == 1:
            return found[0]
        if sys.stdin.isatty() and sys.stderr.isatty():
            return _ask_which(found)
        listed = ", ".join(f"{item.id} (“{text_of(item.name)}”, {moment(item.created_at)})" for item in found[:20])
        raise NotFound(f"{sentence} Say which by its id (--organization ID): {listed}.")

    def _demo_organization_id(self) -> str | None:
        facts = read_facts(facts_path(self.settings))
        return facts["organization_id"] if facts else None


def read_settings(data: str | None, **overrides: Any) -> Settings:
    settings = load(data=data, **overrides)
    log.configure(settings.log_level, form=settings.log_format)
    if settings.data_dir.is_file():
        raise SetupError(f"The data directory {settings.data_dir} is a file.")
    return settings


@contextmanager
def installation(data: str | None) -> Iterator[Installation]:
    """Opens the database and brings it up to date."""
    settings = read_settings(data)
    if not settings.on_postgres and not settings.sqlite_path.exists():
        raise SetupError(
            f"There is no database in {settings.data_dir}. Create one with `kontobahn migrate --data {settings.data}`."
        )
    db = open_database(settings, SystemClock())
    try:
        migrate(db)
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


def _possible(known: list[Organization], wanted: str | None, demo_id: str | None) -> tuple[list[Organization], str]:
    """Returns the organisations that may be meant, one at least, and a sentence for when there are several."""
    if wanted is None:
        found = [item for item in known if item.id == demo_id] or known
        if not found:
            raise NotFound("There is no organisation yet. Make one with `kontobahn organizations create`.")
        return found, f"There are {len(found)} organisations."
    found = [item for item in known if item.id == wanted] or [item for item in known if item.name == wanted]
    if not found:
        raise NotFound(f"There is no organisation “{text_of(wanted)}”. `kontobahn organizations list` shows them.")
    return found, f"{len(found)} organisations are called “{text_of(wanted)}”."


def _ask_which(among: list[Organization]) -> Organization:
    for number, item in enumerate(among, 1):
        typer.echo(f"{number:>4}  {item.id}  {text_of(item.name)}  {moment(item.created_at)}", err=True)
    chosen: int = typer.prompt("Which organisation? Its number", type=int, err=True)
    if not 1 <= chosen <= len(among):
        raise NotFound(f"There is no number {chosen} in the list.")
    return among[chosen - 1]


def checked(option: str, value: str, kind: Any) -> str:
    """Returns the value of an option if the API would take it as this type; the rule and its words are the API's own."""
    if "\0" in value:
        raise typer.BadParameter(f"{option} contains a NUL character.")
    try:
        return str(msgspec.convert(value, kind))
    except msgspec.ValidationError as error:
        raise typer.BadParameter(f"{option} {plain_words(str(error))}.") from None


def named(organization: Organization) -> str:
    """An organisation for output, so that nobody need guess which one was taken."""
    return f"“{text_of(organization.name)}” ({organization.id})"


def one_of(*values: str) -> Callable[[], list[str]]:
    """The values that a shell may complete an option to."""
    return lambda: list(values)


def counted(count: int, noun: str) -> str:
    """“1 client”, “2 clients”."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def say_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool, empty: str) -> None:
    if as_json:
        facts = [dict(zip(columns, row, strict=True)) for row in rows]
        print(msgspec.json.encode(facts, enc_hook=plain).decode())
        return
    if not rows:
        print(empty)
        return
    print_table(columns, rows)


def moment(instant: int | None) -> str | None:
    """An instant for output: ISO 8601, whole seconds, UTC."""
    return None if instant is None else to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_duration(text: str) -> int:
    """Seconds of `30s`, `15m`, `24h` or `90d`."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise typer.BadParameter(f"“{text}” is not a duration; write for example 30s, 15m, 24h or 90d.")
    seconds = int(match[1]) * _SECONDS[match[2]] if len(match[1]) <= 12 else None
    if seconds is None or seconds > MAX_DURATION_DAYS * _SECONDS["d"]:
        raise typer.BadParameter(f"“{text[:30]}” is too long: at most {MAX_DURATION_DAYS}d.")
    return seconds


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


def choices(names: Sequence[str]) -> str:
    """The choices in a sentence: `a, b or c`."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def checked_role(text: str, roles: tuple[R, ...]) -> R:
    """Returns the role. Raises BadParameter with those there are if it is none."""
    for role in roles:
        if role == text:
            return role
    raise typer.BadParameter(f"“{text}” is not a role: {choices(roles)}.")


def service_and_key(url: str | None, key: str | None, data: str | None) -> tuple[str, str]:
    """Returns the address and the key that a command was given, else those of the demo in the data directory."""
    if url and key:
        return url, key
    facts = read_facts(facts_path(read_settings(data))) or {}
    key = key or facts.get("api_key")
    if not key:
        raise SetupError("There is no API key: pass --key, or set KONTOBAHN_API_KEY.")
    return url or facts.get("base_url") or "http://127.0.0.1:8080", key
