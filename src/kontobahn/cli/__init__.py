"""The command line: one module per family of commands. Each says what it did, or in one sentence why not.

Exit codes: `entry.py`.
"""

from kontobahn.cli.entry import main

__all__ = ["main"]
