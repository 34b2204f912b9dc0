"""The command line inside the test's own process, where a process of its own would add nothing but time."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kontobahn.cli.entry import run


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class CommandLine:
    """Commands on one data directory. `run` takes what stands on the command line, and what a person types."""

    def __init__(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data = data
        self._monkeypatch = monkeypatch

    def run(self, *arguments: str, typed: str | None = None, terminal: bool = False) -> Outcome:
        out, err = (Terminal(), Terminal()) if terminal or typed is not None else (io.StringIO(), io.StringIO())
        with self._monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("KONTOBAHN_DATA", str(self.data))
            patch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
            code = run(arguments)
        return Outcome(code, out.getvalue(), err.getvalue())

    def ok(self, *arguments: str) -> Outcome:
        done = self.run(*arguments)
        assert done.code == 0, done
        return done

    def facts(self, *arguments: str) -> Any:
        return self.ok(*arguments, "--json").json

    def refused(self, *arguments: str, code: int) -> str:
        """Returns the one sentence that a command was refused with."""
        done = self.run(*arguments)
        assert done.code == code, done
        assert done.err.startswith("kontobahn: "), done
        assert done.err.count("\n") == 1, done
        assert "Traceback" not in done.err + done.out
        return done.err
