"""Salt Edge v6 on loopback, made from published descriptions: checks every field and signature, keeps state, misbehaves on command.

What is wrong with a request is answered as Salt Edge would, and kept in `faults`. Where the descriptions leave a shape open, `shapes`
chooses one. Callbacks wait in `outbox` until they are delivered: late, twice or in another order, as the caller likes.
"""

from __future__ import annotations

import base64
import bisect
import http.client
import itertools
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from simulators import salt_edge_fields as fields
from simulators.salt_edge_server import Break, Refusal, Server, Shapes, key, texts

__all__ = ["Break", "Callback", "Connection", "SaltEdge", "Shapes", "key"]

FIRST_ID = 1_351_736_641_760_270_000


@dataclass
class Connection:
    id: str
    customer_id: str
    provider_code: str
    status: str = "active"
    next_refresh_possible_at: str | None = None
    accounts: list[dict[str, Any]] = field(default_factory=list)
    # In the order of ids.
    transactions: list[dict[str, Any]] = field(default_factory=list)
    consents: list[dict[str, Any]] = field(default_factory=list)
    attempt: dict[str, Any] = field(default_factory=dict)
    custom_fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Callback:
    kind: str
    data: dict[str, Any]
    time: str | None


PROVIDERS = [
    {"code": "musterbank_de", "name": "Musterbank", "country_code": "DE", "mode": "oauth", "status": "active", "regulated": True,
     "logo_url": "https://logos.example/musterbank.svg", "max_consent_days": 180, "max_fetch_interval": 730,
     "identification_codes": ["99912030"], "bic_codes": ["MUSTDEFFXXX"], "payment_templates": ["SEPA", "SEPA_INSTANT"]},
    {"code": "beispiel_at", "name": "Beispielbank", "country_code": "AT", "mode": "web", "status": "active", "regulated": False,
     "logo_url": "https://logos.example/beispiel.svg", "max_consent_days": None, "max_fetch_interval": 90,
     "identification_codes": [], "bic_codes": [], "payment_templates": ["sepa_payment"]},
    {"code": "dateien_de", "name": "Dateibank", "country_code": "DE", "mode": "file", "status": "active", "regulated": False},
    {"code": "fakebank_simple_xf", "name": "Fake Bank", "country_code": "XF", "mode": "web", "status": "active", "regulated": False},
]  # fmt: skip


class SaltEdge(Server):
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self.providers = [dict(provider) for provider in PROVIDERS]
        self.customers: dict[str, str] = {}
        self.connections: dict[str, Connection] = {}
        self.payments: dict[str, dict[str, Any]] = {}
        self.flows: dict[str, dict[str, Any]] = {}
        # Connections that cannot be refreshed without their person, and what a refresh is refused with.
        self.interactive: set[str] = set()
        self.refuse: dict[str, tuple[int, str]] = {}
        # Rows of a page at most, whatever is asked for.
        self.rows = 1000
        self.outbox: list[Callback] = []
        # The address as it is configured, and where it really is.
        self.callback_url = self.deliver_to = ""
        self._ids = itertools.count(FIRST_ID, 7)
        self._events = itertools.count(1)

    # --- The calls

    def _route(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        data = None
        if body:
            sent = msgspec.json.decode(body)
            if not isinstance(sent, dict) or set(sent) != {"data"}:
                raise Refusal(400, "WrongRequestFormat", "data parameter must be filled")
            data = sent["data"]
        for pattern, handler in _ROUTES:
            match = re.fullmatch(pattern, f"{method} {path}")
            if match is not None:
                return handler(self, *match.groups(), query if method == "GET" else data)
        raise Refusal(404, "RouteNotFound", f"no route for {method} {path}")

    def _create_customer(self, data: Any) -> Any:
        _check(data, fields.CUSTOMER)
        identifier = data["identifier"]
        if identifier in self.customers:
            raise Refusal(409, "DuplicatedCustomer", f"customer with identifier {identifier} already exists")
        self.customers[identifier] = self.new_id()
        return {"data": self._customer(identifier)}

    def _customer(self, identifier: str) -> dict[str, Any]:
        return {self.shapes.customer: self._id(self.customers[identifier]), "identifier": identifier}

    def _customers(self, query: dict[str, str]) -> Any:
        _only(query, "identifier", "from_id")
        return _page([self._customer(name) for name in self.customers if query.get("identifier") in (None, name)])

    def _connect(self, data: Any) -> Any:
        _check(data, fields.CONNECT)
        code = data.get("provider", {}).get("code")
        if data["customer_id"] not in self.customers.values():
            raise Refusal(404, "CustomerNotFound", "there is no such customer")
        if code is not None:
            self._provider(code)
        return self._page_for({"customer_id": data["customer_id"], "code": code, **data["attempt"]})

    def _reconnect(self, ref: str, data: Any) -> Any:
        _check(data, fields.RECONNECT)
        connection = self._connection(ref)
        return self._page_for(
            {
                "customer_id": connection.customer_id,
                "connection_id": ref,
                "code": connection.provider_code,
                **data["attempt"],
            }
        )

    def _page_for(self, flow: dict[str, Any]) -> Any:
        token = secrets.token_hex(8)
        self.flows[token] = flow
        url = f"https://www.saltedge.example/connect?token={token}"
        return {
            "data": {"connect_url": url, "expires_at": self.text(self.now() + 3600), "customer_id": flow["customer_id"]}
        }

    def _refresh(self, ref: str, data: Any) -> Any:
        _check(data, fields.REFRESH)
        connection = self._connection(ref)
        if ref in self.refuse:
            status, error_class = self.refuse[ref]
            raise Refusal(status, error_class, f"refused with {error_class}")
        if ref in self.interactive:
            return self._page_for(
                {"customer_id": connection.customer_id, "connection_id": ref, "code": None, **data["attempt"]}
            )
        connection.attempt = {"id": self.new_id(), "finished": False}
        connection.custom_fields = data["attempt"].get("custom_fields", {})
        whole = self._shown(connection)
        return {"data": whole if self.shapes.refresh == "connection" else {"attempt": connection.attempt}}

    def _shown(self, connection: Connection) -> dict[str, Any]:
        provider = next(one for one in self.providers if one["code"] == connection.provider_code)
        return {
            "id": self._id(connection.id), "customer_id": self._id(connection.customer_id),
            "provider_code": provider["code"], "provider_name": provider["name"], "country_code": provider["country_code"],
            "status": connection.status, "automatic_refresh": False,
            "next_refresh_possible_at": connection.next_refresh_possible_at,
            "last_consent_id": connection.consents[-1]["id"] if connection.consents else None,
            "last_attempt": connection.attempt,
        }  # fmt: skip

    def _get_connection(self, ref: str, query: dict[str, str]) -> Any:
        _only(query)
        return {"data": self._shown(self._connection(ref))}

    def _delete_connection(self, ref: str, data: Any) -> Any:
        self._connection(ref)
        del self.connections[ref]
        return {"data": {"id": self._id(ref), "removed": True}}

    def _consents(self, query: dict[str, str]) -> Any:
        _only(query, "connection_id", "from_id")
        if self.shapes.consents == "not told":
            raise Refusal(404, "RouteNotFound", "no route for GET /consents")
        return _page(self._connection(query["connection_id"]).consents)

    def _accounts(self, query: dict[str, str]) -> Any:
        _only(query, "connection_id", "from_id", "per_page")
        accounts = self._connection(query["connection_id"]).accounts
        return self._rows([{**one, "id": self._id(one["id"])} for one in accounts], query)

    def _transactions(self, query: dict[str, str]) -> Any:
        _only(query, "connection_id", "pending", "duplicated", "from_id", "per_page", "from_date")
        if not 1 <= int(query.get("per_page", "100")) <= 1000:
            raise Refusal(400, "ValueOutOfRange", "per_page must be between 1 and 1000")
        rows = self._connection(query["connection_id"]).transactions
        if "from_date" in query and self.shapes.from_date == "refused":
            raise Refusal(406, "WrongRequestFormat", "from_date is not a parameter")
        since = query.get("from_date", "") if self.shapes.from_date == "honoured" else ""
        together = self.shapes.lists == "together"
        if query.get("pending") == "true":
            chosen = [row for row in rows if row["status"] == "pending" and (together or not row["duplicated"])]
        elif query.get("duplicated") == "true":
            chosen = [row for row in rows if row["duplicated"] and row["made_on"] >= since]
        elif together:
            chosen = [row for row in rows if row["made_on"] >= since]
        else:
            chosen = [r for r in rows if r["status"] == "posted" and not r["duplicated"] and r["made_on"] >= since]
        return self._rows(chosen, query)

    def _rows(self, rows: list[dict[str, Any]], query: dict[str, str]) -> Any:
        """A page of rows in the order of their ids, beginning with `from_id`."""
        first = bisect.bisect_left(rows, int(query.get("from_id", "0")), key=lambda row: int(row["id"]))
        count = min(int(query.get("per_page", "100")), self.rows)
        page, rest = rows[first : first + count], rows[first + count : first + count + 1]
        next_id = None
        if rest:
            next_id = self._id(str(rest[0]["id"] if self.shapes.next_id == "next" else page[-1]["id"]))
        if self.shapes.ids == "number":
            page = [{**row, "id": int(row["id"])} for row in page]
        return {"data": page, "meta": {"next_id": next_id, "next_page": None}}

    def _list_providers(self, query: dict[str, str]) -> Any:
        _only(
            query, "include_sandboxes", "include_ais_fields", "include_pis_fields", "exclude_inactive", "from_id", "per_page",
            "country_code",
        )  # fmt: skip
        listed = [
            one for one in self.providers if query.get("include_sandboxes") == "true" or one["country_code"] != "XF"
        ]
        numbered = [{"id": str(number), **one} for number, one in enumerate(listed, 1)]
        return self._rows(numbered, query)

    def _get_provider(self, code: str, query: dict[str, str]) -> Any:
        _only(query, "include_ais_fields", "include_pis_fields")
        return {"data": self._provider(code)}

    def _create_payment(self, data: Any) -> Any:
        _check(data, fields.PAYMENT, "InvalidPaymentAttributes")
        provider = self._provider(data["provider"]["code"])
        if data["template_identifier"] not in [name.upper() for name in provider.get("payment_templates", ())]:
            raise Refusal(400, "PaymentTemplateNotSupported", "the bank does not support this template")
        ref = self.new_id()
        self.payments[ref] = {
            "id": ref, "status": "requested", "customer_id": data["customer_id"], "payment_attributes": data["payment_attributes"],
            "custom_fields": data.get("attempt", {}).get("custom_fields", {}), "provider_code": provider["code"],
            "return_to": data.get("attempt", {}).get("return_to"),
            "payment_url": f"https://www.saltedge.example/pay?token={ref}", "expires_at": self.text(self.now() + 3600),
        }  # fmt: skip
        names = ("customer_id", "payment_url", "expires_at")
        return {"data": {"payment_id": self._id(ref), **{name: self.payments[ref][name] for name in names}}}

    def _payment(self, ref: str) -> dict[str, Any]:
        if ref not in self.payments:
            raise Refusal(404, "PaymentNotFound", "there is no such payment")
        payment = dict(self.payments[ref])
        if not self.shapes.payments_tell_page:
            del payment["payment_url"], payment["expires_at"]
        if self.shapes.custom_fields == "text":
            payment["custom_fields"] = texts(payment["custom_fields"]).decode()
        return payment

    def _list_payments(self, query: dict[str, str]) -> Any:
        _only(query, "customer_id", "from_id", "per_page")
        found = [self._payment(ref) for ref, one in self.payments.items() if one["customer_id"] == query["customer_id"]]
        return self._rows(found, query)

    def _get_payment(self, ref: str, query: dict[str, str]) -> Any:
        return {"data": self._payment(ref)}

    def _refresh_payment(self, ref: str, data: Any) -> Any:
        payment = self._payment(ref)
        if payment["status"] in ("settled", "failed"):
            raise Refusal(409, "PaymentAlreadyFinished", "the payment is finished")
        return {"data": payment if self.shapes.refreshed_payment == "whole" else {"payment_id": ref}}

    # --- What there is

    def new_id(self) -> str:
        return str(next(self._ids))

    def _id(self, ref: str) -> str | int:
        return int(ref) if self.shapes.ids == "number" else ref

    @staticmethod
    def text(at: float) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _connection(self, ref: str) -> Connection:
        if ref not in self.connections:
            raise Refusal(404, "ConnectionNotFound", "there is no such connection")
        return self.connections[ref]

    def _provider(self, code: str) -> dict[str, Any]:
        found = next((one for one in self.providers if one["code"] == code), None)
        if found is None:
            raise Refusal(404, "ProviderNotFound", f"there is no provider with code {code}")
        return found

    def open_connection(self, customer_id: str, provider_code: str = "musterbank_de") -> Connection:
        made = Connection(self.new_id(), customer_id, provider_code)
        self.connections[made.id] = made
        self.consent(made)
        return made

    def consent(self, connection: Connection, days: int = 180) -> None:
        connection.consents.append(
            {
                "id": self.new_id(),
                "status": "active",
                "expires_at": self.text(self.now() + days * 86400),
                "revoked_at": None,
            }
        )

    def add_account(self, connection: Connection, iban: str, balance: str | None = "1042.50", **more: Any) -> str:
        extra = {"iban": iban, "holder_name": "Muster GmbH"}
        made = {"id": self.new_id(), "connection_id": connection.id, "name": "Girokonto", "nature": "checking",
                "balance": None if balance is None else Decimal(balance), "currency_code": "EUR", "extra": extra, **more}  # fmt: skip
        connection.accounts.append(made)
        return str(made["id"])

    def book(self, connection: Connection, account: str, amount: str, made_on: str, text: str, **more: Any) -> str:
        made = {"id": self.new_id(), "account_id": account, "made_on": made_on, "amount": Decimal(amount), "currency_code": "EUR",
                "description": text, "status": "posted", "mode": "normal", "category": "uncategorized", "duplicated": False,
                "extra": {"payee": "Papier GmbH"}, **more}  # fmt: skip
        connection.transactions.append(made)
        return str(made["id"])

    # --- What people and banks do

    def finish(
        self, connect_url: str, code: str = "musterbank_de", error: str | None = None
    ) -> tuple[str, Connection | None]:
        """A person signs in, or fails to. Returns where the browser goes then, and the connection."""
        with self._lock:
            flow = self.flows.pop(urlsplit(connect_url).query.removeprefix("token="))
            ref = flow.get("connection_id")
            if ref is not None:
                connection = self.connections[ref]
                self.consent(connection)
            elif error == "Cancelled":
                return self._back(flow, error_class=error), None
            else:
                connection = self.open_connection(flow["customer_id"], flow["code"] or code)
            connection.custom_fields = flow.get("custom_fields", {})
            self.attempt(connection, error)
            told = {"error_class": error} if error else {}
            return self._back(flow, connection_id=connection.id, **told), connection

    @staticmethod
    def _back(flow: dict[str, Any], **told: str) -> str:
        return f"{flow['return_to']}&{urlencode(told)}"

    def attempt(self, connection: Connection, error: str | None = None) -> None:
        """An attempt to read the bank ends, which callbacks tell."""
        now = self.text(self.now())
        connection.attempt = {"id": self.new_id(), "finished": True, "success_at": None, "fail_at": None}
        if error is None:
            connection.attempt["success_at"] = now
            connection.status = "active"
            self.tell("notify", connection, stage="fetch_transactions")
            self.tell("success", connection, stage="finish")
        else:
            connection.attempt |= {"fail_at": now, "fail_error_class": error, "fail_message": f"The bank says {error}."}
            connection.status = "inactive" if "Credentials" in error or "Consent" in error else connection.status
            self.tell("fail", connection, error_class=error, error_message=f"The bank says {error}.")
        # They belong to the attempt.
        connection.custom_fields = {}

    def tell(self, kind: str, connection: Connection, **more: Any) -> None:
        custom: Any = connection.custom_fields
        if self.shapes.custom_fields == "text":
            custom = texts(custom).decode()
        data = {
            "connection_id": self._id(connection.id),
            "customer_id": connection.customer_id,
            "custom_fields": custom,
        }
        self._queue(kind, {**data, **more})

    def _queue(self, kind: str, data: dict[str, Any]) -> None:
        # Two events are never at the same instant, even if the clock stands still.
        at = f"{self.text(self.now())[:-1]}.{next(self._events):06d}Z" if self.shapes.callbacks_tell_time else None
        self.outbox.append(Callback(kind, data, at))

    def tell_of_provider(self, code: str) -> None:
        data = {"provider_code": code, "provider_status": self._provider(code)["status"]}
        self._queue("provider", data)

    def destroy(self, connection: Connection) -> None:
        self.connections.pop(connection.id, None)
        self.tell("destroy", connection)

    def pay(self, ref: str, status: str, raw: str | None = None, error: str | None = None) -> None:
        """The bank moves a payment on, which a callback tells."""
        payment = self.payments[ref]
        payment |= {"status": status, "raw_provider_status": raw}
        told = {"payment_id": self._id(ref), "customer_id": payment["customer_id"], "status": status, "raw_provider_status": raw,
                "custom_fields": payment["custom_fields"]}  # fmt: skip
        if error is not None:
            payment |= {"error_class": error, "error_message": f"The bank says {error}."}
            told |= {"error_class": error, "error_message": f"The bank says {error}."}
        kind = "payment-fail" if error else "payment-success" if status in ("executed", "settled") else "payment-notify"
        self._queue(kind, told)

    def deliver(
        self, *, times: int = 1, backwards: bool = False, signed_by: rsa.RSAPrivateKey | None = None
    ) -> list[int]:
        """Sends what waits in the outbox. Returns the statuses that were answered."""
        waiting, self.outbox = self.outbox, []
        if backwards:
            waiting.reverse()
        return [self.post(callback, signed_by) for callback in waiting for _ in range(times)]

    def post(self, callback: Callback, signed_by: rsa.RSAPrivateKey | None = None, url: str | None = None) -> int:
        body = texts(
            {"data": callback.data, "meta": {"version": "6", **({"time": callback.time} if callback.time else {})}}
        )
        signed = (url or f"{self.callback_url}/{callback.kind}").encode() + b"|" + body
        signature = base64.b64encode((signed_by or self.callback_key).sign(signed, PKCS1v15(), SHA256())).decode()
        self.signatures.add(signature)
        target = urlsplit(f"{self.deliver_to or self.callback_url}/{callback.kind}")
        sender = http.client.HTTPConnection(target.netloc, timeout=600)
        try:
            headers = {"Content-Type": "application/json", "Signature": signature, "Signature-key-version": "6.0"}
            sender.request("POST", target.path, body, headers)
            answer = sender.getresponse()
            answer.read()
            return answer.status
        finally:
            sender.close()


def _check(data: Any, rules: dict[str, Any], error_class: str = "WrongRequestFormat") -> None:
    found = fields.wrong(data, rules)
    if found is not None:
        raise Refusal(400, error_class, found)


def _only(query: dict[str, str], *names: str) -> None:
    for name in query:
        if name not in names:
            raise Refusal(400, "WrongRequestFormat", f"{name} is not a parameter")


def _page(rows: list[Any]) -> Any:
    return {"data": rows, "meta": {"next_id": None, "next_page": None}}


_ROUTES: list[tuple[str, Callable[..., Any]]] = [
    (r"POST /customers", SaltEdge._create_customer),
    (r"GET /customers", SaltEdge._customers),
    (r"POST /connections/connect", SaltEdge._connect),
    (r"POST /connections/([^/]+)/reconnect", SaltEdge._reconnect),
    (r"POST /connections/([^/]+)/refresh", SaltEdge._refresh),
    (r"GET /connections/([^/]+)", SaltEdge._get_connection),
    (r"DELETE /connections/([^/]+)", SaltEdge._delete_connection),
    (r"GET /consents", SaltEdge._consents),
    (r"GET /accounts", SaltEdge._accounts),
    (r"GET /transactions", SaltEdge._transactions),
    (r"GET /providers", SaltEdge._list_providers),
    (r"GET /providers/([^/]+)", SaltEdge._get_provider),
    (r"POST /payments/create", SaltEdge._create_payment),
    (r"GET /payments", SaltEdge._list_payments),
    (r"GET /payments/([^/]+)", SaltEdge._get_payment),
    (r"PUT /payments/([^/]+)/refresh", SaltEdge._refresh_payment),
]
