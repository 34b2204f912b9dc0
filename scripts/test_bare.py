"""Runs the README's two commands in a bare root, for each release of Debian or Ubuntu that is named: `make test-bare`.

The root is made by debootstrap from the sources of this machine and holds git, make, Python and certificates, nothing else. The
project is cloned into it as it was last committed. `make run` is asked until it answers, then `make test` has to pass, both
by a login shell that is given no PATH and no other variable. Each result becomes a row of docs/testing.md. Needs root, for the mounts.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "testing.md"
# Packages of a person who wants to try the project: the README asks for no more.
THERE = "bash,ca-certificates,git,make,python3"
# This machine's way to its registries, which is not ours to know.
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
INSIDE = "/srv/kontobahn"
PORT = 18_080
RUN_SECONDS = 1200
_VERSIONS = (
    ("Python", "python3 --version"),
    ("PostgreSQL", "ls /usr/lib/postgresql"),
    ("Node", "node --version"),
    ("Chromium", "chromium-headless-shell --version --no-sandbox"),
)


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


class Root:
    """A bare system in a folder. What is started in it dies with the call: it has process ids of its own."""

    def __init__(self, folder: Path, release: str) -> None:
        self.folder, self.release = folder, release

    def make(self, mirror: str) -> None:
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={THERE}", self.release, str(self.folder), mirror],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for name in filter(os.path.exists, NETWORK):
            shutil.copyfile(name, self.folder / name.lstrip("/"))
        subprocess.run(["git", "clone", "--quiet", f"file://{PROJECT}", f"{self.folder}{INSIDE}"], check=True)

    def start(self, command: str, **options: Any) -> subprocess.Popen[str]:
        """Without any variable: a login shell makes its own, PATH too."""
        mounts = (
            "mount -t proc proc {0}/proc && mount --rbind /sys {0}/sys && mount --rbind /dev {0}/dev"
            " && mount -t tmpfs tmpfs {0}/dev/shm"
        )
        script = (
            f'{mounts.format(self.folder)} && exec env -i {shutil.which("chroot")} {self.folder} /bin/bash -lc "$0"'
        )
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, f"cd {INSIDE} && {command}"],
            text=True, stdin=subprocess.DEVNULL, start_new_session=True, **options,
        )  # fmt: skip

    def run(self, command: str, output: IO[str]) -> int:
        """Runs it to its end, or ends it where we are ended ourselves."""
        process = self.start(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            return process.wait()
        finally:
            end(process)

    def said(self, command: str) -> str:
        process = self.start(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return str(process.communicate()[0]).strip()

    def versions(self) -> str:
        found = ((name, re.search(r"\d+(\.\d+)*", self.said(command))) for name, command in _VERSIONS)
        return ", ".join(f"{name} {match[0]}" for name, match in found if match)


def mirror() -> str:
    """The first of this machine's own sources."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return told.stdout.split()[0]


def serves_the_demo(root: Root, log: Path) -> bool:
    with open(log, "w") as output:
        process = root.start(f"exec make run PORT={PORT}", stdout=output, stderr=subprocess.STDOUT)
    given_up = time.monotonic() + RUN_SECONDS
    try:
        while process.poll() is None and time.monotonic() < given_up:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/dashboard/sign-in", timeout=10) as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        return False
    finally:
        end(process)


def tests(root: Root, log: Path) -> tuple[str, float, float]:
    """The number of tests that passed, or "failed"; minutes of set-up, and of everything after it."""
    began = time.monotonic()
    with open(log, "w") as output:
        set_up = root.run("make setup-tests", output)
        ready = time.monotonic()
        failed = set_up or root.run("bash .ci/run", output)
    ended = time.monotonic()
    closing = re.findall(r"^(?:=* *)?(\d+ passed.*?) in ", log.read_text(errors="replace"), re.MULTILINE)
    passed = closing[-1] if closing and not failed else "failed"
    return passed, (ready - began) / 60, (ended - ready) / 60


def enter(release: str, row: str) -> None:
    """Puts the row in place of the release's last one."""
    text = PAGE.read_text("utf-8")
    changed, count = re.subn(rf"^\| {release} \|.*$", lambda _: row, text, flags=re.MULTILINE)
    PAGE.write_text(
        changed if count else text.replace("|---|---|---|---|---|---|\n", f"|---|---|---|---|---|---|\n{row}\n", 1),
        "utf-8",
    )


def try_release(release: str, logs: Path) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=f"kontobahn-{release}-"))
    folder.chmod(0o755)  # it becomes the root of every account
    root = Root(folder, release)
    try:
        print(f"{release}: making a bare root ...", flush=True)
        root.make(mirror())
        answered = serves_the_demo(root, logs / f"{release}-run.log")
        print(f"{release}: make run {'answered' if answered else 'did not answer'}; make test ...", flush=True)
        passed, set_up, minutes = tests(root, logs / f"{release}-test.log")
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        demo = "answers" if answered else "does not answer"
        row = (
            f"| {release} | {day} | {root.versions()} | {demo} | {passed} | {minutes:.1f} and {set_up:.1f} of set-up |"
        )
        print(row, flush=True)
        enter(release, row)
        return answered and passed != "failed"
    finally:
        # The mounts were those of processes that have ended. Whatever were mounted here would be emptied.
        if str(folder) not in Path("/proc/mounts").read_text():
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--logs", type=Path, default=PROJECT / "data" / "bare", help="where to keep what was printed")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("Bare roots are mounted and entered: please run this as root.")
    subprocess.run([str(PROJECT / "scripts" / "system-packages.sh"), "bare"], check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended."))
    chosen.logs.mkdir(parents=True, exist_ok=True)
    results = [try_release(release, chosen.logs) for release in chosen.releases]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
