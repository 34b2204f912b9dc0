"""A logo on invoices: taken by what the file is, printed at once to be sure, and kept by every invoice that shows it."""

from __future__ import annotations

import io
import struct
from typing import Any

import httpx
import pytest
from facturx import get_xml_from_pdf
from pypdf import PdfReader

from kontobahn.errors import BadRequest
from kontobahn.mobility import seller
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.mobility_builder import Shop, png, ticket

EMAIL = "erika@muster.example"
PAGE = "/dashboard/seller"


def jpeg(components: int = 3, width: int = 8, height: int = 8) -> bytes:
    """The head of a picture: enough to tell what it is, not enough to print it."""
    frame = struct.pack(">BHHB", 8, height, width, components) + b"\1\x11\0" * components
    return b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0" + struct.pack(">H", len(frame) + 2) + frame + b"\xff\xd9"


REFUSED: dict[str, tuple[bytes, str]] = {
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "PNG or JPEG"),
    "html": (b"<script>alert(1)</script>", "PNG or JPEG"),
    "empty": (b"", "PNG or JPEG"),
    "cut": (png()[:60], "damaged"),
    "altered": (png().replace(b"IDAT", b"IDAX"), "damaged"),
    "head alone": (b"\x89PNG\r\n\x1a\n", "damaged"),
    "too wide": (png(4001, 1), "4,000 pixels"),
    "too many": (png(2001, 2000, b""), "4 million"),
    "too large": (png() + bytes(seller.MAX_LOGO_BYTES), "KiB"),
    "printer's colours": (jpeg(4), "CMYK"),
    "no frame": (b"\xff\xd8\xff\xd9\0\2", "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_only_pictures_are_taken(name: str) -> None:
    content, why = REFUSED[name]
    with pytest.raises(BadRequest, match=why):
        seller.check_logo(content)


def test_what_it_is_is_found_in_the_file() -> None:
    assert seller.check_logo(png(30, 20))[1:4] == ("image/png", 30, 20)
    assert seller.check_logo(jpeg(1, 7, 9))[1:4] == ("image/jpeg", 7, 9)


def test_it_stands_on_invoices_from_then_on(service: Service) -> None:
    shop = Shop(service)
    service.user(shop.owner, EMAIL, "admin")
    browser = Browser(service)
    browser.sign_in(EMAIL)

    def send(content: bytes, name: str = "logo.svg") -> httpx.Response:
        origin = {"origin": service.base_url}
        return browser.send("POST", f"{PAGE}/logo", files={"logo": (name, content, "image/svg+xml")}, headers=origin)

    customer = shop.customer(ticket("PN-1"))
    plain = shop.document(shop.invoice(customer), "pdf")
    assert browser.get(f"{PAGE}/logo").status_code == 404
    assert send(b"<svg/>").status_code == 422
    assert "Please choose a file." in send(b"", "").text
    # A whole picture by its parts, which nobody can draw: found out before an invoice needs it.
    assert "cannot be printed" in send(png(pixels=b"nonsense")).text
    assert send(jpeg()).status_code == 422
    assert stored(service) == []
    made = send(png())
    assert made.status_code == 303, made.text
    shown = browser.get(f"{PAGE}/logo")
    assert shown.content == png()
    assert (shown.headers["content-type"], shown.headers["x-content-type-options"]) == ("image/png", "nosniff")
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    shop.add(customer, ticket("PN-2"))
    invoice = shop.invoice(customer)
    assert send(png(12, 12)).status_code == 303
    assert [size for _, size in stored(service)] == [40, 12]
    with_logo = shop.document(invoice, "pdf")
    assert images(with_logo) == [(40, 10)]
    assert images(plain) == []
    reader = PdfReader(io.BytesIO(with_logo), strict=True)
    root: Any = reader.root_object
    xmp = root["/Metadata"].get_object().get_data().decode()
    assert "<pdfaid:part>3</pdfaid:part>" in xmp
    assert "<pdfaid:conformance>B</pdfaid:conformance>" in xmp
    assert get_xml_from_pdf(with_logo)[0] == "factur-x.xml"
    assert shop.document(invoice, "pdf") == with_logo

    assert browser.post(f"{PAGE}/logo/remove").status_code == 303
    # The one that no invoice shows is gone.
    assert [size for _, size in stored(service)] == [40]
    shop.add(customer, ticket("PN-3"))
    assert images(shop.document(shop.invoice(customer), "pdf")) == []


def stored(service: Service) -> list[Any]:
    return service.db.read_now(
        lambda tx: tx.all("SELECT sha256, width FROM mobility_logos ORDER BY created_at, width DESC")
    )


def images(pdf: bytes) -> list[tuple[int, int]]:
    """The pictures on the first page, without their masks."""
    page: Any = PdfReader(io.BytesIO(pdf)).pages[0]
    found = page["/Resources"].get("/XObject", {})
    pictures = [item.get_object() for item in found.values()]
    return [(item["/Width"], item["/Height"]) for item in pictures if item["/Subtype"] == "/Image"]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_only_administrators_change_it(service: Service) -> None:
    shop = Shop(service)
    service.user(shop.owner, EMAIL, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    origin = {"origin": service.base_url}
    sent = browser.send("POST", f"{PAGE}/logo", files={"logo": ("logo.png", png())}, headers=origin)
    assert sent.status_code == 403
    assert browser.post(f"{PAGE}/logo/remove").status_code == 403
