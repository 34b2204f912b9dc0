"""Payment terms: from a row of a file to the answer, and back. Periods are sentences there."""

from __future__ import annotations

from decimal import Decimal

from kontobahn.formats import extf
from kontobahn.ledger.faelligkeiten import END_OF_MONTH, MONTHS, day_and_months, days_of
from kontobahn.ledger.wire import Periode, Zahlungsbedingung

_HUNDREDTH = Decimal("0.01")
_NO_DISCOUNT, _AT_ONCE = "kein Skonto", "sofort fällig"


# --- From a row


def as_answer(bedingung: extf.Zahlungsbedingung) -> Zahlungsbedingung:
    by_period = bedingung.faelligkeitstyp == extf.ALS_ZEITRAUM
    return Zahlungsbedingung(
        id=str(bedingung.nummer),
        bezeichnung=bedingung.bezeichnung,
        skontoFrist1=None if by_period or not bedingung.skonto1_prozent else bedingung.skonto1_tage,
        skontoSatz1=bedingung.skonto1_prozent,
        skontoFrist2=None if by_period or not bedingung.skonto2_prozent else bedingung.skonto2_tage,
        skontoSatz2=bedingung.skonto2_prozent,
        nettoFrist=None if by_period else bedingung.faellig_tage,
        faelligkeitsart="ALS_ZEITRAUM" if by_period else "NACH_TAGE",
        perioden=_perioden(bedingung.zeitraeume) if by_period else [],
    )


def _perioden(zeitraeume: tuple[extf.Zeitraum, ...]) -> list[Periode]:
    first = 1
    perioden = []
    for zeitraum in zeitraeume:
        perioden.append(
            Periode(
                rechnungsbereich=f"Rechnungen vom {first}. bis {zeitraum.rechnung_bis}.",
                skontoFrist1=_deadline(zeitraum.skonto1_tag, zeitraum.skonto1_monat) or _NO_DISCOUNT,
                skontoFrist2=_deadline(zeitraum.skonto2_tag, zeitraum.skonto2_monat),
                nettoFrist=_deadline(zeitraum.faellig_tag, zeitraum.faellig_monat) or _AT_ONCE,
            )
        )
        first = zeitraum.rechnung_bis + 1
    return perioden


def _deadline(tag: int, monat: int) -> str | None:
    if not tag:
        return None
    month = MONTHS[monat] if monat < len(MONTHS) else f"des {monat}. Monats danach"
    return f"Monatsende {month}" if tag == END_OF_MONTH else f"{tag}. {month}"


# --- To a row: of terms that did not come from a file, or came before their rows were kept


def as_row(terms: Zahlungsbedingung) -> extf.Zahlungsbedingung | None:
    """Returns the terms as a file has them, or None if they are in other words than ours."""
    zeitraeume = [_zeitraum(periode) for periode in terms.perioden]
    if None in zeitraeume:
        return None
    return extf.Zahlungsbedingung(
        line=0,
        nummer=int(terms.id),
        bezeichnung=terms.bezeichnung,
        faelligkeitstyp=extf.NACH_TAGEN if terms.faelligkeitsart == "NACH_TAGE" else extf.ALS_ZEITRAUM,
        skonto1_prozent=terms.skontoSatz1.quantize(_HUNDREDTH),
        skonto1_tage=terms.skontoFrist1 or 0,
        skonto2_prozent=terms.skontoSatz2.quantize(_HUNDREDTH),
        skonto2_tage=terms.skontoFrist2 or 0,
        faellig_tage=terms.nettoFrist or 0,
        zeitraeume=tuple(filter(None, zeitraeume)),
        verwendung=0,
    )


def _zeitraum(periode: Periode) -> extf.Zeitraum | None:
    invoices = days_of(periode.rechnungsbereich)
    days = [_day(text) for text in (periode.skontoFrist1, periode.skontoFrist2 or _NO_DISCOUNT, periode.nettoFrist)]
    if invoices is None or None in days:
        return None
    first, second, netto = filter(None, days)
    return extf.Zeitraum(invoices[1], *first, *second, *netto)


def _day(text: str) -> tuple[int, int] | None:
    return (0, 0) if text in (_NO_DISCOUNT, _AT_ONCE) else day_and_months(text)
