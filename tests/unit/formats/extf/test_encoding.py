"""The byte order mark or the bytes decide the encoding; bytes that cannot be decoded are found before the first row."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

import pytest

from kontobahn.formats.extf import Buchungssatz, ExtfError, ExtfFile, RowError, open_extf
from tests.unit.formats.extf.files import read, satz, text_of

TEXT = text_of(satz(changed={14: '"Müller & Söhne – 5 €"'}))
ENCODINGS = {
    "cp1252": TEXT.encode("cp1252"),
    "utf-8": codecs.BOM_UTF8 + TEXT.encode("utf-8"),
    "utf-16-le": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16-be": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_four_encodings_read_alike(name: str) -> None:
    with open_extf(io.BytesIO(ENCODINGS[name])) as file:
        (found,) = file.buchungssaetze()
    assert isinstance(found, Buchungssatz)
    assert found.buchungstext == "Müller & Söhne – 5 €"
    assert file.encoding == name


def test_utf8_without_a_mark_is_known_by_its_bytes() -> None:
    with open_extf(io.BytesIO(TEXT.encode("utf-8"))) as file:
        (found,) = file.buchungssaetze()
    assert isinstance(found, Buchungssatz)
    assert (file.encoding, found.buchungstext) == ("utf-8", "Müller & Söhne – 5 €")


def test_a_single_byte_that_is_not_utf8_makes_it_code_page_1252() -> None:
    data = text_of(satz(changed={14: '"Müller"'}), satz(changed={14: '"@"'})).encode().replace(b"@", b"\xfc")
    with open_extf(io.BytesIO(data)) as file:
        texts = [found.buchungstext for found in file.buchungssaetze() if isinstance(found, Buchungssatz)]
    assert (file.encoding, texts) == ("cp1252", ["MÃ¼ller", "ü"])


def test_what_is_ascii_alone_needs_no_decision() -> None:
    text = text_of(satz(), titles="a;b")
    assert open_extf(io.BytesIO(text.encode())).encoding == "cp1252"


def test_utf16_without_a_mark_is_refused_with_the_remedy() -> None:
    text = text_of(satz()).replace("ü", "ue").replace("ä", "ae").replace("ö", "oe")
    with pytest.raises(ExtfError, match="UTF-16 must have a byte order mark"):
        read(text.encode("utf-16-le"))


def test_a_byte_that_code_page_1252_does_not_have_is_named_with_its_line() -> None:
    data = (
        text_of(satz(), satz(changed={14: "Müller"}), satz())
        .encode("cp1252")
        .replace("Müller".encode("cp1252"), b"Caf\xc3\x9d")
    )
    with pytest.raises(
        ExtfError, match=r"Line 4 has the byte 0x9D, which is not code page 1252; a file must be written in one"
    ):
        read(data)


@pytest.mark.parametrize("name", ["utf-8", "utf-16-le", "utf-16-be"])
def test_bytes_that_break_the_encoding_are_named_with_their_line(name: str) -> None:
    broken = {"utf-8": b"\xfc", "utf-16-le": b"\x00\xdc", "utf-16-be": b"\xdc\x00"}[name]
    text = text_of(satz(), satz(changed={14: "@"})).encode(name)
    mark = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[name]
    with pytest.raises(ExtfError, match=f"Line 4 has the byte 0x{max(broken):02X}|Line 4 has the byte 0x00"):
        read(mark + text.replace("@".encode(name), broken))


def test_a_file_that_ends_within_a_character_is_refused() -> None:
    with pytest.raises(ExtfError, match="Line 4 has the byte 0xC3, which is not UTF-8"):
        read(codecs.BOM_UTF8 + text_of(satz()).encode() + b"\xc3")


def test_a_character_across_two_blocks_is_whole(tmp_path: Path) -> None:
    row = satz(changed={14: '"' + "ü" * 60 + '"'})
    text = text_of(*[row] * 3_000)
    for shift in range(4):
        path = tmp_path / "EXTF_probe.csv"
        path.write_bytes(codecs.BOM_UTF8 + text.replace("Probe", "x" * shift).encode())
        with open_extf(path) as file:
            texts = {found.buchungstext for found in file.buchungssaetze() if isinstance(found, Buchungssatz)}
        assert texts == {"ü" * 60}


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(ExtfError, match="Line 3 is longer than"):
        read(text_of("x" * 2_000_000))


def test_the_progress_of_reading_is_counted(tmp_path: Path) -> None:
    data = text_of(*[satz()] * 2_000).encode("cp1252")
    path = tmp_path / "EXTF_probe.csv"
    path.write_bytes(data)
    with open_extf(path) as file:
        assert (file.bytes_read, file.total_bytes) == (0, len(data))
        seen = {file.bytes_read for _ in file}
        assert len(seen) > 2
        assert max(seen) == len(data)
        assert sum(1 for _ in file) == 2_000


def test_a_file_that_is_refused_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "EXTF_probe.csv"
    path.write_bytes(b"nothing")
    with pytest.raises(ExtfError):
        open_extf(path)
    path.write_bytes(text_of().encode("cp1252"))
    file = open_extf(str(path))
    assert isinstance(file, ExtfFile)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        list(file)


def test_a_file_of_another_kind_is_told_apart() -> None:
    with (
        open_extf(io.BytesIO(ENCODINGS["utf-8"])) as file,
        pytest.raises(ExtfError, match="holds Buchungsstapel, not Debit"),
    ):
        file.personenkonten()


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_both_line_endings_are_accepted(end: str) -> None:
    text = text_of(satz(), satz(), end=end)
    for written in (text, text.removesuffix(end), text + end):
        assert [found.line for found in read(written)] == [3, 4]


def test_an_empty_line_is_no_row() -> None:
    found = read(text_of(satz(), "", satz()))
    assert [row.line for row in found] == [3, 5]
    assert not any(isinstance(row, RowError) for row in found)
