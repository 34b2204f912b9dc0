"""POST /v2/ledger-duo/kassenbuch-advanced: receipt images."""

from __future__ import annotations

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line, refusal

PDF, PNG = b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n"
LARGEST = 20_000_000


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization())


def image(content: bytes, dateiname: str = "Beleg.pdf") -> dict[str, str]:
    return {"content": base64.b64encode(content).decode(), "dateiname": dateiname}


def with_images(*images: dict[str, str], **fields: Any) -> dict[str, Any]:
    return entry(line(1), belegbilder=list(images), **fields)


def stored(books: Books) -> list[tuple[str, bytes]]:
    rows = books.rows("SELECT dateiname, content FROM books_receipts ORDER BY dateiname")
    return [(name, bytes(content)) for name, content in rows]


@pytest.mark.parametrize(
    ("content", "dateiname", "mime_typ"),
    [
        (PDF, "a.pdf", "application/pdf"),
        (b"\xff\xd8\xff\xe0", "a.jpg", "image/jpeg"),
        (b"\xff\xd8\xff\xe1", "a.jpeg", "image/jpeg"),
        (PNG, "A.PNG", "image/png"),
        (b"GIF87a", "a.gif", "image/gif"),
        (b"GIF89a", "a.gif", "image/gif"),
        (b"II*\0", "a.tif", "image/tiff"),
        (b"MM\0*", "a.tiff", "image/tiff"),
        (b"<?xml version='1.0'?><r/>", "a.xml", "application/xml"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><r/>", "a.xml", "application/xml"),
    ],
)
@pytest.mark.either_engine
def test_every_allowed_type_is_known_by_its_first_bytes(
    books: Books, content: bytes, dateiname: str, mime_typ: str
) -> None:
    answer = books.send(KASSENBUCH, with_images(image(content, dateiname)))
    assert answer.status_code == 201, answer.text
    (shown,) = answer.json()["belegbilder"]
    (kept_id,) = books.rows("SELECT id FROM books_receipts")[0]
    assert shown == {
        "id": kept_id,
        "dateiname": dateiname,
        "groesse": len(content),
        "mimeTyp": mime_typ,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    assert stored(books) == [(dateiname, content)]


def test_images_are_answered_in_the_order_they_were_sent_and_kept_byte_for_byte(books: Books) -> None:
    contents = [PDF + bytes(range(256)), PNG + b"\0" * 1000]
    answer = books.send(KASSENBUCH, with_images(image(contents[0], "z.pdf"), image(contents[1], "a.png")))
    assert [item["dateiname"] for item in answer.json()["belegbilder"]] == ["z.pdf", "a.png"]
    shown = answer.json()["ledgerAntwort"]["meldungen"]
    assert [item["dateiname"] for item in shown] == ["z.pdf", "a.png", None]
    assert stored(books) == [("a.png", contents[1]), ("z.pdf", contents[0])]
    tasks = books.rows("SELECT DISTINCT r.task, t.kind FROM books_receipts r JOIN books_tasks t ON t.id = r.task")
    assert [kind for _, kind in tasks] == ["kassenbuch"]


def test_a_data_prefix_is_tolerated(books: Books) -> None:
    prefixed = image(PDF)
    prefixed["content"] = "data:application/pdf;base64," + prefixed["content"]
    assert books.send(KASSENBUCH, with_images(prefixed)).status_code == 201
    assert stored(books) == [("Beleg.pdf", PDF)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Quittung März (1) & 2.pdf", "Quittung März (1) & 2.pdf"),
        ("../../etc/passwd.pdf", ".._.._etc_passwd.pdf"),
        ("a\\b:c*?<>|\n.pdf", "a_b_c______.pdf"),
        ("Ma\u0308rz.pdf", "März.pdf"),
    ],
)
@pytest.mark.either_engine
def test_a_file_name_holds_only_what_a_file_name_may_hold(books: Books, given: str, kept: str) -> None:
    answer = books.send(KASSENBUCH, with_images(image(PDF, given)))
    assert answer.json()["belegbilder"][0]["dateiname"] == kept
    assert stored(books) == [(kept, PDF)]


@pytest.mark.either_engine
def test_a_wrong_image_is_400_names_it_and_leaves_no_trace(books: Books) -> None:
    right = image(PDF)
    cases: list[tuple[list[dict[str, Any]], str]] = [
        ([image(PNG, "a.pdf")], "belegbilder[0].dateiname"),
        ([right, image(PNG, "a.jpg")], "belegbilder[1].dateiname"),
        ([image(PDF, "pdf")], "belegbilder[0].dateiname"),
        ([image(PDF, "Beleg")], "belegbilder[0].dateiname"),
        ([image(PDF, "Beleg.pdf.exe")], "belegbilder[0].dateiname"),
        ([image(b"PK\x03\x04 a zip", "a.zip")], "belegbilder[0].content"),
        ([image(b"plain text", "a.pdf")], "belegbilder[0].content"),
        ([image(b" %PDF-1.7", "a.pdf")], "belegbilder[0].content"),
        ([image(b"", "a.pdf")], "belegbilder[0].content"),
        ([{**right, "content": "data:application/pdf;base64,"}], "belegbilder[0].content"),
        ([{**right, "content": "JVBERi0xLjcK!"}], "belegbilder[0].content"),
        ([{**right, "content": "JVBERi0xLjcKQ"}], "belegbilder[0].content"),
        ([{**right, "content": "JVBERi0x\nLjcK"}], "belegbilder[0].content"),
        ([{**right, "content": "JVBERi0xLjcÄ"}], "belegbilder[0].content"),
        ([{**right, "content": None}], "belegbilder[0].content"),
        ([{**right, "dateiname": ""}], "belegbilder[0].dateiname"),
        ([{**right, "dateiname": "x" * 252 + ".pdf"}], "belegbilder[0].dateiname"),
        ([{**right, "name": "x"}], "belegbilder[0].name"),
        ([right, image(PNG, "b.png"), {**right, "dateiname": "copy.pdf"}], "belegbilder[2]"),
        ([image(PDF + bytes([number])) for number in range(51)], "belegbilder"),
    ]  # fmt: skip
    with books.unchanged():
        for images, field in cases:
            refusal(books.send(KASSENBUCH, with_images(*images)), 400, field)


@pytest.mark.either_engine
def test_fifty_images_are_allowed(books: Books) -> None:
    answer = books.send(KASSENBUCH, with_images(*(image(PDF + bytes([number])) for number in range(50))))
    assert answer.status_code == 201, answer.text
    assert len(stored(books)) == 50


@pytest.mark.either_engine
def test_the_same_file_is_stored_once_and_refused_ever_after(books: Books) -> None:
    books.cash_book("Nebenkasse", "1010")
    assert books.send(KASSENBUCH, with_images(image(PDF, "first.pdf"))).status_code == 201
    with books.unchanged():
        for kassenname in ("Hauptkasse", "Nebenkasse"):
            again = with_images(image(PNG, "new.png"), image(PDF, "again.pdf"), kassenname=kassenname)
            assert "first.pdf" in refusal(books.send(KASSENBUCH, again), 409, "belegbilder[1]")["error"]
    assert stored(books) == [("first.pdf", PDF)]


def test_the_same_file_sent_to_two_cash_books_at_once_is_stored_once(books: Books) -> None:
    names = [f"Kasse {number}" for number in range(6)]
    for number, name in enumerate(names):
        books.cash_book(name, str(1010 + number))

    def call(name: str) -> int:
        return books.send(KASSENBUCH, with_images(image(PDF), kassenname=name)).status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = sorted(pool.map(call, names))
    assert statuses == [201, 409, 409, 409, 409, 409]
    assert stored(books) == [("Beleg.pdf", PDF)]
    assert books.service.balance(books.owner).spent == 1


def test_another_client_may_have_the_same_file(service: Service) -> None:
    first, second = (Books(service, service.organization(name)) for name in ("Erste", "Zweite"))
    for books in (first, second):
        assert books.send(KASSENBUCH, with_images(image(PDF))).status_code == 201
    assert stored(first) == [("Beleg.pdf", PDF)] * 2


@pytest.mark.either_engine
def test_twenty_megabytes_are_right_and_one_byte_more_is_413(books: Books) -> None:
    content = PDF + b"\0" * (LARGEST - len(PDF))
    with books.unchanged():
        answer = books.send(KASSENBUCH, with_images(image(content + b"\0")))
        refusal(answer, 413, "belegbilder[0].content")
    answer = books.send(KASSENBUCH, with_images(image(content)))
    assert answer.status_code == 201, answer.text
    assert answer.json()["belegbilder"][0]["groesse"] == LARGEST
    ((size, sha256),) = books.rows("SELECT LENGTH(content), sha256 FROM books_receipts")
    assert (size, sha256) == (LARGEST, hashlib.sha256(content).hexdigest())


@pytest.mark.either_engine
def test_a_body_over_the_limit_is_413_before_it_is_read(books: Books) -> None:
    content = PDF + b"\0" * (28 * 1024 * 1024 * 3 // 4)
    with books.unchanged():
        refusal(books.send(KASSENBUCH, with_images(image(content))), 413)


@pytest.mark.either_engine
def test_an_entry_with_images_needs_the_receipt_service_and_right_too(books: Books) -> None:
    books.deny("belege")
    with books.unchanged():
        body = refusal(books.send(KASSENBUCH, with_images(image(PDF))), 403)
        assert body["code"] == "ledger_endpoint_not_authorized"
        assert "belege" in body["error"]
        books_without = entry(line(1))
    assert books.send(KASSENBUCH, books_without).status_code == 201


def test_an_entry_with_images_names_the_receipt_service_where_it_is_not_booked(books: Books) -> None:
    books.unsubscribe("Belegbilderservice")
    with books.unchanged():
        body = refusal(books.send(KASSENBUCH, with_images(image(PDF))), 403)
    assert body["code"] == "ledger_export_service_missing"
    assert "Belegbilderservice" in body["error"]
    assert "Rechnungsdatenservice" in body["activeSubscriptions"]


# --- Reading back


def test_a_stored_image_is_read_back_byte_for_byte_and_free(books: Books) -> None:
    content = PDF + bytes(range(256)) * 100
    (shown,) = books.send(KASSENBUCH, with_images(image(content, "Quittung März.pdf"))).json()["belegbilder"]
    for given in (shown["id"], shown["id"].upper()):
        answer = books.get(f"/v2/ledger-duo/belegbilder/{given}")
        assert answer.status_code == 200, answer.text
        assert answer.content == content
        assert answer.headers["content-type"] == "application/pdf"
        assert answer.headers["content-length"] == str(len(content))
        assert "filename*=UTF-8''Quittung%20M%C3%A4rz.pdf" in answer.headers["content-disposition"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert books.service.balance(books.owner).spent == 1


@pytest.mark.either_engine
def test_an_image_of_another_connection_is_not_there(service: Service) -> None:
    owner = service.organization()
    first, second = Books(service, owner), Books(service, owner)
    (shown,) = first.send(KASSENBUCH, with_images(image(PDF))).json()["belegbilder"]
    assert first.get(f"/v2/ledger-duo/belegbilder/{shown['id']}").status_code == 200
    assert second.get(f"/v2/ledger-duo/belegbilder/{shown['id']}").status_code == 404
    assert second.get("/v2/ledger-duo/belegbilder/1").status_code == 400
