"""The output of commands: for people at any width, for scripts, into files; and what a shell completes."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kontobahn import __version__
from kontobahn.access.principal import ROLES, SCOPES
from kontobahn.cli import organizations
from kontobahn.cli.entry import LISTED, NAME, command_line
from kontobahn.cli.output import render_table
from tests.command_line import CommandLine

ID = "01930000-0000-7000-8000-000000000001"


@pytest.mark.parametrize("width", [None, 300, 120, 80, 60, 40, 20, 5])
def test_an_id_is_never_broken_over_lines(width: int | None) -> None:
    rows = [(ID, "Muster GmbH und Co. Kommanditgesellschaft", f"made by {ID} long ago, with a text", None, ["a", "b"])]
    shown = render_table(("key_id", "name", "text", "expires_at", "services"), rows, width)
    assert shown.count(ID) == 2
    assert "a, b" in shown
    if width is not None and width >= 120:
        assert max(map(len, shown.splitlines())) <= width
    for word in ("Kommanditgesellschaft", "expires_at"):
        assert word in shown


def test_a_wide_table_becomes_blocks_and_a_pipe_is_never_wrapped() -> None:
    rows = [(ID, "x" * 400), (ID, "y")]
    assert len(render_table(("id", "text"), rows, None).splitlines()) == 3
    assert render_table(("id", "text"), rows, 60).splitlines()[0] == f"id    {ID}"


def test_a_name_cannot_control_the_terminal(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "\x1b[2JBöse\nZeile")
    for shown in (cli.ok("organizations", "list").out, cli.run("organizations", "list", terminal=True).out):
        assert "\\x1b[2JBöse Zeile" in shown
    assert cli.facts("organizations", "list")[0]["name"] == "\x1b[2JBöse\nZeile"


def test_the_header_is_bold_at_a_terminal_unless_somebody_objects(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    assert "\x1b[1m" in cli.run("organizations", "list", terminal=True).out
    assert "\x1b" not in cli.ok("organizations", "list").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in cli.run("organizations", "list", terminal=True).out


def test_lists_are_lists_for_scripts(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    cli.ok("books", "create", "--name", "B", "--client", "1234-1", "--year-start", "2026-01-01")
    [books] = cli.facts("books", "list")
    assert books["years"] == ["2026-01-01"]
    assert "Belegbilderservice" in books["services"]
    assert len(books["services"]) == 4
    assert all(isinstance(bank["payments"], list) for bank in cli.facts("sandbox", "banks"))
    assert "Belegbilderservice, " in cli.ok("books", "list").out


def test_a_result_goes_into_a_file_whole_or_not_at_all(cli: CommandLine, tmp_path: Path) -> None:
    cli.ok("organizations", "create", "--name", "Müster GmbH")
    target = tmp_path / "list.json"
    assert cli.ok("organizations", "list", "--json", "--output", str(target)).out == ""
    assert json.loads(target.read_text("utf-8"))[0]["name"] == "Müster GmbH"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    before = target.read_bytes()
    # Refused: the file stays as it was, and nothing lies about.
    cli.refused("keys", "create", "--name", "x", "-o", "Niemand", "-O", str(target), code=1)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # Findings with an exit code are a result.
    cli.data.joinpath("secret.key").chmod(0o644)
    assert cli.run("doctor", "--output", str(target)).code == 1
    assert "chmod 600" in target.read_text("utf-8")


def test_nothing_is_done_if_its_result_could_not_be_written(cli: CommandLine) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    cli.refused("keys", "create", "--name", "x", "-O", "/nowhere/key.json", code=1)
    assert cli.facts("keys", "list") == []


def test_a_failure_in_the_middle_leaves_the_old_file(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "list.txt"
    target.write_text("before")

    def half(*arguments: object, **options: object) -> None:
        print("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(organizations, "say_table", half)
    cli.refused("organizations", "list", "-O", str(target), code=3)
    assert target.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "list.txt"]


def test_version_and_help_have_short_forms(cli: CommandLine) -> None:
    assert cli.ok("--version").out == cli.ok("-V").out == f"kontobahn {__version__}\n"
    for command in ((), ("keys",), ("keys", "create")):
        assert "Usage: kontobahn" in cli.ok(*command, "-h").out
    for command in ((), ("keys",)):
        shown = cli.run(*command)
        assert shown.code == 2
        assert shown.err == cli.ok(*command, "-h").out


def test_what_lists_the_commands_says_the_same_as_the_commands_themselves() -> None:
    """The list is made without importing them."""
    whole, listed = (CliRunner().invoke(command_line(only), ["--help"], prog_name=NAME) for only in (None, LISTED))
    assert whole.output == listed.output
    assert "..." not in listed.output.partition("Commands:")[2]


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["version"], ["nonsense"], []])
def test_help_and_version_import_next_to_nothing(arguments: list[str]) -> None:
    """A second of CPU went by before: these are what a person waits for, at every step of a shell's completion too."""
    heavy = ("asyncio", "sqlite3", "ssl", "http.client", "rich", "starlette", "jinja2", "httpx")
    script = f"import sys; from kontobahn.cli.entry import run; run({arguments}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = done.stderr.splitlines()[-1].split()
    assert not set(heavy) & set(loaded)
    ours = [name.split(".") for name in loaded if name.startswith("kontobahn.")]
    assert {name for _, room, *inner in ours for name in inner if room == "cli"} == {"entry", "output"}
    assert {room for _, room, *_ in ours} <= {"cli", "errors", "json_text", "log", "sentences"}


def test_a_grant_names_the_organisation_that_was_taken(cli: CommandLine) -> None:
    made = cli.facts("organizations", "create", "--name", "Muster GmbH")["organization_id"]
    assert cli.ok("credits", "grant", "1").out == f"“Muster GmbH” ({made}) now has 1 credit.\n"
    assert cli.facts("credits", "grant", "4") == {
        "organization_id": made, "organization": "Muster GmbH", "granted": 4, "available": 5,
    }  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(cli: CommandLine, shell: str, tmp_path: Path) -> None:
    script = cli.ok("completion", shell).out
    assert "_KONTOBAHN_COMPLETE" in script
    file = tmp_path / "completion"
    file.write_text(script)
    checked = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("bash", {"COMP_WORDS": "kontobahn organizations re", "COMP_CWORD": "2"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "kontobahn organizations re"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "kontobahn organizations re", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_the_installed_command_completes(shell: str, asked: dict[str, str]) -> None:
    installed = Path(sys.executable).with_name("kontobahn")
    done = subprocess.run(
        [installed], env={**os.environ, "_KONTOBAHN_COMPLETE": f"complete_{shell}", **asked},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert re.search(r"\brename\b", done.stdout), done
    assert "create" not in done.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("keys create --role ", ROLES),
        ("users create --role a", ("admin",)),
        ("keys create --scope ", SCOPES),
        ("keys create --scope banking:", ("banking:read", "banking:write")),
        ("webhooks create --event refresh", ("refresh_complete",)),
        ("books right x sus", ("susa",)),
        ("credi", ("credits",)),
    ],
)
def test_values_are_completed(line: str, offered: tuple[str, ...]) -> None:
    words = ["kontobahn", *line.split(" ")]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_KONTOBAHN_COMPLETE": "complete_bash"}
    installed = Path(sys.executable).with_name("kontobahn")
    done = subprocess.run([installed], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert tuple(done.stdout.split()) == offered, done


def test_a_scope_is_one_word_for_bash(cli: CommandLine) -> None:
    script = cli.ok("completion", "bash").out + 'echo "$COMP_WORDBREAKS"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ":" not in done.stdout
