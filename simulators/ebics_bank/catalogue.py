"""The orders that the bank knows: their old three letters, and the business transaction formats that H005 calls them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lxml import etree

from simulators.ebics_bank.envelope import Service, add

Direction = Literal["download", "upload"]
Level = Literal["E", "A", "B", "T"]


@dataclass(frozen=True)
class Kind:
    name: str
    direction: Direction
    description: str
    service: Service | None = None


_LIST = [
    Kind("C53", "download", "Kontoauszug camt.053", Service("EOP", "camt.053", "DE", "", "ZIP", "08")),
    Kind("C52", "download", "Kontoumsätze camt.052", Service("STM", "camt.052", "DE", "", "ZIP", "08")),
    Kind("C54", "download", "Einzelumsätze camt.054", Service("STM", "camt.054", "DE", "", "ZIP", "08")),
    Kind("STA", "download", "Kontoauszug MT940", Service("EOP", "mt940", "DE")),
    Kind("CRZ", "download", "Status von Überweisungen", Service("PSR", "pain.002", "DE", "SCT", "ZIP", "10")),
    Kind("CIZ", "download", "Status von Echtzeitüberweisungen", Service("PSR", "pain.002", "DE", "SCI", "ZIP", "10")),
    Kind("VPZ", "download", "Ergebnis der Empfängerprüfung", Service("REP", "pain.002", "DE", "VOP", "ZIP", "10")),
    Kind("CCT", "upload", "Überweisung", Service("SCT", "pain.001", "", "", "", "09")),
    Kind("CIP", "upload", "Echtzeitüberweisung", Service("SCI", "pain.001", "", "", "", "09")),
    Kind("CTV", "upload", "Überweisung mit Empfängerprüfung", Service("SCT", "pain.001", "", "VOI", "", "09")),
    Kind("CIV", "upload", "Echtzeitüberweisung mit Empfängerprüfung", Service("SCI", "pain.001", "", "VOI", "", "09")),
    Kind("CDD", "upload", "Basislastschrift", Service("SDD", "pain.008", "", "COR", "", "08")),
    Kind("CDB", "upload", "Firmenlastschrift", Service("SDD", "pain.008", "", "B2B", "", "08")),
    Kind("HAC", "download", "Kundenprotokoll"),
    Kind("PTK", "download", "Kundenprotokoll als Text"),
    Kind("HAA", "download", "Abrufbare Auftragsarten"),
    Kind("HPD", "download", "Bankparameter"),
    Kind("HKD", "download", "Kunden- und Teilnehmerdaten des Kunden"),
    Kind("HTD", "download", "Kunden- und Teilnehmerdaten des Teilnehmers"),
    Kind("HVU", "download", "VEU-Übersicht"),
    Kind("HVZ", "download", "VEU-Übersicht mit Zusatzinformationen"),
    Kind("HVD", "download", "VEU-Status"),
    Kind("HVT", "download", "VEU-Transaktionsdetails"),
    Kind("HVE", "upload", "VEU-Unterschrift"),
    Kind("HVS", "upload", "VEU-Storno"),
    Kind("PUB", "upload", "Neuer Unterschriftsschlüssel"),
    Kind("HCA", "upload", "Neue Schlüssel"),
    Kind("HCS", "upload", "Alle Schlüssel neu"),
    Kind("SPR", "upload", "Zugang sperren"),
]
KINDS = {kind.name: kind for kind in _LIST}
# Allowed to whoever may speak to the bank at all.
ALWAYS = frozenset({"HPD", "HTD", "HKD", "HAA", "HAC", "PTK", "HCA", "HCS", "PUB", "SPR", "HVU", "HVZ", "HVD", "HVT"})
TRANSFERS = frozenset({"CCT", "CIP", "CTV", "CIV"})
BUSINESS = frozenset(kind.name for kind in _LIST if kind.service)


def kind_of_service(service: Service, direction: Direction) -> Kind | None:
    """The order that the service means; what the request leaves out is not compared."""
    for kind in _LIST:
        own = kind.service
        if own is None or kind.direction != direction:
            continue
        if (own.name, own.message) != (service.name, service.message) or own.option != (
            service.option if direction == "upload" or service.option else own.option
        ):
            continue
        if service.scope in ("", own.scope, "GLB") and service.version in ("", own.version):
            if service.container not in ("", own.container):
                continue
            return kind
    return None


def add_service(parent: etree._Element, service: Service) -> None:
    element = add(parent, "Service")
    add(element, "ServiceName", service.name)
    if service.scope:
        add(element, "Scope", service.scope)
    if service.option:
        add(element, "ServiceOption", service.option)
    if service.container:
        add(element, "Container", containerType=service.container)
    add(element, "MsgName", service.message, **({"version": service.version} if service.version else {}))
