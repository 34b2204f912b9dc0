"""PDFs are read in a process of their own, with a limit to its memory and time: one that is made to harm ends alone.

The child (`python -m kontobahn.payables.pdf_reader`) reads one file from its input, writes what it found, and ends.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import NamedTuple

import msgspec

from kontobahn import children
from kontobahn.formats.invoices.model import Fault, Refused
from kontobahn.formats.invoices.pdf import Pdf, read_pdf

MEMORY_BYTES = 300 * 1024 * 1024
# Of processor time, so that a busy machine refuses nothing.
SECONDS = 5
# Whatever it waits for.
_SECONDS_IN_ALL = 120


class _Outcome(NamedTuple):
    pdf: Pdf | None
    fault: Fault | None


_decode = msgspec.msgpack.Decoder(_Outcome).decode


def read(content: bytes) -> Pdf:
    """Blocks. Raises Refused as `read_pdf` does, and if the file takes more time or memory than it may."""
    try:
        done = subprocess.run(
            children.command("kontobahn.payables.pdf_reader"), env=children.environment(),
            input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_SECONDS_IN_ALL, check=True,
        )  # fmt: skip
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Refused("file-too-complex") from error
    outcome = _decode(done.stdout)
    if outcome.fault is not None:
        raise Refused(outcome.fault.rule, outcome.fault.path, **outcome.fault.values)
    assert outcome.pdf is not None
    return outcome.pdf


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    try:
        outcome = _Outcome(read_pdf(sys.stdin.buffer.read()), None)
    except Refused as refused:
        outcome = _Outcome(None, refused.fault)
    sys.stdout.buffer.write(msgspec.msgpack.encode(outcome))


if __name__ == "__main__":
    main()
