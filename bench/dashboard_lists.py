"""Measures what a list page of the dashboard costs beside the call that answers the same, with a million transactions in one bank
account, a million bookings in the books, 20,000 payments and 10,000 statements of one organisation, as somebody who is signed in and
as a key, in turn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

from bench import books_data, measure, report
from bench.measure import Row
from bench.transactions import bookings
from kontobahn import ids
from kontobahn.access import audit, sessions, users
from kontobahn.banking.connections import accounts, sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.imports.store import IMPORTS, ImportResult, ImportRow
from kontobahn.banking.payments.store import PAYMENTS, PaymentRow
from kontobahn.banking.provider import AccountFacts, BankConnectionFacts, PaymentStatus
from kontobahn.banking.transactions.ingest import TransactionIngest
from kontobahn.banking.transactions.recognition import Delivery
from kontobahn.banking.transactions.wire import reported
from kontobahn.clock import SystemClock
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.db import Tx, open_database
from kontobahn.json_text import encode
from kontobahn.settings import load
from kontobahn.vault import Vault, open_vault

LIMITS = {"KONTOBAHN_LIMIT_API_REQUESTS": "1000000000", "KONTOBAHN_LOG_LEVEL": "error"}
MAX_TIMES = 3
# Ten years of a busy company: some eight payments a working day, and four accounts with a statement each.
PAYMENTS_MADE, STATEMENTS_READ = 20_000, 10_000
MINUTE = 60_000_000
COOKIE = "kontobahn_session"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 of each, and few rounds")
    options = parser.parse_args()
    count, rounds = (20_000, 15) if options.quick else (1_000_000, 40)
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as place:
        print(measure.describe_machine(Path(place)), flush=True)
        rows = _measure(Path(place), count, rounds)
    return report.finish(rows)


def _measure(place: Path, count: int, rounds: int) -> list[Row]:
    started = time.perf_counter()
    installation = books_data.create_installation(place)
    books_data.post_into(installation, count, count * 8 // 1000)
    settings = load({}, data=str(place))
    db = open_database(settings, SystemClock())
    token, account_id = db.write_now(_person_and_account, open_vault(settings))
    db.write_now(_transactions, account_id, count)
    db.write_now(_payments, account_id, 500 if count < 1_000_000 else PAYMENTS_MADE)
    db.write_now(_statements, 500 if count < 1_000_000 else STATEMENTS_READ)
    db.close()
    print(f"made {count:,} bookings and transactions in {time.perf_counter() - started:,.0f} s", flush=True)
    with measure.Child("-m", "bench.peers.kontobahn_server", str(place), environ=LIMITS) as server:
        return [
            _beside(server, rounds, page, call, token, installation.key)
            for page, call in _pairs(account_id, installation.connection_id)
        ]


def _pairs(account_id: int, connection_id: str) -> list[tuple[str, str]]:
    """Each list page of the bank and the books, with the call that answers what it shows."""
    books = urllib.parse.urlencode({"connectionId": connection_id})
    start = books_data.START.isoformat()
    return [
        ("/accounts", "/v2/banking/accounts"),
        ("/transactions", f"/v2/banking/transactions?account_id={account_id}&sort=id&limit={PAGE_SIZE}"),
        ("/payments", f"/v2/banking/payments?limit={PAGE_SIZE}"),
        ("/connections", "/v2/banking/connections"),
        ("/statements", f"/v2/banking/imports?limit={PAGE_SIZE}"),
        (f"/open-items?year={start}", f"/v2/ledger-rewe-read/faelligkeiten?{books}"),
        (f"/trial-balance?year={start}", f"/v2/ledger-rewe-read/susa?{books}&geschaeftsjahrStartDatum={start}"),
        (
            f"/trial-balance/12000000?year={start}",
            f"/v2/ledger-rewe-read/buchungen?{books}&geschaeftsjahrStartDatum={start}&limit={PAGE_SIZE}",
        ),
        ("/partners", f"/v2/ledger-rewe-read/konten?{books}&geschaeftsjahrStartDatum={start}"),
        ("/batches", f"/v2/ledger-rewe/imports?{books}&limit={PAGE_SIZE}"),
    ]


def _beside(server: measure.Child, rounds: int, page: str, call: str, token: str, key: str) -> Row:
    def seconds(path: str, headers: dict[str, str]) -> float:
        started = time.perf_counter()
        status, _, body = measure.ask_once(server.port, path, headers)
        taken = time.perf_counter() - started
        if status != 200:
            raise AssertionError(f"{path}: {status} {body[:500]!r}")
        return taken

    ours, beside = measure.interleave(
        rounds,
        lambda: seconds(f"/dashboard{page}", {"cookie": f"{COOKIE}={token}", "accept-language": "de"}),
        lambda: seconds(call, {"x-api-key": key}),
    )
    name = page.partition("?")[0]
    return measure.at_most(
        f"{name}, beside {call.partition('?')[0]}", measure.spread([item * 1000 for item in ours], " ms", 1),
        measure.spread([item * 1000 for item in beside], " ms", 1), measure.median_ratio(ours, beside), MAX_TIMES,
    )  # fmt: skip


def _person_and_account(tx: Tx, vault: Vault) -> tuple[str, int]:
    """Somebody who is signed in, and a bank account, in the organisation that has the books."""
    [(owner,)] = tx.all("SELECT id FROM organizations")
    user = users.create(
        tx, owner, email="bench@muster.example", name="Bench", role="owner",
        password_hash=users.hash_password("benchmark only"), actor=audit.SYSTEM,
    )  # fmt: skip
    session = sessions.create(tx, vault, user, hours=12, actor=audit.SYSTEM, in_browser=True)
    bank = BankConnectionFacts(
        "bank", "musterbank", "Musterbank", "DE", "", (), tx.now * 2, tx.now, automatic_refresh=False
    )
    row = connections.create(tx, owner, provider="files", api="partner", owner_user_id=None, facts=bank)
    facts = AccountFacts("giro", "Girokonto", "checking", 0, "EUR", "DE89370400440532013000", "Muster GmbH")
    [account] = sources.open_some(tx, owner, row.id, [facts])
    return session.secret, account.id


def _transactions(tx: Tx, account_id: int, count: int) -> None:
    account = accounts.ACCOUNTS.one(tx, "id = ?", account_id)
    assert account is not None
    ingest = TransactionIngest(tx, account, Delivery(source=account.connection_id))
    ingest.add(map(reported, bookings(count)))
    ingest.finish()


def _payments(tx: Tx, account_id: int, count: int) -> None:
    """Mostly settled, as they are after years; the latest wait for the payer, are on their way or failed."""
    account = accounts.ACCOUNTS.one(tx, "id = ?", account_id)
    assert account is not None
    for number in range(1, count + 1):
        made_at = tx.now - (count - number) * 250 * MINUTE
        state: PaymentStatus = "settled" if number < count - 40 else ("authorizing", "processing", "failed")[number % 3]
        PAYMENTS.insert(tx, PaymentRow(
            organization_id=account.organization_id, id=number, provider="files", provider_ref=f"bench-{number}",
            connection_id=account.connection_id, account_id=account.id, provider_code="musterbank", provider_name="Musterbank",
            status=state, raw_provider_status=None, error_class=None, error_message=None, template_identifier="SEPA",
            amount_minor=(number * 7919) % 500_000 + 1, currency_code="EUR", creditor_name=f"Lieferant {number % 311} GmbH",
            creditor_iban="DE02120300000000202051", debtor_iban=account.iban or "", end_to_end_id=f"KB{number:016d}",
            description=f"Rechnung RE-{number:06d}, vielen Dank", reference=None, order_details="{}", custom_fields=None,
            customer_ip_address="127.0.0.1", payment_url=None, expires_at=None, payer_organization_id=account.organization_id,
            hold_id=None, debit_settles=1, idempotency_key=None, idempotency_fingerprint=None, next_poll_at=None, polls=0,
            order_taken_at=None, order_file_id=None, first_key_id=None, created_at=made_at, updated_at=made_at,
        ))  # fmt: skip


def _statements(tx: Tx, count: int) -> None:
    [(owner,)] = tx.all("SELECT id FROM organizations")
    for number in range(count):
        result = ImportResult(accounts=1, statements=1, added=number % 60)
        IMPORTS.insert(tx, ImportRow(
            organization_id=owner, id=ids.new_id(), source=f"camt.053 Nr. {number}.xml", sha256=f"{number:064x}",
            actor=audit.COMMAND_LINE.name, status="done", error=None, report=encode(result).decode(),
            created_at=tx.now - (count - number) * 360 * MINUTE,
        ))  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
