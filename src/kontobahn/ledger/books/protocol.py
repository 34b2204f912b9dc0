"""The protocol of an import: refused rows and warnings, line by line. The first thousand of each are kept, all are counted."""

from __future__ import annotations

from collections.abc import Iterable

from kontobahn.formats.extf import RowError, RowWarning
from kontobahn.ledger.imports import Protokollzeile

KEPT = 1_000
_REFUSED = "The row was not booked."


class Protocol:
    def __init__(self, warnings: Iterable[RowWarning] = ()) -> None:
        self.refused: list[RowError] = []
        self.warnings: list[RowWarning] = []
        self.refused_count = 0
        self.warning_count = 0
        for warning in warnings:
            self.add(warning)

    def add(self, finding: RowError | RowWarning) -> None:
        if isinstance(finding, RowError):
            self.refused_count += 1
            if len(self.refused) < KEPT:
                self.refused.append(finding)
        else:
            self.warning_count += 1
            if len(self.warnings) < KEPT:
                self.warnings.append(finding)

    @property
    def is_full(self) -> bool:
        """Whether a further refused row would only be counted, so that nobody will read its reason."""
        return len(self.refused) >= KEPT

    def lines(self) -> list[Protokollzeile]:
        """Both in one list, in the order of the file."""
        found = [
            Protokollzeile(art="ABGELEHNT", zeile=row.line, spalte=row.column, gefunden=row.reason, getan=_REFUSED)
            for row in self.refused
        ]
        found += [
            Protokollzeile(art="WARNUNG", zeile=row.line, spalte=row.column, gefunden=row.found, getan=row.done)
            for row in self.warnings
        ]
        return sorted(found, key=lambda line: (line.zeile, line.art))
