"""The doctor's check of invoices: nothing to report for sound ones, and a sentence for each kind of damage."""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.mobility.invoices import store
from tests.harness import Service
from tests.mobility_builder import SELLER, Shop, ticket


def _differences(service: Service) -> list[str]:
    sellers = service.db.read_now(store.organizations_with_invoices)
    return [text for seller in sellers for text in service.db.read_now(store.find_differences, seller)]


def test_sound_invoices_of_several_series_and_sellers_have_no_difference(service: Service) -> None:
    for prefix in ("RE-{year}-", "J/", ""):
        shop = Shop(service, invoice_number_prefix=prefix)
        customer_id = shop.customer(*(ticket(f"PN-{number}") for number in range(3)))
        shop.invoice(customer_id)
        shop.post(f"/tickets/{shop.tickets(customer_id)[0]['id']}/cancel")
        shop.invoice(customer_id)
        shop.ok(shop.put("/seller", {**SELLER, "invoice_number_prefix": f"{prefix}B"}))
        shop.add(customer_id, ticket("PN-9"))
        shop.invoice(customer_id)
    assert _differences(service) == []


def test_a_number_of_another_seller_fills_no_gap(service: Service) -> None:
    shop, other = Shop(service), Shop(service)
    for seller in (shop, other, other):
        seller.invoice(seller.customer(ticket()))
    sql = "UPDATE mobility_numbers SET last_number = 2 WHERE series LIKE 'invoices%'"
    service.db.write_now(lambda tx: tx.run(sql))
    [gap] = _differences(service)
    assert "2 was given and there is no such invoice (1 are missing)" in gap


def test_each_kind_of_damage_is_reported(service: Service) -> None:
    shop = Shop(service)
    shop.invoice(shop.customer(ticket()))

    def damage(tx: Tx) -> None:
        # Triggers prevent changes, so rows are added instead: a line too many, a number without its invoice, another file.
        columns = (
            "reference, product, holder_reference, valid_from, valid_to, price_in_cents, discount_in_cents, vat_rate"
        )
        tx.run(
            f"INSERT INTO mobility_invoice_lines (organization_id, invoice_id, position, ticket_id, {columns}, amount_in_cents,"
            f" net_in_cents) SELECT organization_id, invoice_id, 2, 'x', {columns}, 100, 93 FROM mobility_invoice_lines"
        )
        tx.run("UPDATE mobility_numbers SET last_number = 3 WHERE series LIKE 'invoices%'")
        tx.run(
            "INSERT INTO mobility_documents (organization_id, invoice_id, kind, file_name, sha256, content, created_at)"
            " SELECT organization_id, 'other', 'xml', 'a.xml', sha256, content, 0 FROM mobility_documents WHERE kind = 'pdf'"
        )
        tx.run(
            "INSERT INTO mobility_documents (organization_id, invoice_id, kind, file_name, sha256, content, created_at)"
            " SELECT organization_id, 'changed', 'pdf', 'a.pdf', 'wrong', content, 0 FROM mobility_documents WHERE kind = 'pdf'"
        )

    service.db.write_now(damage)
    gap, lines, document = _differences(service)
    assert "2 was given and there is no such invoice (2 are missing)" in gap
    assert "RE-2026-00001 over 6300 cents: its lines make 6400" in lines
    assert "The pdf of the invoice changed" in document
