"""A stop is clean whenever it comes: also while the process is still starting."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.process import environment, kontobahn
from tests.waiting import PATIENCE_SECONDS, eventually


def handles_sigterm(process: subprocess.Popen[str]) -> bool:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


# A file that shows how far a start has come; empty: the process has only just begun.
@pytest.mark.parametrize(
    ("command", "shown_by"), [("serve", ""), ("serve", "kontobahn.sqlite3"), ("serve", "secret.key"), ("jobs", "")]
)
def test_a_stop_during_the_start_is_clean(tmp_path: Path, command: str, shown_by: str) -> None:
    arguments = ["--port", "0", "--demo"] if command == "serve" else []
    if command == "jobs":
        kontobahn("migrate", data=tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-m", "kontobahn", command, *arguments, "--data", str(tmp_path)],
        env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        eventually(lambda: handles_sigterm(process) and (tmp_path / shown_by).exists())
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    assert "Traceback" not in output + errors


# A stop that comes while an object is taken apart during an import: what is raised there is ignored.
STOPPED_WHERE_NOTHING_IS_RAISED = """
import os, signal, sys

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        [number for number in range(1000)]

class Importing:
    def find_spec(self, name, path=None, target=None):
        if name == "kontobahn.cli":
            Dying()

sys.meta_path.insert(0, Importing())
from kontobahn.__main__ import main
main()
"""


@pytest.mark.parametrize("command", ["serve", "jobs"])
def test_a_stop_where_python_ignores_exceptions_is_not_lost(tmp_path: Path, command: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED_WHERE_NOTHING_IS_RAISED, command, "--data", str(tmp_path)],
        env=environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (0, "", "")


def test_a_command_that_is_cut_short_does_not_look_done(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "kontobahn", "migrate", "--data", str(tmp_path)],
        env=environment({}), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        eventually(lambda: handles_sigterm(process) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "Traceback" not in errors
