"""Commands that are forked instead of started."""

from __future__ import annotations

import os
import tempfile

from tests.forked_commands import commands


def test_the_end_of_a_command_that_nobody_waited_for_is_not_taken_for_that_of_the_next() -> None:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        commands()._ask([out.fileno(), err.fileno()], ["--version"], os.environ)
    done = commands().run(["no-such-command"], os.environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-command" in done.stderr
