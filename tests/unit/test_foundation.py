"""Money, ids, time, the vault, the log and the settings."""

from __future__ import annotations

import io
import json
import os
import re
import uuid
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kontobahn import ids, log, money
from kontobahn.access import audit, organizations
from kontobahn.cli.common import installation
from kontobahn.clock import SystemClock, berlin_date, from_datetime, to_datetime
from kontobahn.db import open_database
from kontobahn.errors import NotFound, SetupError
from kontobahn.ids import block_of
from kontobahn.settings import load
from kontobahn.vault import Vault, key_file, open_vault
from tests.harness import place_migrated_sqlite


@given(st.integers(-99_999_999_999_999, 99_999_999_999_999))
def test_cents_survive_the_way_to_the_wire_and_back(cents: int) -> None:
    assert money.to_minor(money.from_minor(cents)) == cents


@pytest.mark.parametrize("text", ["0.001", "1.005", "NaN", "Infinity", "-Infinity", "1e400", "1e12", "1E-400", "sNaN"])
def test_an_amount_that_would_have_to_be_changed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        money.euro(Decimal(text))


@pytest.mark.parametrize(
    ("text", "shown"), [("1", "1.00"), ("1e2", "100.00"), ("-0", "0.00"), ("0.10", "0.10"), ("12.300", "12.30")]
)
def test_amounts_are_shown_with_two_decimals(text: str, shown: str) -> None:
    assert str(money.euro(Decimal(text))) == shown


def test_tokens_have_the_promised_form_and_know_their_mistakes() -> None:
    key = ids.new_token(ids.API_KEY_PREFIX)
    assert re.fullmatch(r"kb_live_[0-9A-Za-z]{36}", key)
    assert ids.is_well_formed(key, ids.API_KEY_PREFIX)
    assert not ids.is_well_formed(key, ids.SESSION_PREFIX)
    for position in range(len(key)):
        other = "a" if key[position] != "a" else "b"
        assert not ids.is_well_formed(key[:position] + other + key[position + 1 :], ids.API_KEY_PREFIX)


def test_row_ids_are_uuids_that_rise_with_time() -> None:
    made = [ids.new_id() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(str(uuid.UUID(item)) == item and item[14] == "7" and item[19] in "89ab" for item in made)
    assert made == sorted(made)


def test_a_date_is_a_day_in_berlin() -> None:
    instant = from_datetime(to_datetime(1_767_222_000_000_000))  # 2025-12-31 23:00 UTC
    assert berlin_date(instant).isoformat() == "2026-01-01"


def test_the_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    settings = load({}, data=str(tmp_path / "var" / "data"))
    first, second = open_vault(settings), open_vault(settings)
    assert first.token_hash("x") == second.token_hash("x")
    path = key_file(settings)
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    for mode in (0o640, 0o620, 0o610, 0o604, 0o602, 0o601):
        os.chmod(path, mode)
        with pytest.raises(SetupError, match="chmod 600"):
            open_vault(settings)
    path.unlink()
    assert open_vault(settings).token_hash("x") != first.token_hash("x"), "another key, in the folder that is there"
    assert list(path.parent.iterdir()) == [path]


def test_a_sealed_secret_opens_with_its_key_and_place_only() -> None:
    vault = Vault(b"k" * 32)
    sealed = vault.seal(b"secret", "webhooks/1")
    assert b"secret" not in sealed
    assert sealed != vault.seal(b"secret", "webhooks/1")
    assert vault.open(sealed, "webhooks/1") == b"secret"
    for other, place in ((vault, "webhooks/2"), (Vault(b"x" * 32), "webhooks/1")):
        with pytest.raises(SetupError):
            other.open(sealed, place)
    with pytest.raises(SetupError, match="newer version"):
        vault.open(b"\x02" + sealed[1:], "webhooks/1")


@pytest.mark.parametrize("key", ["short", "!!!", "YWJj"])
def test_a_wrong_secret_key_is_refused(key: str) -> None:
    with pytest.raises(SetupError, match="secret_key"):
        open_vault(load({}, secret_key=key))


def test_only_a_command_that_needs_the_key_makes_one(tmp_path: Path) -> None:
    settings = load({}, data=str(tmp_path))
    place_migrated_sqlite(settings)
    database = open_database(settings, SystemClock())
    database.write_now(organizations.create, "Muster GmbH", audit.COMMAND_LINE)
    database.close()
    with installation(str(tmp_path)) as here:
        # Nobody need name the only organisation.
        assert here.organization(None) == here.organization("Muster GmbH")
        with pytest.raises(NotFound, match="“”"):
            here.organization("")
        assert not key_file(settings).exists()
        assert here.vault is here.vault
    assert key_file(settings).exists()


def test_no_secret_gets_into_the_log() -> None:
    stream = io.StringIO()
    log.configure("debug", stream)
    try:
        key = ids.new_token(ids.API_KEY_PREFIX)
        log.info("x", api_key=key, note=f"called with {key}", nested={"password": "p4ss", "list": [key]}, n=1)
        log.info("y", url="postgresql://user:s3cret@host/db", secret="whsec_AAAA", detail="whsec_QUJD is it")
    finally:
        log.configure("info", None)
    text = stream.getvalue()
    assert key[12:] not in text
    for secret in ("p4ss", "s3cret", "whsec_AAAA", "QUJD"):
        assert secret not in text
    first = json.loads(text.splitlines()[0])
    assert (first["level"], first["event"], first["n"]) == ("info", "x", 1)


def test_settings_come_from_the_environment_then_the_file_then_the_default(tmp_path: Path) -> None:
    (tmp_path / "kontobahn.toml").write_text('limit_api_requests = 5\nlog_level = "error"\n[prices]\n"GET /x" = 3\n')
    environ = {"KONTOBAHN_DATA": str(tmp_path), "KONTOBAHN_LOG_LEVEL": "debug", "KONTOBAHN_RUN_JOBS": "false"}
    settings = load(environ)
    assert (settings.limit_api_requests, settings.log_level, settings.run_jobs) == (5, "debug", False)
    assert (settings.prices, settings.session_hours) == ({"GET /x": 3}, 12)
    assert load({**environ, "KONTOBAHN_PRICES": '{"GET /y": 1}'}).prices == {"GET /y": 1}


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"KONTOBAHN_LIMIT_API_REQUEST": "5"}, "KONTOBAHN_LIMIT_API_REQUEST. Did you mean limit_api_requests"),
        ({"KONTOBAHN_LIMIT_API_REQUESTS": "many"}, "limit_api_requests"),
        ({"KONTOBAHN_LIMIT_API_REQUESTS": "0"}, "limit_api_requests"),
        ({"KONTOBAHN_DATABASE_URL": "mysql://x"}, "postgresql://"),
        ({"KONTOBAHN_LOG_LEVEL": "loud"}, "loud"),
        ({"KONTOBAHN_PRICES": "{"}, "JSON"),
        ({"KONTOBAHN_CONFIG": "/nowhere.toml"}, "does not exist"),
    ],
)
def test_a_setting_that_cannot_work_is_named(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(SetupError, match=re.escape(sentence)):
        load(environ)


def test_a_forked_process_makes_ids_of_its_own() -> None:
    from kontobahn import ids

    ids.new_request_id()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, ids.new_request_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100).decode() != ids.new_request_id()
    os.close(reading)
    os.close(writing)


def test_an_address_of_ipv6_counts_as_its_network() -> None:
    assert block_of("2001:db8:1:2:3:4:5:6") == block_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert block_of("2001:db8:1:3::1") != block_of("2001:db8:1:2::1")
    assert block_of("::ffff:192.0.2.7") == block_of("192.0.2.7") == "192.0.2.7"
    assert block_of("fe80::1%eth0") == "fe80::/64"
    assert block_of("unknown") == "unknown"
    assert block_of("not:an:address") == "not:an:address"
