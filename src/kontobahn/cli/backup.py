"""`kontobahn backup` and `restore`: the database and the key file in one archive, consistent while the service runs.

The archive holds a manifest with checksums. Nothing is put in place before all of it has been checked.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kontobahn import __version__
from kontobahn.cli.common import DataOption, progress_bar, read_settings
from kontobahn.cli.output import JsonOption, cannot_make, say
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.db.migrate import pending
from kontobahn.errors import SetupError, Unavailable
from kontobahn.settings import Settings
from kontobahn.vault import key_file, open_vault

PAGES_PER_STEP = 2_000
_MANIFEST, _SQLITE, _POSTGRES, _KEY = "manifest.json", "kontobahn.sqlite3", "kontobahn.pgdump", "secret.key"


class Manifest(msgspec.Struct):
    version: str
    engine: str
    made_at: datetime
    sha256: dict[str, str]


def backup(
    file: Annotated[Path, typer.Argument(help="Archive to write; must not exist yet.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the database and the key file into one archive; the service may keep running.

    Example: kontobahn backup /backups/kontobahn-2026-01-31.tar.gz
    """
    settings = read_settings(data)
    if file.exists():
        raise SetupError(f"{file} already exists; a backup never overwrites a file.")
    open_vault(settings)
    with _beside(file) as folder:
        staging = Path(folder)
        name = _POSTGRES if settings.on_postgres else _SQLITE
        (_dump_postgres if settings.on_postgres else _copy_sqlite)(settings, staging / name)
        if key_file(settings).exists():
            shutil.copyfile(key_file(settings), staging / _KEY)
        sums = {item.name: _sha256(item) for item in sorted(staging.iterdir())}
        manifest = Manifest(__version__, "postgres" if settings.on_postgres else "sqlite", datetime.now(UTC), sums)
        (staging / _MANIFEST).write_bytes(msgspec.json.encode(manifest))
        archive = staging / "archive"
        _pack(archive, staging, [_MANIFEST, *sums])
        os.link(archive, file)  # fails if the file has been created meanwhile
    facts = {"file": str(file), "bytes": file.stat().st_size, "holds_key_file": _KEY in sums}
    warning = "" if _KEY in sums else " The secret key is a setting here and is not included: keep it separately."
    say(
        facts,
        f"{file} is written ({facts['bytes']} bytes). It opens every stored secret: keep it safe.{warning}",
        as_json=as_json,
    )


def _beside(file: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix=".kontobahn-backup-", dir=file.absolute().parent)
    except OSError as error:
        raise cannot_make(file.absolute(), error) from None


def restore(
    file: Annotated[Path, typer.Argument(help="Archive made by `kontobahn backup`.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the database that is there.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a backup in place, after checking all of it. Stop the service first.

    Example: kontobahn restore /backups/kontobahn-2026-01-31.tar.gz --data ./data
    """
    settings = read_settings(data)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".kontobahn-restore-", dir=settings.data_dir) as folder:
        staging = Path(folder)
        manifest = _unpack(file, staging)
        if (manifest.engine == "postgres") != settings.on_postgres:
            raise SetupError(f"{file} holds a {manifest.engine} database, but these settings are for the other engine.")
        if settings.on_postgres:
            _restore_postgres(settings, staging / _POSTGRES, force=force)
        else:
            _place_sqlite(settings, staging / _SQLITE, force=force)
        if (staging / _KEY).exists() and not settings.secret_key:
            os.chmod(staging / _KEY, 0o600)
            (staging / _KEY).replace(key_file(settings))
    db = open_database(settings, SystemClock())
    try:
        waiting = pending(db)
    finally:
        db.close()
    note = " `kontobahn migrate` brings it up to date." if waiting else ""
    say(
        {"file": str(file), "made_at": manifest.made_at, "pending_migrations": waiting},
        f"The backup of {manifest.made_at:%Y-%m-%d %H:%M} UTC is in place.{note}",
        as_json=as_json,
    )


def _copy_sqlite(settings: Settings, target: Path) -> None:
    if not settings.sqlite_path.exists():
        raise SetupError(f"There is no database in {settings.data_dir}.")
    source = sqlite3.connect(settings.sqlite_path, isolation_level=None)
    copy = sqlite3.connect(target)
    try:
        # The open read transaction keeps one snapshot for the whole copy, however much is written meanwhile.
        source.execute("BEGIN")
        source.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        with progress_bar("Copying the database") as advance:
            source.backup(copy, pages=PAGES_PER_STEP, progress=lambda _, left, total: advance(total - left, total))
        if copy.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise SetupError("The copy of the database is damaged; run `kontobahn doctor`.")
    except sqlite3.Error as error:
        raise Unavailable("The database cannot be copied.", operator=str(error)) from error
    finally:
        source.close()
        copy.close()


def _place_sqlite(settings: Settings, source: Path, *, force: bool) -> None:
    target = settings.sqlite_path
    if target.exists() and not force:
        raise SetupError(f"There is already a database in {settings.data_dir}; --force replaces it.")
    _check_sqlite(source)
    os.chmod(source, 0o600)
    if target.exists():
        _refuse_if_in_use(target)
        for suffix in ("-wal", "-shm"):
            target.with_name(target.name + suffix).unlink(missing_ok=True)
    source.replace(target)


def _check_sqlite(source: Path) -> None:
    """Raises SetupError unless it is a whole database of ours: an empty file is a database to SQLite, and a good one."""
    check = sqlite3.connect(f"{source.absolute().as_uri()}?immutable=1", uri=True)
    try:
        if check.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise SetupError("The database in the archive is damaged.")
        check.execute("SELECT COUNT(*) FROM schema_migrations").fetchone()
    except sqlite3.DatabaseError as error:
        raise SetupError(f"The database in the archive is damaged: {error}.") from None
    finally:
        check.close()


def _refuse_if_in_use(path: Path) -> None:
    """Leaving write-ahead mode needs exclusive access, so it fails if another process has the database open."""
    connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError:
        raise SetupError("The database is in use. Stop the service before restoring.") from None
    finally:
        connection.close()


def _dump_postgres(settings: Settings, target: Path) -> None:
    _run_tool("pg_dump", settings, ["--format=custom", "--no-owner", f"--file={target}"])


def _restore_postgres(settings: Settings, source: Path, *, force: bool) -> None:
    import psycopg

    try:
        with psycopg.connect(settings.database_url, connect_timeout=5) as connection:
            row = connection.execute("SELECT to_regclass('schema_migrations')").fetchone()
    except psycopg.OperationalError as error:
        raise Unavailable("The database cannot be reached.", operator=str(error)) from error
    if row and row[0] is not None and not force:
        raise SetupError("The PostgreSQL database is not empty; --force replaces what is in it.")
    options = ["--clean", "--if-exists"] if force else []
    _run_tool("pg_restore", settings, [*options, "--no-owner", "--exit-on-error", "--single-transaction", str(source)])


def _run_tool(name: str, settings: Settings, arguments: list[str]) -> None:
    """Runs one of PostgreSQL's programs. The password goes into its environment: command lines are for everybody to read."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    connection: dict[str, Any] = dict(conninfo_to_dict(settings.database_url))
    password = connection.pop("password", None)
    environment = os.environ | ({"PGPASSWORD": password} if password is not None else {})
    tool = shutil.which(name) or _newest_debian_tool(name)
    if tool is None:
        raise SetupError(f"{name} is missing: install PostgreSQL's client programs (on Debian: postgresql-client).")
    command = [tool, f"--dbname={make_conninfo(**connection)}", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(
            f"{name} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
        )


def _newest_debian_tool(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else None


def _pack(archive: Path, folder: Path, names: list[str]) -> None:
    descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as tar:
        for name in names:
            tar.add(folder / name, arcname=name)


def _unpack(file: Path, folder: Path) -> Manifest:
    try:
        with tarfile.open(file, "r:gz") as tar:
            for member in tar:
                if not member.isfile() or member.name not in (_MANIFEST, _SQLITE, _POSTGRES, _KEY):
                    raise SetupError(f"{file} is not a backup: it holds “{member.name}”.")
                source = tar.extractfile(member)
                assert source is not None
                with source, open(folder / member.name, "wb") as target:
                    shutil.copyfileobj(source, target)
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise SetupError(f"{file} does not exist, or is not a backup.") from None
    except (tarfile.TarError, EOFError, OSError, msgspec.DecodeError) as error:
        raise SetupError(f"{file} is not a whole backup: {error}") from None
    database = _POSTGRES if manifest.engine == "postgres" else _SQLITE
    if manifest.engine not in ("postgres", "sqlite") or database not in manifest.sha256:
        raise SetupError(f"{file} is not a whole backup: it holds no database.")
    for name, expected in manifest.sha256.items():
        if not (folder / name).exists() or _sha256(folder / name) != expected:
            raise SetupError(f"{file} is damaged: the checksum of {name} is wrong.")
    return manifest


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
