"""Every setting: name, default, unit and reason. Read from KONTOBAHN_* variables, then from a TOML file, then the default.

The file is DATA/kontobahn.toml, or the one KONTOBAHN_CONFIG names. Adding a field to Settings is all it takes to add a setting.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kontobahn.errors import SetupError

PREFIX = "KONTOBAHN_"
_DEFAULT_DATA = "./data"
# Variables with this prefix that are not settings: where settings are read from, and the options of `kontobahn listen`.
_NOT_SETTINGS = (PREFIX + "CONFIG", PREFIX + "API_KEY", PREFIX + "URL")

Count = Annotated[int, Meta(ge=1)]


def _about(text: str) -> Meta:
    return Meta(description=text)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data: Annotated[str, _about("directory that holds the database, the key file and the demo's facts")] = _DEFAULT_DATA
    database_url: Annotated[
        str, _about("postgresql://… for PostgreSQL; empty for the embedded SQLite database in the data directory")
    ] = ""
    database_connections: Annotated[
        Count, _about("database connections a process may open; more than the cores of the database rarely helps")
    ] = 16
    database_prepare: Annotated[
        Literal["auto", "always", "never"],
        _about(
            "whether statements are prepared once for a connection to PostgreSQL; `auto`: unless a pooler such as PgBouncer lies between,"
            " where only newer ones can do it"
        ),
    ] = "auto"
    redis_url: Annotated[
        str, _about("redis://… for rate limits shared by several processes; empty for one process")
    ] = ""
    secret_key: Annotated[
        str, _about("base64 of 32 bytes that key the stored hashes and secrets; empty for DATA/secret.key (mode 0600)")
    ] = ""
    base_url: Annotated[str, _about("public address of the service, without a slash at the end")] = ""
    trusted_proxies: Annotated[
        str, _about("comma-separated networks whose X-Forwarded-For is believed, for example 10.0.0.0/8")
    ] = ""

    limit_api_requests: Annotated[Count, _about("requests in a window for a key (or an address) on /v2/")] = 200
    limit_api_window_seconds: Annotated[Count, _about("length of that window")] = 900
    limit_webhook_requests: Annotated[Count, _about("requests in a window for an address on /v2/banking/webhooks/")] = (
        60
    )
    limit_webhook_window_seconds: Annotated[Count, _about("length of that window")] = 60
    limit_page_requests: Annotated[Count, _about("pages in a window for a person (or an address) in the dashboard")] = (
        600
    )
    limit_page_window_seconds: Annotated[Count, _about("length of that window")] = 60
    limit_auth_requests: Annotated[Count, _about("requests in a window for an address on /v2/auth/")] = 30
    limit_auth_window_seconds: Annotated[Count, _about("length of that window")] = 900
    dropdown_free_calls_per_hour: Annotated[int, Meta(ge=0), _about("free dropdown calls for a key")] = 60

    prices: Annotated[
        dict[str, Annotated[int, Meta(ge=0)]],
        _about(
            'credits by endpoint where they differ from the contract, for example {"GET /v2/ledger-rewe-read/opos": 4}'
        ),
    ] = {}
    call_hold_seconds: Annotated[
        Count, _about("how long a reservation for a call lives when the process dies; longer than any call")
    ] = 300

    body_limit_bytes: Annotated[
        Count, _about("largest request body of any call; each has a limit of its own, which this can only lower")
    ] = 28 * 1024 * 1024
    body_memory_bytes: Annotated[
        Count, _about("memory for all request bodies of a process together; at most half of it for one organisation")
    ] = 128 * 1024 * 1024
    body_seconds: Annotated[Count, _about("time for a request body to arrive, in addition to what its size allows")] = (
        30
    )
    body_bytes_per_second: Annotated[
        Count, _about("a body may take one more second for each of this many bytes; slower clients are disconnected")
    ] = 16 * 1024
    # Choice 37: files by setting.
    upload_limit_bytes: Annotated[Count, _about("largest file that a call takes")] = 200 * 1024 * 1024
    upload_task_bytes: Annotated[
        Annotated[int, Meta(ge=0)],
        _about(
            "a larger file is answered with 202 and imported afterwards; smaller ones are imported before the answer"
        ),
    ] = 4 * 1024 * 1024
    connections: Annotated[
        Count,
        _about("connections a process accepts; when most are in use, those without a request are closed, oldest first"),
    ] = 4096
    connections_per_address: Annotated[
        Count,
        _about("simultaneous connections and requests from one address (IPv6: /64), except trusted proxies"),
    ] = 256
    header_seconds: Annotated[Count, _about("time for the header of a request to arrive")] = 30
    idle_seconds: Annotated[Count, _about("an idle connection is closed after this long")] = 75
    idempotency_hours: Annotated[Count, _about("how long an idempotency key is remembered")] = 24
    idempotency_money_days: Annotated[Count, _about("the same for payments and invoices")] = 30
    session_hours: Annotated[Count, _about("how long a sign-in lasts")] = 12
    invitation_days: Annotated[Count, _about("how long an invitation is valid")] = 7
    password_reset_hours: Annotated[Count, _about("how long a link that sets a new password is valid")] = 24
    shutdown_grace_seconds: Annotated[Count, _about("how long running calls may take to finish at shutdown")] = 30

    datev_client_id: Annotated[
        str, _about("id of the application at DATEV; with it DATEV's online services can be connected (docs/datev.md)")
    ] = ""
    datev_client_secret: Annotated[str, _about("the secret that belongs to it")] = ""
    datev_sandbox: Annotated[bool, _about("use DATEV's sandbox, where people may come back to http://localhost")] = (
        False
    )
    datev_discovery: Annotated[
        str, _about("address of the document that names the addresses of DATEV's sign-in; empty for those built in")
    ] = ""
    datev_urls: Annotated[
        dict[str, str],
        _about(
            "addresses of DATEV that differ from those built in: sign_in, token, revoke, certs, issuer, clients, exchange, documents,"
            ' for example {"clients": "https://accounting-clients.api.datev.de/platform/v2"}'
        ),
    ] = {}
    datev_scopes: Annotated[
        str,
        _about(
            "what a person is asked to grant at the sign-in; to write, add accounting:clients:read and accounting:dxso-jobs (cash book),"
            " accounting:documents (receipts), datev:accounting:extf-files-import (files)"
        ),
    ] = "openid profile datev:accounting:clients datev:accounting:exchange"
    datev_allow: Annotated[
        str,
        _about(
            "hosts of DATEV's services that may be at private addresses and without TLS, for development: host:port, separated by commas"
        ),
    ] = ""
    connect_provider: Annotated[
        str,
        _about(
            "providers of bank connections, separated by commas; with several, a person chooses among the banks of all; empty for"
            " all that are set up; `files` for none, with statements from files only; `sandbox` switches the sandbox bank on, which"
            " is off otherwise, but for the demo"
        ),
    ] = ""
    fints_product_id: Annotated[
        str, _about("product id from the registration of FinTS products; needed for the provider `fints`")
    ] = ""
    fints_banks: Annotated[
        str,
        _about("file with the list of FinTS banks and their addresses; without it a person types the bank's address"),
    ] = ""
    ebics: Annotated[
        bool,
        _about("offer EBICS, the company's own line to its bank: statements unattended, by a user that cannot pay"),
    ] = False
    salt_edge_app_id: Annotated[str, _about("App-id from Salt Edge; needed for the provider `salt_edge`")] = ""
    salt_edge_secret: Annotated[str, _about("the Secret that belongs to it")] = ""
    salt_edge_private_key: Annotated[
        str, _about("file with the RSA key (PEM) that signs requests; an app in test mode may go without")
    ] = ""
    salt_edge_callback_key: Annotated[
        str, _about("file with Salt Edge's public key (PEM) that callbacks are checked with; it may contain several")
    ] = ""
    salt_edge_url: Annotated[str, _about("address of Salt Edge's API")] = "https://www.saltedge.com/api/v6"
    salt_edge_sandboxes: Annotated[bool, _about("offer Salt Edge's test banks as well")] = False
    enable_banking_app_id: Annotated[
        str, _about("id of the application at Enable Banking; needed for the provider `enable_banking`")
    ] = ""
    enable_banking_key: Annotated[str, _about("file with the application's private RSA key, in PEM")] = ""
    enable_banking_url: Annotated[str, _about("where Enable Banking is reached")] = "https://api.enablebanking.com"
    enable_banking_countries: Annotated[
        str, _about("countries whose banks it offers, separated by commas, for example DE,AT; empty for all")
    ] = ""
    enable_banking_webhooks: Annotated[
        bool,
        _about("have it report payments by webhook; the origin of base_url must be allowed for the application first"),
    ] = False
    enable_banking_webhook_key: Annotated[
        str,
        _about("file with the key or certificate that its webhooks are checked with; otherwise fetched where they say"),
    ] = ""
    bank_allow: Annotated[
        str,
        _about(
            "banks that may be at private addresses and without TLS, for development: host:port, separated by commas"
        ),
    ] = ""
    order_file_days: Annotated[
        Count,
        _about("how long an order file may be fetched after its day of execution; an order not fetched then fails"),
    ] = 30
    sandbox_url: Annotated[
        str,
        _about(
            "where the sandbox bank reaches this service with its webhooks, if not at base_url: http://127.0.0.1:8080"
        ),
    ] = ""

    webhook_allow: Annotated[
        str,
        _about(
            "receivers of events that may be private and without TLS, for development: host:port, separated by commas,"
            " for example localhost:3000"
        ),
    ] = ""
    # Choice 29: 2xx within 15 seconds is success; five days of failure pause the URL.
    webhook_timeout_seconds: Annotated[Count, _about("how long a receiver of events may take to answer")] = 15
    webhook_pause_days: Annotated[Count, _about("days of failure after which a webhook URL is paused")] = 5
    webhook_secret_overlap_hours: Annotated[
        Count, _about("how long the old signing secret signs too after a new one was made")
    ] = 24
    webhook_log_days: Annotated[Count, _about("how long events are kept")] = 30
    request_log_days: Annotated[Count, _about("how long calls are listed on the page Requests")] = 30
    request_log_rows: Annotated[Count, _about("how many calls are listed there for an organisation, the latest")] = (
        20_000
    )
    webhook_concurrency: Annotated[
        Annotated[int, Meta(ge=4)],
        _about("deliveries a process may have under way; a quarter of them is for receivers that fail or are slow"),
    ] = 256
    webhook_concurrency_per_organization: Annotated[Count, _about("the same for one receiver of an organisation")] = 8

    smtp_url: Annotated[
        str,
        _about(
            "mail server, as smtp://user:password@host:587 (with STARTTLS) or smtps://user:password@host; without it no mail is sent,"
            " and links are handed over by people"
        ),
    ] = ""
    mail_from: Annotated[str, _about("address that mail comes from, for example kontobahn@muster.example")] = ""

    payables_folder: Annotated[
        str,
        _about(
            "directory that received invoices are taken from: from the folder named after an organisation's id, and from itself if there"
            " is one organisation only; empty for none"
        ),
    ] = ""
    invoice_rules_folder: Annotated[
        str,
        _about(
            "directory with newer sets of rules (*.toml) that received invoices are checked by, beside those of this version; read at"
            " the start; empty for none"
        ),
    ] = ""
    mailbox_allow: Annotated[
        str,
        _about(
            "mail servers that invoices may be read from at private addresses or other ports than 993, with TLS all the same:"
            " host:port, separated by commas"
        ),
    ] = ""

    oidc_issuer: Annotated[
        str,
        _about(
            "identity provider that people may sign in with (OpenID Connect): its issuer, exactly as it writes it, for example"
            " https://login.muster.example/realms/muster; empty for none"
        ),
    ] = ""
    oidc_client_id: Annotated[str, _about("id under which the provider knows this installation")] = ""
    oidc_client_secret: Annotated[str, _about("the secret that belongs to it; empty for a public client")] = ""
    oidc_client_secret_file: Annotated[str, _about("file with this secret, instead of the setting")] = ""
    oidc_scopes: Annotated[str, _about("scopes that the provider is asked for")] = "openid profile email"
    oidc_name: Annotated[str, _about("name of the provider on buttons: “Sign in with …”")] = "Single Sign-on"
    oidc_organization: Annotated[
        str, _about("id of the organisation whose people the provider may add, find by e-mail address and give roles")
    ] = ""
    oidc_new_people: Annotated[
        bool, _about("whoever the provider lets in becomes a person of that organisation; otherwise by invitation only")
    ] = False
    oidc_link_by_email: Annotated[
        bool,
        _about(
            "link an account at the provider to the person of that organisation with the same verified e-mail address; whoever can"
            " set addresses at the provider can then sign in as anybody of it"
        ),
    ] = False
    oidc_role_claim: Annotated[
        str, _about("claim that roles follow from, for example groups; a dot leads into an object: realm_access.roles")
    ] = ""
    oidc_roles: Annotated[
        dict[str, Literal["read_only", "bookkeeping", "member", "admin"]],
        _about(
            'role by value of that claim, for example {"accounting": "bookkeeping", "it": "admin"}; the highest counts'
        ),
    ] = {}
    oidc_factor_amr: Annotated[
        str, _about("values of the claim amr that count as a second factor, separated by commas, for example mfa")
    ] = ""
    oidc_factor_acr: Annotated[str, _about("the same for the claim acr; the provider is asked for these levels")] = ""
    oidc_sign_out: Annotated[bool, _about("whoever signs out here is led to sign out at the provider as well")] = True
    oidc_allow: Annotated[
        str,
        _about(
            "hosts of the provider that may be at private addresses and without TLS: host:port, separated by commas"
        ),
    ] = ""

    mcp: Annotated[
        bool, _about("answer assistants at /mcp (Model Context Protocol); needs the package mcp: kontobahn[mcp]")
    ] = False
    run_jobs: Annotated[
        bool, _about("run scheduled jobs inside the serving processes; otherwise run `kontobahn jobs`")
    ] = True
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _about("lowest level that is logged")] = "info"
    log_format: Annotated[
        Literal["auto", "text", "json"],
        _about("`json`, or `text` for people; `auto` is text at a terminal and JSON otherwise"),
    ] = "auto"
    log_requests: Annotated[
        Literal["auto", "all", "failed", "none"],
        _about("which calls get a line in the log (`auto`: all in text, failed in JSON); metrics count all of them"),
    ] = "auto"

    @property
    def data_dir(self) -> Path:
        return Path(self.data).expanduser().resolve()

    @property
    def on_postgres(self) -> bool:
        return self.database_url.startswith(("postgresql://", "postgres://"))

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "kontobahn.sqlite3"


NAMES = tuple(Settings.__struct_fields__)


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Returns the settings in force. Raises SetupError, with one sentence, if one cannot be understood."""
    environ = os.environ if environ is None else environ
    from_env = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in environ.items()
        if name.startswith(PREFIX) and name not in _NOT_SETTINGS and value != ""
    }
    data = overrides.get("data") or from_env.get("data") or _DEFAULT_DATA
    config = environ.get(PREFIX + "CONFIG")
    path = Path(config) if config else Path(data).expanduser() / "kontobahn.toml"
    values: dict[str, Any] = _read_file(path, required=bool(config))
    _refuse_unknown(values, f"{path}: there is no setting “{{name}}”.")
    _refuse_unknown(from_env, f"There is no setting {PREFIX}{{NAME}}.")
    values.update(from_env)
    values.update({name: value for name, value in overrides.items() if value is not None})
    for name in ("prices", "oidc_roles", "datev_urls"):
        if isinstance(values.get(name), str):
            try:
                values[name] = msgspec.json.decode(values[name])
            except msgspec.DecodeError as error:
                raise SetupError(f"{PREFIX}{name.upper()} must be a JSON object: {error}.") from None
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SetupError(f"A setting cannot be used: {error}.") from None
    if settings.database_url and not settings.on_postgres:
        raise SetupError("The setting database_url must start with postgresql:// (leave it empty for SQLite).")
    _need_extra("psycopg", "postgres", settings.database_url, "database_url")
    _need_extra("redis", "redis", settings.redis_url, "redis_url")
    return settings


def _need_extra(module: str, extra: str, value: str, setting: str) -> None:
    """Raises SetupError if a setting is in use whose library was not installed with the package."""
    if value and importlib.util.find_spec(module) is None:
        raise SetupError(
            f"The setting {setting} needs a library that is not installed: pip install 'kontobahn[{extra}]'."
        )


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if required:
            raise SetupError(f"The configuration file {path} does not exist.") from None
        return {}
    except NotADirectoryError:
        raise SetupError(f"The data directory {path.parent} is a file.") from None
    except OSError as error:
        raise SetupError(f"The configuration file {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SetupError(f"The configuration file {path} cannot be read: {error}.") from None


def _refuse_unknown(values: Mapping[str, Any], sentence: str) -> None:
    for name in values:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SetupError(sentence.format(name=name, NAME=name.upper()) + hint)


def describe() -> list[tuple[str, Any, str]]:
    """Returns name, default and reason of every setting, for the documentation."""
    rows = []
    for field in msgspec.structs.fields(Settings):
        metas = getattr(field.type, "__metadata__", ())
        reason = next((meta.description for meta in metas if meta.description), "")
        rows.append((field.name, field.default if field.default is not msgspec.NODEFAULT else {}, reason))
    return rows
