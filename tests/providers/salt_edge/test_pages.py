"""Pages of bookings: each booking once, whatever the pages' sizes are, where they overlap, and which list repeats another's rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.bank_providers.salt_edge import rules
from kontobahn.bank_providers.salt_edge.adapter import LISTS
from kontobahn.banking.provider import ProviderDown
from simulators.salt_edge import SaltEdge, Shapes

encode = msgspec.json.Encoder(decimal_format="number").encode


def read_all(remote: SaltEdge, ref: str) -> list[tuple[str | None, str, int, bool | None]]:
    found: list[tuple[str | None, str, int, bool | None]] = []
    for name, flags in LISTS.items():
        from_id, after = 0, 0
        while True:
            query = {"connection_id": ref, **dict.fromkeys(flags, "true"), "from_id": str(from_id), "per_page": "1000"}
            page = rules.bookings(encode(remote._transactions(query)), name, after)
            found += [(facts.provider_ref, facts.status, facts.amount_minor, facts.duplicated) for facts in page.facts]
            if page.next_id is None:
                break
            assert page.next_id > from_id
            from_id, after = page.next_id, page.last_id
    return found


@given(
    rows=st.lists(st.tuples(st.integers(-(10**13), 10**13), st.booleans(), st.booleans()), max_size=40),
    size=st.integers(2, 12),
    lists=st.sampled_from(["apart", "together"]),
    next_id=st.sampled_from(["next", "last"]),
    ids=st.sampled_from(["text", "number"]),
)
def test_each_booking_comes_once_and_to_the_cent(
    rows: list[tuple[int, bool, bool]], size: int, lists: Any, next_id: Any, ids: Any
) -> None:
    remote = SaltEdge()
    remote.rows, remote.shapes = size, Shapes(lists=lists, next_id=next_id, ids=ids)
    connection = remote.open_connection("1")
    expected = []
    for cents, is_pending, is_duplicate in rows:
        sign, whole = "-" if cents < 0 else "", abs(cents)
        status = "pending" if is_pending else "posted"
        ref = remote.book(
            connection, "7", f"{sign}{whole // 100}.{whole % 100:02d}", "2026-03-01", "x", status=status, duplicated=is_duplicate
        )  # fmt: skip
        expected.append((ref, status, cents, is_duplicate))
    assert sorted(read_all(remote, connection.id), key=repr) == sorted(expected, key=repr)


def test_a_list_that_is_not_in_order_is_refused() -> None:
    row = {"account_id": "7", "made_on": "2026-03-01", "amount": 1, "currency_code": "EUR"}
    content = encode({"data": [{**row, "id": str(number)} for number in (5, 9, 8)]})
    with pytest.raises(ProviderDown, match="order of ids"):
        rules.bookings(content, "posted", 0)
    # What is repeated from the page before is no disorder.
    assert [facts.provider_ref for facts in rules.bookings(content, "posted", 8).facts] == ["9"]
