"""`kontobahn` and `python -m kontobahn`."""

from __future__ import annotations

import gc
import signal
import sys
from types import FrameType

# A service that is told to stop has done what it was told; any other command was cut short, and says so as shells expect it.
_SERVICES = ("serve", "jobs")
_CUT_SHORT = 128 + signal.SIGTERM
_MOMENT_SECONDS = 0.01


def main() -> None:
    # Before anything is imported: a stop during the start must be as clean as one later.
    signal.signal(signal.SIGTERM, _stop)
    sys.unraisablehook = _stop_again
    # Objects that modules make on import stay: looking through it again and again would be a sixth of the start. The command
    # line ends this when it has imported what it needs.
    gc.disable()
    from kontobahn.cli import main as command_line

    command_line()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0 if any(word in _SERVICES for word in sys.argv[1:2]) else _CUT_SHORT)


def _stop_again(ignored: sys.UnraisableHookArgs) -> None:
    """Sends a stop once more that came where Python ignores exceptions, as in a callback while it imports: it would be lost."""
    if ignored.exc_type is not SystemExit:
        sys.__unraisablehook__(ignored)
        return
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT_SECONDS)


if __name__ == "__main__":
    main()
