"""Express with better-sqlite3, installed from npm into data/bench-express, once: the program is peers/node/server.js."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from bench.measure import ROOT, Child

USED_BY = {"credits", "transactions"}
_SOURCE = Path(__file__).resolve().parent / "node"
_FOLDER = ROOT / "data" / "bench-express"
_INSTALL_SECONDS = 900


@cache
def install() -> str:
    """Returns why it cannot be run, nothing if it can. Installed anew when the pinned versions have changed."""
    if not (shutil.which("node") and shutil.which("npm")):
        return "node and npm are not installed"
    pinned, installed = _SOURCE / "package.json", _FOLDER / "installed.json"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not installed.exists() or installed.read_bytes() != pinned.read_bytes():
        print("Installing Express and better-sqlite3 from npm, which takes some minutes ...", flush=True)
        shutil.copy(pinned, _FOLDER)
        try:
            # Only SQLite needs an install script, which builds it; and no lock file, which would record addresses.
            _npm("install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
            _npm("rebuild", "better-sqlite3")
            _try()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"npm could not install it: {error}", flush=True)
            return "npm could not install it"
        shutil.copy(pinned, installed)
    shutil.copy(_SOURCE / "server.js", _FOLDER)
    return ""


def serve(*arguments: str) -> Child:
    """Serves on a free port; `arguments` are those of server.js."""
    return Child(
        str(_FOLDER / "server.js"),
        *arguments,
        program=shutil.which("node") or "node",
        environ={"NODE_ENV": "production"},
    )


def _npm(*arguments: str) -> None:
    done = subprocess.run(
        ["npm", *arguments], cwd=_FOLDER, timeout=_INSTALL_SECONDS, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise subprocess.SubprocessError(f"npm {arguments[0]}: {(done.stderr or done.stdout)[-1000:]}")


def _try() -> None:
    """A rebuild that built nothing also ends well."""
    program = "new (require('better-sqlite3'))(':memory:')"
    subprocess.run(
        [shutil.which("node") or "node", "--input-type=commonjs", "-e", program], cwd=_FOLDER, timeout=60, check=True
    )
