"""However a command ends, it says so in one sentence and an exit code, and never with a traceback."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kontobahn.cli import organizations
from kontobahn.cli.entry import ExitCode, ending
from tests.command_line import CommandLine
from tests.journeys.process import environment
from tests.waiting import PATIENCE_SECONDS, eventually

OPERATING = Path(__file__).parents[2] / "docs" / "operating.md"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("migrate", "--data", "/etc/passwd"), 1, "/etc/passwd is a file"),
        (("keys", "list", "--data", "/etc/passwd/below"), 1, "is a file"),
        (("migrate", "--data", "/sys/kontobahn"), 1, "may not use /sys/kontobahn"),
        (("doctor", "--data", "/etc/passwd"), 1, "/etc/passwd is a file"),
        (("backup", "/nowhere/at/all.tar.gz"), 1, "There is no directory /nowhere/at"),
        (("backup", "/sys/backup.tar.gz"), 1, "No file can be made in /sys ("),
        (("backup", "/proc/backup.tar.gz"), 1, "No file can be made in /proc ("),
        (("organizations", "list", "--output", "/nowhere/list.txt"), 1, "There is no directory /nowhere"),
        (("organizations", "list", "--output", "/sys/list.txt"), 1, "No file can be made in /sys ("),
        (("organizations", "list", "--output", "/proc/list.txt"), 1, "No file can be made in /proc ("),
        (("organizations", "list", "--output", "/etc/passwd/list.txt"), 1, "/etc/passwd is a file, not a directory."),
        (("serve", "--host", "999.1.1.1"), 1, "there is no such name or address. Choose another one with --host."),
        (("serve", "--host", "192.0.2.1"), 1, "it is no address of this machine. Choose another one with --host."),
        (("restore", "/etc"), 1, "/etc"),
        (("import", "statements", "/nowhere"), 2, "/nowhere"),
        (("keys", "create", "--name", "x", "--expires", f"{10**30}d"), 2, "too long"),
        (("keys", "create", "--name", "x", "--expires", "99999-12-31"), 2, "neither a date"),
        (("keys", "rotate", "x", "--overlap", f"{'9' * 5000}d"), 2, "too long"),
        (("credits", "grant", str(10**30)), 2, "1000000000000000"),
        (("sandbox", "clock", f"+{10**20}d"), 2, "too long"),
        (("sandbox", "book", "--amount", "1e400", "--text", "x"), 2, "1e400"),
        (("sandbox", "book", "--amount", "1e99999999", "--text", "x"), 2, "1e99999999"),
        (("books", "batches", "x", "--limit", str(10**30)), 2, "--limit"),
        (("books", "reverse", "x", "Kasse", str(10**30), "--reason", "x"), 2, "number"),
        (("sandbox", "deliver", "--again", str(10**30)), 2, "--again"),
        (("books", "year", "x", "--start", "9999-12-31"), 2, "9999-12-31"),
        (("export", "extf", "--connection", "x", "--year-start", "9999-12-31", "--to", "/etc/passwd"), 2, "/etc/passwd"),
        (("listen", "--forward-to", "nonsense", "--key", "x"), 1, "https://host"),
        (("keys", "list", "--nonsense"), 2, "There is no option --nonsense. See `kontobahn keys list --help`."),
        (("keys", "list", "--jsn"), 2, "There is no option --jsn. Did you mean --json? See `kontobahn keys list --help`."),
        (("keyz",), 2, "There is no command “keyz”. Did you mean keys? See `kontobahn --help`."),
        (("serv",), 2, "There is no command “serv”. Did you mean serve or users? See `kontobahn --help`."),
        (("keys", "creat"), 2, "There is no command “creat”. Did you mean create? See `kontobahn keys --help`."),
        (("nonsense",), 2, "There is no command “nonsense”. See `kontobahn --help`."),
        (("users", "create", "--email", "a@b.example", "--name", "A"), 2, "with --password-stdin."),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(cli: CommandLine, arguments: tuple[str, ...], code: int, words: str) -> None:
    if arguments[0] == "sandbox" or "--expires" in arguments:
        cli.ok("organizations", "create", "--name", "Muster GmbH")
    assert words in cli.refused(*arguments, code=code)


def test_a_configuration_file_that_cannot_be_read_is_named(cli: CommandLine) -> None:
    (cli.data / "kontobahn.toml").mkdir()
    assert "kontobahn.toml cannot be read" in cli.refused("keys", "list", code=1)


def test_a_database_that_is_none_is_one_sentence(cli: CommandLine) -> None:
    for suffix in ("-wal", "-shm"):
        cli.data.joinpath(f"kontobahn.sqlite3{suffix}").unlink(missing_ok=True)
    (cli.data / "kontobahn.sqlite3").write_bytes(b"not a database at all" * 300)
    assert "not a database" in cli.refused("keys", "list", code=3)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/x"), 3, "no room left on the disk of /data/x"),
        (OSError(errno.EROFS, "Read-only file system", "/data/x"), 1, "may not use /data/x"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "Too many open files"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "/etc"), 1, "/etc is a directory"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 3, "refused"),
        (MemoryError(), 3, "memory"),
        (OverflowError("int too big"), 1, "too large"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 1, "UTF-8"),
        (KeyboardInterrupt(), 130, "Interrupted"),
        (ZeroDivisionError("division\nby zero"), 4, "a bug in Kontobahn: ZeroDivisionError: division by zero"),
        (RuntimeError("at postgresql://me:s3cret@db/x"), 4, "postgresql://me:…@db/x"),
    ],
)  # fmt: skip
def test_whatever_is_raised_is_translated(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(organizations, "installation", fail)
    assert words in cli.refused("organizations", "list", code=code)


def test_a_bug_shows_where_it_is_only_to_those_who_ask(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organizations, "moment", lambda instant: 1 // 0)
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    assert "ZeroDivisionError" in cli.refused("organizations", "list", code=4)
    monkeypatch.setenv("KONTOBAHN_LOG_LEVEL", "debug")
    assert "Traceback" in cli.run("organizations", "list").err


def _shell(command: str, data: Path) -> subprocess.CompletedProcess[str]:
    script = command.replace("kontobahn", f"{sys.executable} -m kontobahn")
    # Output is buffered, as it is for people: then it fails only at the end.
    variables = {name: value for name, value in environment({"data": data}).items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_full_disk_and_a_reader_that_went_away(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    full = _shell("kontobahn organizations list > /dev/full", cli.data)
    assert (full.returncode, full.stderr) == (3, "kontobahn: There is no room left on the disk.\n")
    # `true` never reads: the pipe is closed by the time anything is written.
    gone = _shell("kontobahn organizations list | true", cli.data)
    assert (gone.returncode, gone.stderr) == (141, "")


def _is_asleep(pid: int) -> bool:
    """Tells whether the process waits for something, by the state that follows its name in brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")


def test_control_c_is_exit_code_130(cli: CommandLine) -> None:
    ours, terminal = os.openpty()
    # What a shell runs in the background ignores the signal, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # In a session of its own: a terminal of whoever runs the tests must not be asked.
    process = subprocess.Popen(
        [sys.executable, "-m", "kontobahn", "users", "create", "--email", "e@muster.example", "--name", "Erika"],
        env=environment({"data": cli.data}), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    assert process.stderr is not None
    asked = b""
    while b"Password" not in asked:
        asked += os.read(process.stdout.fileno(), 100) or pytest.fail(process.stderr.read().decode())
    # A signal that comes just before the read begins is noticed only when the read has ended.
    eventually(lambda: _is_asleep(process.pid))
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE_SECONDS)
    os.close(ours)
    os.close(terminal)
    assert (process.returncode, told.splitlines()[-1].strip()) == (130, b"kontobahn: Interrupted.")


def test_every_exit_code_is_explained() -> None:
    section = OPERATING.read_text("utf-8").partition("## Exit codes")[2]
    explained = {int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)}
    assert explained == {int(code) for code in ExitCode}


def test_leaving_is_not_an_error() -> None:
    assert ending(SystemExit(0)) == ("", 0)
    assert ending(SystemExit(None)) == ("", 0)


def test_garbage_is_collected_once_a_command_runs() -> None:
    """Not while it is imported; see `__main__`."""
    script = (
        "import gc, sys; from kontobahn.__main__ import main; from kontobahn.cli import entry;"
        "sys.argv[1:] = ['version'];"
        "entry.say = lambda *_, **__: print(gc.isenabled(), gc.get_freeze_count() > 10_000);"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
