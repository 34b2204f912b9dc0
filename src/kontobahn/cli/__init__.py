"""The command line: one module per family of commands. Each says what it did, or in one sentence why not.

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 something is down (try again), 130 interrupted.
"""

from kontobahn.cli.entry import main

__all__ = ["main"]
