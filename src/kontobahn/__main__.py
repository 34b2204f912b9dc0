"""`kontobahn` and `python -m kontobahn`."""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

# A service that is told to stop has done what it was told; any other command was cut short, and says so as shells expect it.
_SERVICES = ("serve", "jobs")
_CUT_SHORT = 128 + signal.SIGTERM


def main() -> None:
    # Before anything is imported: a stop during the start must be as clean as one later.
    signal.signal(signal.SIGTERM, _stop)
    # Objects that modules make on import stay: looking through it again and again would be a sixth of the start. The command
    # line ends this when it has imported what it needs.
    gc.disable()
    from kontobahn.cli import main as command_line

    command_line()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0 if any(word in _SERVICES for word in sys.argv[1:2]) else _CUT_SHORT)


if __name__ == "__main__":
    main()
