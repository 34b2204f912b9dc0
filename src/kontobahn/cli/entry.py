"""Collects the commands, and turns errors into one sentence and an exit code."""

from __future__ import annotations

import sys

import typer

from kontobahn import __version__
from kontobahn.cli import (
    backup,
    books,
    credits,
    doctor,
    files,
    keys,
    listen,
    mobility,
    organizations,
    sandbox,
    serve,
    users,
)
from kontobahn.cli.common import JsonOption, say
from kontobahn.errors import KontobahnError, Unavailable

app = typer.Typer(
    name="kontobahn",
    help="Ledger, banking and mobility invoicing behind one JSON API.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="The data directory is ./data, or KONTOBAHN_DATA, or --data DIR after any command.",
)
app.command("serve")(serve.serve)
app.command("jobs")(serve.jobs)
app.command("migrate")(serve.migrate)
app.command("demo")(serve.demo)
app.command("listen")(listen.listen)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(organizations.app, name="organizations")
app.add_typer(users.app, name="users")
app.add_typer(keys.app, name="keys")
app.add_typer(credits.app, name="credits")
app.add_typer(books.app, name="books")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(mobility.sellers, name="seller")
app.add_typer(mobility.buyers, name="customers")
files.imports.command("tickets")(mobility.import_tickets)
app.add_typer(files.imports, name="import")
app.add_typer(files.exports, name="export")


@app.command("version")
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    say({"version": __version__}, f"kontobahn {__version__}", as_json=as_json)


def main() -> None:
    try:
        app()
    except Unavailable as error:
        _stop(f"{error} {error.operator or ''}".strip(), 3)
    except KontobahnError as error:
        _stop(str(error), 1)
    except KeyboardInterrupt:
        _stop("Interrupted.", 130)
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None


def _stop(sentence: str, code: int) -> None:
    print(f"kontobahn: {sentence}", file=sys.stderr)
    raise SystemExit(code)
