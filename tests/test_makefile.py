"""What `make` promises to everything that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_compiled_modules_are_kept_even_where_the_shell_says_otherwise() -> None:
    asking = f'asked: ; @{sys.executable} -c "import sys; print(sys.dont_write_bytecode)"'
    done = subprocess.run(
        ["make", "--no-print-directory", "--eval", asking, "asked"],
        cwd=ROOT, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"
