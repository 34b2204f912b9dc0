"""Runs the steps of deploy/Dockerfile in bare roots, where no container engine is at hand, and then what the image would run.

    sudo debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates trixie /tmp/bare
    sudo python scripts/try_image.py /tmp/bare

The bare root stands for the image that FROM names. As in a container the service runs under its user, on a file system that is
read-only but for /data and /tmp. Told: how large the image is, that its health check passes, that nothing else can be
written, and that SIGTERM ends it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent
DOCKERFILE = PROJECT / "deploy" / "Dockerfile"
PATIENCE_SECONDS = 120
# From the machine: how pip reaches its index.
_PASSED = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")


class Instruction(NamedTuple):
    name: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [Instruction(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


class Image:
    """One stage: its root, and what later instructions know of it."""

    def __init__(self, base: Path, root: Path) -> None:
        subprocess.run(["cp", "-a", str(base), str(root)], check=True)
        self.root = root
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        self.workdir = "/"
        self.user = "0:0"
        self.health: list[str] = []
        self.entrypoint: list[str] = []
        self.command: list[str] = []
        for name in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
            if Path(name).exists():
                shutil.copyfile(name, self.path(name), follow_symlinks=True)
        # The images that FROM names have `python`; Debian's own has only `python3`.
        if not self.path("/usr/bin/python").exists():
            self.path("/usr/bin/python").symlink_to("python3")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def within(self, command: list[str]) -> list[str]:
        """The command line that runs this in the stage's root, under its user."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        inner = f"cd {shlex.quote(self.workdir)} && exec {shlex.join(command)}"
        return ["chroot", f"--userspec={self.user}", str(self.root), "env", "-i", *variables, "sh", "-c", inner]

    def do(self, instruction: Instruction, stages: dict[str, Image]) -> None:
        name, rest = instruction
        if name == "RUN":
            passed = [f"{variable}={os.environ[variable]}" for variable in _PASSED if variable in os.environ]
            command = self.within(["env", *passed, "DEBIAN_FRONTEND=noninteractive", "sh", "-c", rest])
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        elif name == "COPY":
            self._copy(rest, stages)
        elif name == "ENV":
            variable, _, value = rest.partition("=")
            self.environment[variable] = value
        elif name == "WORKDIR":
            self.workdir = rest
            self.path(rest).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            self.user = rest
        elif name == "HEALTHCHECK":
            self.health = json.loads(rest[rest.index("CMD") + 3 :])
        elif name == "ENTRYPOINT":
            self.entrypoint = json.loads(rest)
        elif name == "CMD":
            self.command = json.loads(rest)
        elif name not in ("VOLUME", "EXPOSE", "STOPSIGNAL"):
            raise SystemExit(f"{name} is not known here.")

    def _copy(self, rest: str, stages: dict[str, Image]) -> None:
        source = PROJECT
        if match := re.match(r"--from=(\S+) (.*)", rest):
            source, rest = stages[match[1]].root, match[2]
        *names, target = rest.split()
        place = self.path(target if target.startswith("/") else f"{self.workdir}/{target}")
        for name in names:
            found = source / name.lstrip("/")
            to = place / found.name if target.endswith("/") else place
            to.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if source == PROJECT else None
                shutil.copytree(found, to, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copyfile(found, to)


def build(base: Path, work: Path) -> Image:
    stages: dict[str, Image] = {}
    image: Image | None = None
    for instruction in instructions(DOCKERFILE.read_text("utf-8")):
        print(f"  {instruction.name} {instruction.rest[:100]}", flush=True)
        if instruction.name == "FROM":
            name = instruction.rest.partition(" AS ")[2] or "image"
            image = stages[name] = Image(base, work / name)
        else:
            assert image is not None
            image.do(instruction, stages)
    assert image is not None
    return image


def run(image: Image, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Starts the image's command as `docker run --read-only --tmpfs /tmp` would: what is mounted is seen by it alone."""
    root = shlex.quote(str(image.root))
    uid = image.user.partition(":")[0]
    mounts = [
        f"mount --bind {root} {root}",
        f"mount -o remount,ro,bind {root}",
        f"mount -t proc proc {root}/proc",
        f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp",
        f"mount -t tmpfs -o mode=0700,uid={uid},gid={uid} tmpfs {root}/data",
    ]
    script = " && ".join([*mounts, f"exec {shlex.join(image.within(arguments))}"])
    return subprocess.Popen(["unshare", "--mount", "--", "sh", "-c", script])


# Asked inside: who runs it, and what can be written.
_QUESTIONS = """
import os, sys
assert os.getuid() == 10001, os.getuid()
for place in ("/", "/opt/kontobahn", "/etc", "/usr", "/var/tmp"):
    try:
        open(f"{place}/written", "w")
    except OSError:
        continue
    sys.exit(f"{place} can be written")
for place in ("/data", "/tmp"):
    open(f"{place}/written", "w").close()
"""


def main() -> None:
    base = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        image = build(base, Path(folder))
        size = sum(path.lstat().st_size for path in image.path("/opt/kontobahn").rglob("*"))
        print(f"What is added to the bare root: {size / 1_000_000:.0f} MB")
        assert run(image, ["python", "-c", _QUESTIONS]).wait() == 0
        print("It runs under its own user, and only /data and /tmp can be written.")
        served = run(image, [*image.entrypoint, *image.command])
        try:
            began = time.monotonic()
            while subprocess.run(image.within(image.health), stderr=subprocess.DEVNULL, check=False).returncode:
                if served.poll() is not None or time.monotonic() - began > PATIENCE_SECONDS:
                    raise SystemExit("The health check does not pass.")
                time.sleep(0.5)
            print(f"The health check passes {time.monotonic() - began:.1f} s after the start.")
        finally:
            served.send_signal(signal.SIGTERM)
            code = served.wait(60)
        print(f"SIGTERM ends it: exit code {code}.")
        raise SystemExit(code)


if __name__ == "__main__":
    main()
