"""What `make` promises to everything that it starts, and what it sets up for the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.browser.visitor import BROWSERS

ROOT = Path(__file__).parents[1]


def test_compiled_modules_are_kept_even_where_the_shell_says_otherwise() -> None:
    asking = f'asked: ; @{sys.executable} -c "import sys; print(sys.dont_write_bytecode)"'
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", asking, "asked"],
        cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


def test_the_set_up_installs_a_browser_unless_there_is_one_that_the_tests_start() -> None:
    assert f'"{"|".join(BROWSERS)}"' in (ROOT / "scripts" / "system-packages.sh").read_text()
