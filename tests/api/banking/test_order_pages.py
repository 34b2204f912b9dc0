"""The page of an order file: a payer without an API key opens it, fetches the file and sees what to do; nobody else does."""

from __future__ import annotations

import base64

import pytest

from kontobahn.banking.payments.links import Link, make_token
from kontobahn.clock import DAY
from kontobahn.vault import Vault
from tests.file_bank import FileBank
from tests.harness import START, Service
from tests.sandbox_visitor import words
from tests.statement_builder import pain002

DAY_SECONDS = DAY // 1_000_000


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


def test_the_payer_opens_the_address_without_a_key(service: Service, bank: FileBank) -> None:
    payment = bank.pay(amount="1234.50", reference="RE-4711", date="2026-03-10")
    assert payment["expires_at"].startswith("2026-04-")
    page = service.http.get(payment["payment_url"])
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" not in page.text
    assert page.headers["cache-control"] == "no-store"
    shown = words(page)
    for text in (
        "1.234,50 EUR", "Müller + Söhne", "DE75 5121 0800 1245 1261 99", "Rechnung 4711", "RE-4711", "am 10.03.2026",
        "DE89 3704 0044 0532 0130 00", "noch nicht heruntergeladen", "gilt bis 09.04.2026",
    ):  # fmt: skip
        assert text in shown
    assert bank.key not in page.text


def test_an_english_browser_or_link_gets_the_page_in_english(service: Service, bank: FileBank) -> None:
    payment, german = bank.pay(amount="1234.50", date="2026-03-10"), {"accept-language": "de"}
    service.http.get(f"{payment['payment_url']}/file")
    orders = {"payment_ids": [bank.pay()["id"], bank.pay()["id"]]}
    file_url = service.post("/v2/banking/order-files", bank.key, json=orders).json()["data"]["file_url"]
    for url, wanted in (
        (payment["payment_url"], ("1,234.50 EUR", "on 10 Mar 2026", "downloaded on 2 Mar 2026, 10:00", "until 9 Apr 2026")),
        (file_url, ("Batch order for your bank", "Download the order file")),
    ):  # fmt: skip
        by_header = service.http.get(url, headers={"accept-language": "en-GB,en;q=0.9,de;q=0.5"})
        by_link = service.http.get(f"{url}?lang=en", headers=german)
        for page in (by_header, by_link):
            assert 'lang="en"' in page.text
            assert [text for text in wanted if text not in words(page)] == []
            assert "Auftrag" not in words(page)
        assert 'lang="de"' in service.http.get(url, headers=german).text
    cancelled = service.http.post(f"{payment['payment_url']}?lang=en", data={"action": "cancel"})
    assert cancelled.headers["location"].endswith("?lang=en")


def test_the_file_of_the_page_is_that_of_the_call(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    file = service.http.get(f"{payment['payment_url']}/file")
    assert file.status_code == 200
    assert file.headers["content-type"] == "application/xml"
    assert file.headers["content-disposition"] == f'attachment; filename="payment-{payment["id"]}.xml"'
    service.clock.advance(seconds=3600)
    assert bank.order_file(payment).content == file.content
    assert "heruntergeladen am 02.03.2026, 10:00 Uhr" in words(service.http.get(payment["payment_url"]))
    assert "nur einmal" in words(service.http.get(payment["payment_url"]))


def test_looking_at_the_page_or_its_headers_takes_nothing(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    service.http.get(payment["payment_url"])
    service.http.head(f"{payment['payment_url']}/file")
    assert "noch nicht heruntergeladen" in words(service.http.get(payment["payment_url"]))


def test_an_altered_or_foreign_address_opens_nothing(service: Service, bank: FileBank) -> None:
    payment, other = bank.pay(), bank.pay()
    url, _, token = payment["payment_url"].rpartition("/")
    content = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        altered = base64.urlsafe_b64encode(bytes(changed)).rstrip(b"=").decode()
        assert service.http.get(f"{url}/{altered}").status_code == 404
    mine = Link("payment", bank.owner.id, int(other["id"]), START + DAY)
    assert service.http.get(f"{url}/{make_token(service.vault, mine)}").status_code == 200
    assert service.http.get(f"{url}/{make_token(Vault(b'x' * 32), mine)}").status_code == 404
    stranger = mine._replace(organization_id=service.organization("Fremder").id)
    for wrong in (
        make_token(service.vault, stranger), make_token(service.vault, mine._replace(kind="file")), token[:-1], token + "A",
        "x", "%C3%BC", token.swapcase(),
    ):  # fmt: skip
        for path in (wrong, f"{wrong}/file"):
            assert service.http.get(f"{url}/{path}").status_code == 404, wrong


def test_the_address_ends_when_it_says(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    assert bank.payment(payment)["payment_url"] == payment["payment_url"]
    service.clock.advance(seconds=31 * DAY_SECONDS)
    for path in ("", "/file"):
        assert service.http.get(payment["payment_url"] + path).status_code == 404


@pytest.mark.parametrize(
    ("code", "text"),
    [("ACSP", "Die Bank hat den Auftrag angenommen"), ("RJCT", "Laden Sie seine Datei nicht mehr hoch")],
)
def test_once_the_bank_has_spoken_the_page_hands_out_nothing(
    service: Service, bank: FileBank, code: str, text: str
) -> None:
    payment = bank.pay(return_to="https://app.muster.example/zurueck")
    bank.take(pain002((payment["end_to_end_id"], code, ""), message_id=payment["end_to_end_id"]))
    page = service.http.get(payment["payment_url"])
    assert text in words(page)
    assert "/file" not in page.text
    assert f"https://app.muster.example/zurueck?payment_id={payment['id']}" in page.text
    back = service.http.get(f"{payment['payment_url']}/file")
    assert (back.status_code, service.base_url + back.headers["location"]) == (303, payment["payment_url"])
    assert bank.order_file(payment).status_code == (409 if code == "RJCT" else 200)
    assert "payment_url" not in bank.payment(payment)


def test_a_settled_order_says_so(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    bank.book_debit(payment)
    assert "Bezahlt" in words(service.http.get(payment["payment_url"]))


def test_a_payment_outlives_its_connection_with_its_order(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    service.request("DELETE", f"/v2/banking/connections/{payment['connection_id']}", bank.key)
    assert "<Dbtr>\n        <Nm>Muster GmbH</Nm>" in bank.order_file(payment).text
