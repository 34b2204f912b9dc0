"""The promises of `make` to everything that it starts."""

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


def test_temporary_files_of_the_tests_are_in_memory_if_anywhere_and_gone_after_them(tmp_path: Path) -> None:
    asking = ["sh", "-c", 'touch "$TMPDIR/file" && echo "$TMPDIR" && exit 3']
    done = subprocess.run(
        [ROOT / "scripts/in_memory.sh", *asking],
        env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")
    place = Path(done.stdout.strip())
    if place == tmp_path:  # a machine without memory to spare
        assert (tmp_path / "file").exists()
    else:
        assert place.parent == Path("/dev/shm")
        assert not place.exists()
