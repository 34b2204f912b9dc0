"""An invalid row is reported by its line, and affects no other row."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.formats.extf import BUCHUNGSSTAPEL, Buchungssatz, ExtfError, RowError, RowWarning, open_extf
from kontobahn.formats.extf.rows import Tally
from kontobahn.formats.extf.values import Memo
from tests.unit.formats.extf.files import read, read_all, refusal, satz, text_of

GOOD = satz()


def test_every_refused_row_is_reported_by_its_line() -> None:
    found = read(text_of(GOOD, satz(changed={1: "x"}), GOOD, satz(changed={10: "9999"}), GOOD, "1;2;3", GOOD))
    assert [row.line for row in found] == [3, 4, 5, 6, 7, 8, 9]
    refused = [row for row in found if isinstance(row, RowError)]
    assert [(row.line, row.column) for row in refused] == [
        (4, "Umsatz (ohne Soll/Haben-Kz)"),
        (6, "Belegdatum"),
        (8, "Soll/Haben-Kennzeichen"),
    ]


@pytest.mark.parametrize("columns", [14, 15, 37, 38, 39, 42, 53, 93, 116, 124, 126, 300])
def test_columns_that_are_missing_at_the_end_are_empty(columns: int) -> None:
    row = ";".join([*GOOD.split(";"), *[""] * 200][:columns])
    together = text_of(*[GOOD] * 200, *[row] * 200, *[GOOD] * 2)
    assert [found[1:] for found in read_all(together)] == [read(text_of(GOOD))[0][1:]] * 402
    assert read_all(text_of(row, titles=";".join(BUCHUNGSSTAPEL.titles[:14]))) == read(text_of(GOOD))


@pytest.mark.parametrize("columns", [1, 7, 8, 9])
def test_a_row_that_ends_before_what_it_must_have_is_refused(columns: int) -> None:
    row = ";".join(GOOD.split(";")[:columns])
    found = read(text_of(*[GOOD] * 200, row, *[GOOD] * 2))
    assert [row.line for row in found if isinstance(row, RowError)] == [203]
    assert len(found) == 203


def test_what_stands_beyond_the_last_column_is_left_out_with_a_warning() -> None:
    row = GOOD + ';;mehr;;"noch; mehr"'
    found = read_all(text_of(*[GOOD] * 200, *[row] * 200))
    assert [row[1:] for row in found if isinstance(row, Buchungssatz)] == [found[0][1:]] * 400
    warnings = [row for row in found if isinstance(row, RowWarning)]
    assert [row.line for row in warnings] == list(range(203, 403))
    assert warnings[199][1:] == (
        "", "The row goes on after its last column, 125, with 'mehr', 'noch; mehr'.", "It was left out.",
    )  # fmt: skip


@pytest.mark.parametrize("row", [";" * 87, ";" * 124, '"";' * 124 + '""', " ; ;", '""'])
def test_a_row_of_nothing_but_separators_is_no_row(row: str) -> None:
    found = read_all(text_of(*[GOOD] * 200, row, GOOD))
    assert [record.line for record in found if isinstance(record, Buchungssatz)] == [*range(3, 203), 204]
    assert len(found) == 201


def test_a_file_that_ends_within_a_row_is_noticed() -> None:
    text = text_of(*[GOOD] * 3)
    for cut in range(1, len(GOOD)):
        found = read_all(text[: -cut - 2])
        assert [type(row) for row in found] == [Buchungssatz, Buchungssatz, RowError], cut
    assert [type(row) for row in read_all(text[:-2])] == [Buchungssatz] * 3
    assert [type(row) for row in read_all(text[: -len(GOOD) - 2])] == [Buchungssatz] * 2


@pytest.mark.parametrize(
    "row",
    [
        satz(changed={14: '"not closed'}),
        satz(changed={14: '"closed "too"; early"'}),
        satz(changed={14: '"', 15: '"x"'}),
        satz(changed={125: '"open'}),
    ],
)
def test_a_wrong_quote_affects_no_other_row(row: str) -> None:
    found = read(text_of(*[GOOD] * 150, row, *[GOOD] * 150))
    assert [row.line for row in found] == list(range(3, 304))
    assert [row.line for row in found if isinstance(row, RowError)] == [153]


def test_a_line_break_in_a_text_is_refused_in_both_lines() -> None:
    found = read(text_of(GOOD, satz(changed={14: '"two\r\nlines"'}), GOOD))
    assert [type(row) for row in found] == [Buchungssatz, RowError, RowError, Buchungssatz]
    assert [row.line for row in found] == [3, 4, 5, 6]


@pytest.mark.parametrize("control", ["\0", "\t", "\r", "\x1f", "\x7f"])
def test_a_control_character_is_refused(control: str) -> None:
    found = read(text_of(GOOD, satz(changed={14: f'"a{control}b"'}), GOOD))
    assert [type(row) for row in found] == [Buchungssatz, RowError, Buchungssatz]
    assert found[1] == (4, "Buchungstext", f"The text holds the control character 0x{ord(control):02X}.")


def test_a_control_character_outside_of_quotes_is_refused() -> None:
    assert refusal(satz(changed={20: "a\rb"})).column == "Beleglink"


def test_quotes_and_semicolons_within_a_text_are_text() -> None:
    text = '";"";""";'
    row = satz(changed={14: '"' + text.replace('"', '""') + '"'})
    for found in read(text_of(GOOD, row, row)):
        assert isinstance(found, Buchungssatz)
        assert found.buchungstext in {"Rechnung", text}


def test_the_quotes_within_a_link_may_be_doubled_or_not() -> None:
    links = ['"BEDI ""4A-5B"""', '"BEDI "4A-5B""', 'BEDI "4A-5B"']
    rows = [satz(changed={20: link, 114: "1"}) for link in links]
    found = read_all(text_of(*rows * 100))
    assert [row[1:] for row in found] == [found[0][1:]] * 300
    assert isinstance(found[0], Buchungssatz)
    assert found[0].weitere == '{"20":"BEDI \\"4A-5B\\"","114":"1"}'


def test_a_link_does_not_excuse_another_wrong_quote() -> None:
    link = '"BEDI "4A-5B""'
    bad = [
        satz(changed={20: link, 14: '"a "b"; c"'}),
        satz(changed={20: link, 14: '"open'}),
        satz(changed={20: '"BEDI "4A"; 5B""'}),
    ]
    found = read_all(text_of(satz(changed={20: link}), *bad, satz(changed={20: link})))
    assert [type(row) for row in found] == [Buchungssatz, RowError, RowError, RowError, Buchungssatz]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('"Firma "Nord" GmbH"', 'Firma "Nord" GmbH'),
        ('"zu "A 1"; "B 2""', None),
        ('"zu "A 1" und "B 2""', 'zu "A 1" und "B 2"'),
        ('"zu ""A 1"" und "B 2""', 'zu "A 1" und "B 2"'),
        ('" "A 1" "', ' "A 1" '),
        ('""A 1""', '"A 1"'),
        ('"zu "A" "', 'zu "A" '),
        ('"3" Rohr"', '3" Rohr'),
        ('"Rohr 3""', 'Rohr 3"'),
        ('""3 Rohr"', '"3 Rohr'),
        ('"3" Rohr; lang"', '3" Rohr; lang'),
        ('"3" Rohr ; 4" Rohr; 5" Rohr"', '3" Rohr ; 4" Rohr; 5" Rohr'),
        ('"3" bis 4"; neu"', None),
        ('"3" bis 4"; neu "X"', None),
        ('"Rohr 3;"lang"', None),
        ('"Rohr 3', None),
    ],
)
def test_quotes_within_a_text_may_stand_there_as_they_are_unless_it_may_end_elsewhere(
    written: str, text: str | None
) -> None:
    """Beside a text with a semicolon, and among rows that are well written."""
    row = satz(changed={14: written, 21: '"eins; zwei"', 114: "1"})
    found = read(text_of(*[GOOD] * 3, row, *[GOOD] * 3))
    assert [type(item) for item in found].count(RowError) == (text is None)
    record = found[3]
    if isinstance(record, Buchungssatz):
        assert (record.buchungstext, record.weitere) == (text, '{"21":"eins; zwei","114":"1"}')


def test_rows_that_end_differently_are_all_read_in_full() -> None:
    """Known ends are cut off from lines; whatever stands before or in them must come out as if they were not."""
    ends = ["", "0", "1"]
    texts = ["Rechnung", '"a;b"', '"""', '"x"";"";"']
    rows = [
        satz(changed={38: kost, 114: end, 115: day, 20: link, 118: reversal})
        for end, day, kost, link, reversal in itertools.product(
            ends, ["", "01022024", "02022024"], ["", '"A"'], ["", '"BEDI ""1"""'], ["", "1"]
        )
    ]
    rows += [satz(changed={14: text}) for text in texts]
    once = [read(text_of(row))[0] for row in rows]
    together = read(text_of(*rows * 20))
    assert [row[1:] for row in together] == [row[1:] for row in once * 20]


def test_a_tail_of_a_refused_row_is_looked_at_in_the_next() -> None:
    refused, accepted = (satz(changed={10: day, 118: "00"}) for day in ("3102", "1503"))
    found = read_all(text_of(*[refused] * 300, *[accepted] * 300))
    assert [type(row) for row in found] == [RowError] * 300 + [RowWarning, Buchungssatz] * 300


def test_what_is_remembered_is_bounded() -> None:
    asked: list[str] = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    memo = Memo(length, size=3)
    assert [memo[text] for text in ("a", "bb", "a", "ccc", "dddd", "dddd")] == [1, 2, 1, 3, 4, 4]
    assert asked == ["a", "bb", "ccc", "dddd"]
    assert len(memo) <= 3


def test_a_line_end_across_two_blocks_is_one() -> None:
    whole, parted, broken = Tally(), Tally(), Tally()
    whole.feed(b"a\r\nb\r\n")
    for block in (b"a\r", b"", b"\nb\r", b"\n"):
        parted.feed(block)
    for block in (b"a\r", b"b\r\n"):
        broken.feed(block)
    assert (whole.line, whole.is_clean) == (parted.line, parted.is_clean) == (3, True)
    assert (broken.line, broken.is_clean) == (2, False)


def test_a_long_file_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "EXTF_long.csv"
    path.write_text(text_of(*(satz(changed={11: f"RE-{number}"}) for number in range(20_000))), "cp1252", newline="")
    tracemalloc.start()
    try:
        with open_extf(path) as file:
            count = sum(isinstance(row, Buchungssatz) for row in file.buchungssaetze())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert path.stat().st_size > 3_000_000
    assert peak < 2_500_000


QUOTED = ";".join(f'"{field}"' for field in GOOD.split(";"))
DAMAGES = st.lists(
    st.tuples(st.integers(0, len(QUOTED)), st.integers(0, 3), st.text('";,x1 \t', max_size=4)), min_size=1, max_size=6
)


@settings(max_examples=150)
@given(DAMAGES, st.sampled_from([GOOD, QUOTED]), st.sampled_from(["\r\n", "\n"]))
def test_a_damaged_row_is_judged_the_same_alone_and_among_others(
    damages: list[tuple[int, int, str]], good: str, end: str
) -> None:
    rows = [good[:at] + text + good[at + gone :] for at, gone, text in damages]
    alone = [found[1:] for row in rows for found in read_all(text_of(row, end=end))]
    among = read_all(text_of(*[good] * 150, *rows, good, end=end))[150:-1]
    assert [found[1:] for found in among] == alone


@settings(max_examples=150)
@given(st.integers(0, 4_000), st.binary(max_size=6), st.sampled_from(["cp1252", "utf-8-sig", "utf-16"]))
def test_no_damage_to_the_bytes_brings_the_reader_down(at: int, damage: bytes, encoding: str) -> None:
    data = text_of(satz(changed={14: '"Müller"'}), GOOD).encode(encoding)
    try:
        found = read_all(data[:at] + damage + data[at + len(damage) :])
    except ExtfError as error:
        reasons = [str(error)]
    else:
        reasons = [row.reason for row in found if isinstance(row, RowError)]
    assert all(reason.endswith(".") for reason in reasons)
