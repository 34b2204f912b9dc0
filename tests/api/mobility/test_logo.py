"""The logo by call: set, shown on the next invoice, read back, removed."""

from __future__ import annotations

import io

import httpx
import pytest
from pypdf import PdfReader

from kontobahn.mobility import seller
from tests.harness import Service
from tests.mobility_builder import Shop, png, ticket

PATH = "/v2/mobility/seller/logo"

# What is stored and kept is tested through the dashboard, on both engines.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"])


def pictures(pdf: bytes) -> int:
    return len(PdfReader(io.BytesIO(pdf)).pages[0].images)


def test_it_is_set_read_and_removed(service: Service) -> None:
    shop = Shop(service)
    owner, customer = shop.owner, shop.customer(ticket("PN-1"))

    def send(method: str, content: bytes | None = None, **options: str) -> httpx.Response:
        return service.request(method, PATH, owner.key, content=content, headers=options)

    assert send("GET").status_code == send("DELETE").status_code == 404
    made = send("PUT", png(), **{"idempotency-key": "logo-1"})
    assert made.json() == {
        "media_type": "image/png", "width": 40, "height": 10, "sha256": seller.check_logo(png()).sha256,
    }  # fmt: skip
    found = send("GET")
    assert (found.content, found.headers["content-type"]) == (png(), "image/png")
    assert found.headers["content-disposition"].startswith("attachment")
    assert pictures(shop.document(shop.invoice(customer), "pdf")) == 1
    assert send("DELETE").json() == {"removed": True}
    assert send("GET").status_code == 404
    # A repeat of the first call is its answer, and sets nothing again.
    assert send("PUT", png(), **{"idempotency-key": "logo-1"}).headers["idempotent-replayed"] == "true"
    assert send("GET").status_code == 404


def test_what_is_no_picture_or_too_large_changes_nothing(service: Service) -> None:
    owner = service.organization()
    member = service.organization(role="member")
    assert service.request("PUT", PATH, owner.key, content=png()).status_code == 200
    for content, status in (
        (b"<svg/>", 400),
        (png(pixels=b"nonsense"), 400),
        (b"", 400),
        (png() + bytes(seller.MAX_LOGO_BYTES), 413),
    ):
        refused = service.request("PUT", PATH, owner.key, content=content)
        assert refused.status_code == status, refused.text
    assert service.get(PATH, owner.key).content == png()
    assert service.request("PUT", PATH, member.key, content=png()).status_code == 403
    assert service.request("DELETE", PATH, member.key).status_code == 403
