"""A bare machine has every program that the project starts: set-up installs it, or the system comes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.browser.visitor import BROWSERS
from tests.programs import BASE, Command, fenced_path, installed, purposes, started_by_python, started_by_shell
from tests.tidy_rules import ROOT

# Installed by set-up by the time that something in the folder runs.
PURPOSES = {
    "tests": ("tests",),
    "mutation": ("tests",),
    "simulators": ("tests",),
    "bench": ("tests", "bench"),
    "torture": ("tests", "cluster"),
    "scripts": ("tests", "pictures", "bare"),
}
# Commands whose first word comes from elsewhere, with the programs that it may be.
COMPUTED: dict[str, tuple[str, ...]] = {
    "tests/browser/visitor.py:launched": BROWSERS,
    "tests/cli/test_output.py:test_a_shell_gets_its_completion": ("bash", "zsh", "fish"),
    "tests/programs.py:fenced_path": (),
    "tests/services.py:find_program": (),  # whoever calls it names the program
    "tests/services.py:start": ("postgres", "redis-server"),
    "bench/measure.py:__init__": ("node",),
    "bench/opos.py:_command_line": ("ledger", "hledger"),
    "scripts/test_n8n.py:running": (),  # the service, and n8n as npm installed it
    "scripts/test_n8n.py:n8n": (),
    "scripts/test_n8n_node.py:run": ("npm", "node"),  # and what npm installed
    "scripts/try_image.py:do": ("chroot",),
    "scripts/try_image.py:main": ("chroot",),
    "torture/cluster/machines.py:start": ("ip", "setpriv"),
    "torture/cluster/parts.py:_program": (),  # whoever calls it names the program
    "torture/cluster/parts.py:_run": ("ip", "setpriv"),
    "torture/cluster/parts.py:doctor": ("ip",),
}
# Only for those who want what the file is for; it says so itself, and nothing that `make test` runs needs it.
BROUGHT = {
    "scripts/apt.sh": ("sudo",),
    "scripts/test_n8n.py": ("npm",),
    "scripts/test_n8n_node.py": ("npm", "node"),
    "scripts/try_compose.sh": ("podman", "podman-compose", "openssl"),
    "bench/peers/express.py": ("npm",),
}
MISSING_ON_PURPOSE = Command("tests/unit/test_services.py:test_a_missing_program_is_named", "no-such-program")


def missing(root: Path, command: Command) -> list[str]:
    """The programs that may be meant and that a bare machine would not have there."""
    file = command.place.partition(":")[0]
    there = BASE.union(BROUGHT.get(file, ()), *(installed(root, purpose) for purpose in PURPOSES[file.split("/")[0]]))
    return [name for name in ([command.program] if command.program else COMPUTED[command.place]) if name not in there]


def test_every_command_can_be_read_or_is_listed_with_its_programs() -> None:
    unread = {command.place for command in started_by_python(ROOT) if command.program is None}
    assert unread == COMPUTED.keys()


def test_set_up_installs_every_program_that_is_started() -> None:
    commands = {*started_by_python(ROOT), *started_by_shell(ROOT)} - {MISSING_ON_PURPOSE}
    assert {command: names for command in commands if (names := missing(ROOT, command))} == {}


def test_every_purpose_is_known() -> None:
    assert {purpose for used in PURPOSES.values() for purpose in used} == set(purposes(ROOT))


@pytest.mark.parametrize(
    ("file", "text", "program"),
    [
        ("tests/test_a.py", "import subprocess\nsubprocess.run(['node', 'x.js'])\n", "node"),
        ("tests/test_a.py", "import shutil\ndef f():\n    return shutil.which('fish')\n", "fish"),
        ("bench/a.py", "import subprocess\ndef f():\n    c = ['wrk', '-t1']\n    subprocess.run([*c, '-d1'])\n", "wrk"),
        ("scripts/a.py", "import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('ip', 'a')\n", "ip"),
        ("tests/test_a.py", "import subprocess\ndef f(command):\n    subprocess.Popen(command)\n", None),
        ("scripts/a.sh", 'set -e\nif jq . <"$1"; then\n    true\nfi\n', "jq"),
        ("scripts/a.sh", 'found=$(rsync --list-only "$1" | wc -l)\n', "rsync"),
    ],
)
def test_a_program_is_found_however_it_is_started(tmp_path: Path, file: str, text: str, program: str | None) -> None:
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(text)
    found = [*started_by_python(tmp_path), *started_by_shell(tmp_path)]
    assert program in {command.program for command in found}


def test_tests_see_no_other_program() -> None:
    """So that one which is put together on the way, or started by a shell, is noticed as well."""
    assert {path.name for path in Path(os.environ["PATH"]).iterdir()} <= BASE | installed(ROOT, "tests")
    assert shutil.which("bash")


def test_a_program_that_nobody_installs_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", fenced_path(tmp_path, ["bash"]))
    assert subprocess.run(["bash", "-c", "bash --version && ! ls"], capture_output=True, check=False).returncode == 0
