"""The questions of `make release` to an installed package: the libraries that the arguments name, and a service that answers.

Runs with the interpreter of that installation, so it may use nothing of this project but the package.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PAGES = ("/healthz", "/readyz", "/docs", "/docs/guide", "/docs/guide/tutorial", "/dashboard/sign-in", "/openapi.json")
START_SECONDS = 60


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["serve", "--demo", "--port", "0", "--data", folder]
        served = subprocess.Popen([sys.executable, "-m", "kontobahn", *arguments], stdout=subprocess.DEVNULL)
        try:
            url = _address(Path(folder) / "demo.json", served)
            for page in PAGES:
                with urllib.request.urlopen(url + page, timeout=30) as answer:
                    assert answer.status == 200, page
        finally:
            served.terminate()
            served.wait()


def _address(path: Path, served: subprocess.Popen[bytes]) -> str:
    began = time.monotonic()
    while served.poll() is None and time.monotonic() - began < START_SECONDS:
        if path.exists() and (url := json.loads(path.read_text("utf-8"))["base_url"]):
            try:
                urllib.request.urlopen(url + "/healthz", timeout=5).close()
                return str(url)
            except OSError:
                pass
        time.sleep(0.1)
    raise SystemExit("The service did not start.")


if __name__ == "__main__":
    main()
