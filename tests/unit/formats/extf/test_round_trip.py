"""Everything that is written is read back record for record, in all four encodings."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    Adresse,
    Bankverbindung,
    Buchungssatz,
    Category,
    Header,
    Kontobeschriftung,
    Personenkonto,
    Zahlungsbedingung,
    Zeitraum,
    open_extf,
    write_buchungsstapel,
    write_kontenbeschriftungen,
    write_personenkonten,
    write_zahlungsbedingungen,
)
from tests.unit.formats.extf.files import header_2024

MARKS = {"cp1252": b"", "utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
CHARACTERS = st.one_of(st.sampled_from("äöüßÄÖÜ€\";,'– abcXYZ019"), st.characters(exclude_categories=("Cs", "Cc")))


def texts(longest: int, *, least: int = 0) -> st.SearchStrategy[str]:
    return st.text(CHARACTERS, min_size=least, max_size=longest)


def weitere(category: Category) -> st.SearchStrategy[str]:
    columns = st.dictionaries(st.sampled_from(category.not_understood), texts(20, least=1), max_size=5)
    return columns.map(
        lambda filled: (
            msgspec.json.encode({str(number): filled[number] for number in sorted(filled)}).decode() if filled else ""
        )
    )


def digits(first: str, length: int) -> st.SearchStrategy[str]:
    return st.builds(str.__add__, st.sampled_from(first), st.text("0123456789", min_size=length, max_size=length))


SACHKONTEN = digits("0123456789", 3).filter(lambda konto: konto != "0000")
KONTEN = st.one_of(SACHKONTEN, digits("123456789", 4))
DAYS = st.integers(0, 365).map(lambda days: (date(2024, 1, 1) + timedelta(days=days)).isoformat())
CENTS = st.integers(1, 999_999_999_999)
KEYS = st.one_of(st.just(""), st.integers(1, 9999).map(str))


@st.composite
def buchungssaetze(draw: st.DrawFn) -> Buchungssatz:
    konto, gegenkonto = draw(st.tuples(KONTEN, KONTEN).filter(lambda pair: pair[0] != pair[1]))
    key = draw(KEYS)
    foreign = draw(st.booleans())
    return Buchungssatz(
        line=0, umsatz=draw(CENTS), soll=draw(st.booleans()), waehrung="CHF" if foreign else "EUR",
        kurs=draw(st.sampled_from(["", "1,081000", "12"])),
        basis_umsatz=draw(CENTS) if foreign else draw(st.one_of(st.none(), CENTS)),
        konto=konto, gegenkonto=gegenkonto, bu_schluessel=key, belegdatum=draw(DAYS),
        belegfeld1=draw(st.text("abcXYZ019$&%*+-/.,", max_size=36)), belegfeld2=draw(texts(12)),
        skonto=draw(st.one_of(st.just(0), CENTS)), buchungstext=draw(texts(60)), kost1=draw(texts(36)),
        kost2=draw(texts(36)), generalumkehr=(len(key) == 2 and key[0] in "23678") or draw(st.booleans()),
        weitere=draw(weitere(BUCHUNGSSTAPEL)),
    )  # fmt: skip


@st.composite
def adressen(draw: st.DrawFn) -> tuple[Adresse, ...]:
    fields = st.tuples(texts(36), texts(10), texts(10), texts(30), texts(2), texts(36)).filter(any)
    return tuple(Adresse._make((*draw(fields), rechnung)) for rechnung in (False, True) if draw(st.booleans()))


@st.composite
def bankverbindungen(draw: st.DrawFn) -> tuple[Bankverbindung, ...]:
    bank = st.tuples(texts(34), texts(11), texts(30), st.booleans()).filter(any)
    return tuple(Bankverbindung(number, *draw(bank)) for number in range(1, 6) if draw(st.booleans()))


PERSONEN = st.builds(
    Personenkonto,
    line=st.just(0), konto=digits("123456789", 4), name=texts(30), vorname=texts(30), firmenname=texts(50),
    name_ohne_angabe=texts(50), adressattyp=st.sampled_from(["", "0", "1", "2"]), anrede=texts(30),
    ust_id=st.one_of(texts(13), st.builds(str.__add__, st.sampled_from(["DE", "ATU", "EL"]), texts(12))),
    adressen=adressen(), telefon=texts(60), email=texts(60), fax=texts(60), bankverbindungen=bankverbindungen(),
    zahlungsbedingung=st.integers(0, 999), kurzbezeichnung=texts(15), weitere=weitere(PERSONENKONTEN),
)  # fmt: skip
KONTOBESCHRIFTUNGEN = st.builds(
    Kontobeschriftung, line=st.just(0), konto=KONTEN, beschriftung=texts(300, least=1), sprache=texts(5)
)
TAG, MONAT, TAGE = st.integers(0, 31), st.integers(0, 9), st.integers(0, 999)
ZEITRAEUME = st.builds(Zeitraum, TAG, TAG, MONAT, TAG, MONAT, TAG, MONAT).filter(
    lambda zeitraum: any((zeitraum.rechnung_bis, zeitraum.skonto1_tag, zeitraum.skonto2_tag, zeitraum.faellig_tag))
)
PROZENT = st.integers(0, 10_000).map(lambda hundredths: Decimal(hundredths).scaleb(-2))
BEDINGUNGEN = st.builds(
    Zahlungsbedingung,
    line=st.just(0), nummer=st.integers(1, 999), bezeichnung=texts(40), faelligkeitstyp=st.integers(1, 2),
    skonto1_prozent=PROZENT, skonto1_tage=TAGE, skonto2_prozent=PROZENT, skonto2_tage=TAGE, faellig_tage=TAGE,
    zeitraeume=st.lists(ZEITRAEUME, max_size=3).map(tuple), verwendung=st.integers(0, 9),
)  # fmt: skip


def check(write: Callable[[Any, Header, Any], int], category: Category, records: Sequence[Any]) -> None:
    target = io.BytesIO()
    assert write(target, header_2024(category), records) == len(records)
    with open_extf(target) as file:
        encoding, header = file.encoding, file.header
        assert _without_lines(file) == list(records)
    assert header == header_2024(category)
    text = target.getvalue().decode("utf-8-sig" if encoding == "utf-8" else encoding)
    for name, mark in MARKS.items():
        if name != "cp1252":
            assert _without_lines(open_extf(io.BytesIO(mark + text.encode(name)))) == list(records)


def _without_lines(file: Any) -> list[Any]:
    found = list(file)
    assert [record.line for record in found] == list(range(3, 3 + len(found)))
    return [record._replace(line=0) for record in found]


@pytest.mark.parametrize(
    ("write", "category", "records"),
    [
        (write_buchungsstapel, BUCHUNGSSTAPEL, buchungssaetze()),
        (write_personenkonten, PERSONENKONTEN, PERSONEN),
        (write_kontenbeschriftungen, KONTENBESCHRIFTUNGEN, KONTOBESCHRIFTUNGEN),
        (write_zahlungsbedingungen, ZAHLUNGSBEDINGUNGEN, BEDINGUNGEN),
    ],
    ids=["Buchungsstapel", "Personenkonten", "Kontenbeschriftungen", "Zahlungsbedingungen"],
)
@settings(max_examples=40)
@given(data=st.data())
def test_records_come_back_as_they_were(
    write: Callable[[Any, Header, Any], int], category: Category, records: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    check(write, category, data.draw(st.lists(records, max_size=4)))
