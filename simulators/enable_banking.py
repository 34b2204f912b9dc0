"""Enable Banking on loopback, made from its published description: sessions, accounts, transactions, payments and webhooks.

It checks the token and every field of what it is sent; whatever is wrong is kept in `faults`. A test changes the attributes while it
runs, says in `breaks` what goes wrong with the next answers, and acts for the person. Where the description leaves a shape open it
has a switch.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

from simulators.enable_banking_data import Account, bank
from simulators.enable_banking_server import How, server_for
from simulators.enable_banking_wire import (
    AUTH,
    BENEFICIARY,
    NAMED,
    PAYMENT,
    PSU_HEADERS,
    REQUEST,
    TRANSACTIONS_QUERY,
    TRANSFER,
    Refuse,
    Shape,
    check_bearer,
    key_pair,
    misshapen,
    public_pem,
    webhook_token,
)


class EnableBanking:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.application_id = "cf589be3-3755-465b-a8df-a90a16a31403"
        # The key that the application was registered with, and the one that webhooks are signed with.
        self.key, self.webhook_key = key_pair("application"), key_pair("webhooks")
        self.active, self.services = True, ["AIS", "PIS"]
        self.redirect_urls: list[str] = []
        self.banks = [bank(), bank("Sparkasse Köln/Bonn"), bank("Banque d’Exemple", "FR", payments=None)]
        self.accounts: list[Account] = []
        self.page_size = 100
        # The days that the bank goes back when it is asked from a day on.
        self.max_days = 730
        self.readings_per_day: int | None = None
        self.breaks: list[tuple[str, How]] = []
        self.go_on = threading.Event()
        # Left open by the description.
        self.signs_amounts = self.leaves_out_nulls = self.nests_webhooks = self.repeats_pages = False
        self.faults: list[str] = []
        self.asked: list[tuple[str, str]] = []
        # Reads of accounts, and what was said about the person who waits for them.
        self.people: list[tuple[str, dict[str, str]]] = []
        self._person: dict[str, str] = {}
        # Secrets that were used: tokens of requests and webhooks, and codes that people came back with.
        self.tokens: set[str] = set()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.payments: dict[str, dict[str, Any]] = {}
        self._flows: dict[str, dict[str, Any]] = {}
        self._readings: dict[tuple[str, str], int] = {}
        self._rest_until = 0.0
        self._lock = threading.RLock()
        self.address = ""

    # --- What people do

    def sign_in(self, url: str) -> str:
        """The person signs in and agrees. Returns where the browser goes then."""
        flow = self._flows[_only(url, "authorization_id")]
        flow["code"] = str(uuid.uuid4())
        self.tokens.add(flow["code"])
        return f"{flow['redirect_url']}?{urlencode({'state': flow['state'], 'code': flow['code']})}"

    def refuse(self, url: str, error: str = "access_denied") -> str:
        flow = self._flows[_only(url, "authorization_id")]
        return f"{flow['redirect_url']}?{urlencode({'state': flow['state'], 'error': error})}"

    def pay(self, url: str, status: str = "ACSC", reason: tuple[str, str] | None = None) -> str:
        """The payer confirms, or not. Returns where the browser goes then."""
        payment = self.payments[_only(url, "payment_id")]
        payment["status"] = status
        if reason is not None:
            code, text = reason
            payment["reason"] = {"status_reason_code": code, "status_reason_description": text}
        return f"{payment['asked']['redirect_url']}?{urlencode({'state': payment['asked']['state']})}"

    def end_session(self, status: str = "EXPIRED") -> None:
        for session in self.sessions.values():
            session["status"] = status

    def deliver(
        self,
        payment_id: str,
        *,
        body: bytes | None = None,
        key_url: str = "",
        claims: dict[str, Any] | None = None,
        **head: Any,
    ) -> int:
        """Sends the webhook of a payment, with further claims in its token. Returns the status of the answer."""
        payment = self.payments[payment_id]
        news = {"payment_id": payment_id, "status": payment["status"], **self._reason(payment)}
        content = json.dumps({"payment": news} if self.nests_webhooks else news).encode()
        head = {"typ": "JWT", "alg": "RS256", "x5u": key_url or f"{self.address}/keys/webhooks.pem", **head}
        token = webhook_token(self.webhook_key, head, self.application_id, content, claims or {})
        self.tokens.add(token)
        request = Request(
            payment["asked"]["webhook_url"], data=content if body is None else body, method="POST",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )  # fmt: skip
        try:
            with urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except OSError as error:
            return int(getattr(error, "code", 0))

    # --- Requests

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Any:
        """Returns what is answered with 200. Raises Refuse for anything else."""
        parts = urlsplit(target)
        path = [part for part in parts.path.split("/") if part]
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        self.asked.append((method, parts.path))
        if self.now() < self._rest_until:
            self.faults.append(f"{method} {parts.path} while it wanted a rest")
        wrong = check_bearer(
            headers.get("authorization", ""), self.key.public_key(), self.application_id, int(self.now())
        )
        if wrong:
            raise Refuse(401, "UNAUTHORIZED_ACCESS", f"Unauthorized access: {wrong}")
        self._person = {name: value for name, value in headers.items() if name.startswith("psu-")}
        if self._person and path[:1] != ["accounts"]:
            self.faults.append(f"{method} {parts.path} takes no PSU headers")
        given = json.loads(body) if body else {}
        match (method, *path):
            case ("GET", "application"):
                return self._application()
            case ("GET", "aspsps"):
                self._check(
                    "aspsps", query, (frozenset(), frozenset({"country", "psu_type", "service", "payment_type"}))
                )
                return {"aspsps": [one for one in self.banks if query.get("country") in (None, one["country"])]}
            case ("POST", "auth"):
                return self._start(given)
            case ("POST", "sessions"):
                return self._new_session(given)
            case ("GET" | "DELETE", "sessions", session_id):
                return self._session(method, session_id)
            case ("GET", "accounts", uid, ("details" | "balances" | "transactions") as what):
                return self._read(uid, what, query)
            case ("POST", "payments"):
                return self._new_payment(given)
            case ("GET", "payments", payment_id):
                return self._payment(payment_id)
        self.faults.append(f"{method} {parts.path} does not exist")
        raise Refuse(404, None, "Not Found")

    def _check(self, what: str, given: dict[str, Any], shape: Shape) -> None:
        wrong = misshapen(what, given, shape)
        if wrong:
            self.faults += wrong
            raise Refuse(422, "WRONG_REQUEST_PARAMETERS", "Wrong request parameters provided")

    def _application(self) -> dict[str, Any]:
        return {
            "name": "Kontobahn", "description": None, "kid": self.application_id, "environment": "SANDBOX",
            "redirect_urls": self.redirect_urls, "active": self.active, "countries": ["DE", "FR"],
            "services": self.services,
        }  # fmt: skip

    def _bank(self, named: dict[str, Any]) -> dict[str, Any]:
        found = [
            one for one in self.banks if (one["name"], one["country"]) == (named.get("name"), named.get("country"))
        ]
        if not found or named.keys() != {"name", "country"}:
            raise Refuse(400, "WRONG_ASPSP_PROVIDED", "Wrong ASPSP name provided")
        return found[0]

    def _check_redirect(self, given: dict[str, Any]) -> None:
        if self.redirect_urls and given["redirect_url"] not in self.redirect_urls:
            raise Refuse(400, "REDIRECT_URI_NOT_ALLOWED", "Redirect URI not allowed")

    def _start(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check("auth", given, AUTH)
        chosen = self._bank(given["aspsp"])
        self._check_redirect(given)
        until = datetime.fromisoformat(given["access"]["valid_until"])
        latest = self.now() + chosen["maximum_consent_validity"]
        if until.tzinfo is None or not self.now() < until.timestamp() <= latest:
            self.faults.append(f"auth: valid until {until}")
            raise Refuse(422, "WRONG_REQUEST_PARAMETERS", "Wrong request parameters provided")
        if given.get("psu_type") not in chosen["psu_types"]:
            raise Refuse(422, "WRONG_REQUEST_PARAMETERS", "Wrong request parameters provided")
        name = str(uuid.uuid4())
        self._flows[name] = {**given, "code": None}
        url = f"{self.address}/welcome?authorization_id={name}"
        return {"url": url, "authorization_id": name, "psu_id_hash": "h"}

    def _new_session(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check("sessions", given, (frozenset({"code"}), frozenset()))
        flow = next((one for one in self._flows.values() if one["code"] == given["code"]), None)
        if flow is None:
            raise Refuse(400, "WRONG_AUTHORIZATION_CODE", "Wrong authorization code provided")
        if flow.get("session_id"):
            raise Refuse(400, "ALREADY_AUTHORIZED", "Session is already authorized")
        flow["session_id"] = session_id = str(uuid.uuid4())
        uids = {str(uuid.uuid4()): account for account in self.accounts if not account.is_blocked}
        self.sessions[session_id] = {"status": "AUTHORIZED", "flow": flow, "uids": uids}
        listed = [self._resource(account, uid) for uid, account in uids.items()]
        listed += [self._resource(account, None) for account in self.accounts if account.is_blocked]
        return {
            "session_id": session_id, "accounts": listed, "aspsp": flow["aspsp"], "psu_type": flow["psu_type"],
            "access": flow["access"],
        }  # fmt: skip

    def _resource(self, account: Account, uid: str | None) -> dict[str, Any]:
        known_by: dict[str, Any] = {"iban": account.iban, "other": None}
        if account.number:
            known_by = {"iban": None, "other": {"identification": account.number, "scheme_name": "BBAN"}}
        return {
            "uid": uid, "account_id": known_by, "name": account.owner, "details": account.details,
            "cash_account_type": account.kind, "currency": account.currency, "identification_hash": account.hash,
            "identification_hashes": [account.hash], "usage": "ORGA", "product": None,
        }  # fmt: skip

    def _session(self, method: str, session_id: str) -> dict[str, Any]:
        session = self.sessions.get(session_id)
        if session is None:
            raise Refuse(404, "SESSION_DOES_NOT_EXIST", "No session found matching provided id")
        if method == "DELETE":
            if session["status"] == "CLOSED":
                raise Refuse(401, "CLOSED_SESSION", "Session is closed")
            session["status"] = "CLOSED"
            return {"message": "OK"}
        flow = session["flow"]
        return {
            "status": session["status"], "accounts": list(session["uids"]), "aspsp": flow["aspsp"],
            "accounts_data": [{"uid": uid, "identification_hash": account.hash, "identification_hashes": [account.hash]}
                              for uid, account in session["uids"].items()],
            "psu_type": flow["psu_type"], "psu_id_hash": "h", "access": flow["access"],
            "created": datetime.fromtimestamp(self.now(), UTC).isoformat(),
        }  # fmt: skip

    # --- Reading

    def _read(self, uid: str, what: str, query: dict[str, str]) -> dict[str, Any]:
        session = next((one for one in self.sessions.values() if uid in one["uids"]), None)
        if session is None:
            raise Refuse(404, "ACCOUNT_DOES_NOT_EXIST", "No account found matching provided id")
        if session["status"] != "AUTHORIZED":
            raise Refuse(401, f"{session['status']}_SESSION", f"Session is {session['status'].lower()}")
        self._check_person(uid, what, self._bank(session["flow"]["aspsp"]))
        account: Account = session["uids"][uid]
        if not account.is_readable:
            raise Refuse(400, "ASPSP_ACCOUNT_NOT_ACCESSIBLE", "The PSU does not have access to the requested account")
        # Only readings that nobody waits for are counted.
        if "continuation_key" not in query and not self._person:
            self._count(uid, what)
        if what == "details":
            return self._resource(account, uid)
        if what == "balances":
            return {"balances": [
                {"name": kind, "balance_amount": {"currency": account.currency, "amount": amount}, "balance_type": kind,
                 "reference_date": None}
                for kind, amount in account.balances
            ]}  # fmt: skip
        return self._transactions(uid, account, query)

    def _check_person(self, uid: str, what: str, bank: dict[str, Any]) -> None:
        """All headers that the bank requires, or none."""
        self.people.append((what, self._person))
        if not self._person:
            return
        missing = {name.lower() for name in bank["required_psu_headers"]} - self._person.keys()
        unknown = self._person.keys() - PSU_HEADERS
        if missing or unknown or not all(value.isascii() and value.isprintable() for value in self._person.values()):
            self.faults.append(f"PSU headers {self._person} for {what}")
            raise Refuse(400, "PSU_HEADER_NOT_PROVIDED", "Required PSU header is not provided")

    def _count(self, uid: str, what: str) -> None:
        key = (uid, what)
        self._readings[key] = self._readings.get(key, 0) + 1
        if self.readings_per_day is not None and self._readings[key] > self.readings_per_day:
            raise NAMED["bank-429"]

    def _transactions(self, uid: str, account: Account, query: dict[str, str]) -> dict[str, Any]:
        self._check("transactions", query, TRANSACTIONS_QUERY)
        today = datetime.fromtimestamp(self.now(), UTC).date()
        first = date.fromisoformat(query["date_from"]) if "date_from" in query else None
        if first is not None and first < today - timedelta(days=self.max_days):
            raise Refuse(422, "WRONG_TRANSACTIONS_PERIOD", "Wrong transactions period requested")
        found = [one for one in account.transactions if first is None or (one["value_date"] or "9") >= str(first)]
        start = 0
        if "continuation_key" in query:
            owner, asked_from, number = query["continuation_key"].split("|")
            if owner != uid or asked_from != query.get("date_from", ""):
                raise Refuse(422, "WRONG_CONTINUATION_KEY", "Wrong continuation key provided")
            start = int(number)
        end = start + self.page_size
        key = f"{uid}|{query.get('date_from', '')}|{end}" if end < len(found) else None
        # Pages may overlap, where a bank counts days and not bookings.
        page = found[max(0, start - (2 if self.repeats_pages else 0)) : end]
        return {"transactions": [self._shaped(one) for one in page], "continuation_key": key}

    def _shaped(self, one: dict[str, Any]) -> dict[str, Any]:
        if self.signs_amounts and one["credit_debit_indicator"] == "DBIT":
            amount = one["transaction_amount"]
            one = {**one, "transaction_amount": {**amount, "amount": f"-{amount['amount']}"}}
        return {name: value for name, value in one.items() if value is not None} if self.leaves_out_nulls else one

    # --- Paying

    def _new_payment(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check("payments", given, PAYMENT)
        if "PIS" not in self.services:
            raise Refuse(403, "ACCESS_DENIED", "Access to this resource is denied")
        request = given["payment_request"]
        self._check("payment_request", request, REQUEST)
        for transfer in request["credit_transfer_transaction"]:
            self._check("transfer", transfer, TRANSFER)
            self._check("beneficiary", transfer["beneficiary"], BENEFICIARY)
            self._check_requirements(given, transfer)
            if transfer["instructed_amount"].keys() != {"amount", "currency"}:
                self.faults.append(f"amount {transfer['instructed_amount']}")
        self._bank(given["aspsp"])
        self._check_redirect(given)
        payment_id = str(uuid.uuid4())
        self.payments[payment_id] = {"asked": given, "status": "RCVD"}
        url = f"{self.address}/pis/start?payment_id={payment_id}"
        return {"payment_id": payment_id, "status": "RCVD", "url": url, "psu_id_hash": "h"}

    def _check_requirements(self, given: dict[str, Any], transfer: dict[str, Any]) -> None:
        """Refuses what this kind of payment requires at the bank and the order lacks."""
        payee = transfer["beneficiary"]
        address = payee["creditor"].get("postal_address", {})
        has = {
            "creditor_country_required": bool(address.get("country")),
            "creditor_postal_address_required": bool(address.get("address_line") or address.get("town_name")),
            "creditor_agent_bic_fi_required": bool(payee.get("creditor_agent", {}).get("bic_fi")),
        }
        kinds = self._bank(given["aspsp"])["payments"]
        kind = next(one for one in kinds if one["payment_type"] == given["payment_type"])
        lines = transfer.get("remittance_information") or []
        forms = kind.get("remittance_information_lines") or []
        fits = all(
            form.get("min_length", 0) <= len(line) and re.search(form.get("pattern", ""), line)
            for line, form in zip(lines, forms, strict=False)
        )
        missing = [name for name, is_there in has.items() if kind.get(name) and not is_there]
        if missing or not fits:
            raise Refuse(422, "WRONG_REQUEST_PARAMETERS", f"The bank refuses the order: {missing or lines}")

    def _payment(self, payment_id: str) -> dict[str, Any]:
        payment = self.payments.get(payment_id)
        if payment is None:
            raise Refuse(404, "PAYMENT_NOT_FOUND", "Payment not found")
        asked = payment["asked"]
        return {
            "payment_id": payment_id, "status": payment["status"], "payment_details": asked["payment_request"],
            "payment_type": asked["payment_type"], "aspsp": asked["aspsp"], "psu_id_hash": "h",
            "final_status": payment.get("is_last", payment["status"] in ("ACCC", "RJCT", "CNCL")), **self._reason(payment),
        }  # fmt: skip

    def _reason(self, payment: dict[str, Any]) -> dict[str, Any]:
        return {"status_reason_information": payment["reason"]} if "reason" in payment else {}

    # --- The server

    def serve(self) -> str:
        """Starts it on loopback, and returns its address."""
        self._server = server_for(self)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self.address

    def stop(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()

    def broken(self, asked: str) -> How | None:
        """Returns what goes wrong with the answer to this path, once."""
        for place, (part, how) in enumerate(self.breaks):
            if part in asked:
                self.breaks.pop(place)
                return how
        return None

    def respond(
        self, method: str, target: str, headers: dict[str, str], body: bytes, how: How | None
    ) -> tuple[int, dict[str, str], bytes]:
        if target.startswith("/keys/"):
            return 200, {}, public_pem(self.webhook_key)
        if how == "502":
            return 502, {}, b"<html>Bad Gateway</html>"
        if how == "nonsense":
            return 200, {}, b'{"transactions": 7, "status": []'
        try:
            with self._lock:
                self.tokens.add(headers.get("authorization", "").removeprefix("Bearer "))
                if how == "echo":
                    raise Refuse(422, "WRONG_REQUEST_PARAMETERS", f"{headers} {body.decode()}")
                if how in NAMED:
                    self.asked.append((method, urlsplit(target).path))
                    raise NAMED[how]
                return 200, {}, json.dumps(self.answer(method, target, headers, body)).encode()
        except Refuse as error:
            more = {}
            if error.retry_after is not None:
                more["Retry-After"] = str(error.retry_after)
                if error.body["error"] is None:
                    self._rest_until = self.now() + error.retry_after
            return error.status, more, json.dumps(error.body).encode()


def _only(url: str, name: str) -> str:
    return parse_qs(urlsplit(url).query)[name][0]
