"""Rate limits: three groups, exact counts, headers on every answer, in memory and in Redis."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness import Service, ServiceFactory
from tests.services import RedisServer

PATH = "/v2/ledger-rewe-read/connections"
HEADERS = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy")


@pytest.fixture
def limited(start_service: ServiceFactory) -> Service:
    """With the contract's own limits."""
    return start_service(limit_api_requests=200, limit_auth_requests=30)


def test_the_201st_call_in_a_window_is_429(limited: Service) -> None:
    mine, other = limited.organization(), limited.organization("Andere")
    for number in range(1, 201):
        answer = limited.get(PATH, mine.key)
        assert answer.status_code == 200
        assert [answer.headers[name] for name in HEADERS] == ["200", str(200 - number), "900", "200;w=900"]
    limited.clock.advance(seconds=100.5)
    refused = limited.get(PATH, mine.key)
    assert refused.status_code == 429
    assert [refused.headers[name] for name in HEADERS] == ["200", "0", "800", "200;w=900"]
    assert refused.headers["retry-after"] == "800"
    assert "200 in 900 seconds" in refused.json()["error"]
    assert limited.get(PATH, other.key).status_code == 200
    limited.clock.advance(seconds=799.5)
    fresh = limited.get(PATH, mine.key)
    assert fresh.status_code == 200
    assert fresh.headers["ratelimit-remaining"] == "199"


def test_every_kind_of_answer_carries_the_headers(limited: Service) -> None:
    mine = limited.organization()
    answers = [
        limited.get(PATH, mine.key),
        limited.get(PATH, mine.key, params={"x": "1"}),
        limited.get(PATH),
        limited.get("/v2/nothing", mine.key),
        limited.request("PATCH", PATH, mine.key),
        limited.post("/v2/auth/invitations", mine.key, content=b"x", headers={"content-type": "text/plain"}),
        limited.request("DELETE", "/v2/auth/users/0193b2a0-0000-7000-8000-00000000abcd", mine.key),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 401, 404, 405, 415, 404]
    for answer in answers:
        assert all(name in answer.headers for name in HEADERS), answer.status_code


def test_without_a_valid_key_the_address_is_counted(limited: Service) -> None:
    mine = limited.organization()
    remaining = [int(limited.get(PATH, key).headers["ratelimit-remaining"]) for key in (None, None, "kb_live_nonsense")]
    assert remaining == [199, 198, 197]
    assert limited.get(PATH, mine.key).headers["ratelimit-remaining"] == "199"


def test_auth_calls_are_limited_by_address_and_use_up_nothing_else(limited: Service) -> None:
    mine = limited.organization()
    for number in range(30):
        answer = limited.get("/v2/auth/users", mine.key)
        assert (answer.status_code, answer.headers["ratelimit-remaining"]) == (200, str(29 - number))
    refused = limited.get("/v2/auth/users", limited.organization("Andere").key)
    assert (refused.status_code, refused.headers["ratelimit-policy"]) == (429, "30;w=900")
    assert limited.get(PATH, mine.key).headers["ratelimit-remaining"] == "199"


def test_provider_webhooks_have_a_window_of_their_own(limited: Service) -> None:
    answer = limited.post("/v2/banking/webhooks/sandbox", content=b"{}")
    assert answer.status_code == 401
    assert answer.headers["ratelimit-policy"] == "60;w=60"
    assert limited.get("/v2/nothing").headers["ratelimit-remaining"] == "199"


def test_forwarded_addresses_are_believed_from_a_trusted_proxy_only(start_service: ServiceFactory) -> None:
    distrusting = start_service(limit_api_requests=5)
    trusting = start_service(limit_api_requests=5, trusted_proxies="127.0.0.0/8, 10.0.0.0/8")

    def remaining(service: Service, forwarded: str) -> str:
        return service.get(PATH, headers={"x-forwarded-for": forwarded}).headers["ratelimit-remaining"]

    assert [remaining(distrusting, f"203.0.113.{number}") for number in range(3)] == ["4", "3", "2"]
    assert [remaining(trusting, f"203.0.113.{number}") for number in range(3)] == ["4", "4", "4"]
    # The caller may write anything in front; our own proxies are passed over from the right.
    assert remaining(trusting, "198.51.100.7, 203.0.113.1, 10.1.2.3") == "3"
    assert remaining(trusting, "not an address") == "4"


@pytest.mark.either_engine
def test_a_caller_cannot_write_its_address_into_a_line_above_the_proxys(start_service: ServiceFactory) -> None:
    service = start_service(limit_api_requests=9, trusted_proxies="127.0.0.0/8, 10.0.0.0/8")

    def remaining(*lines: str) -> str:
        answer = service.http.get(PATH, headers=[("x-forwarded-for", line) for line in lines])
        return answer.headers["ratelimit-remaining"]

    assert [remaining(f"198.51.100.{number}", "203.0.113.1") for number in range(3)] == ["8", "7", "6"]
    # Each of two proxies has written a line: the second one's is about the first.
    assert remaining("198.51.100.9", "203.0.113.1", "10.1.2.3") == "5"
    assert remaining("198.51.100.9, 203.0.113.1", "10.1.2.3") == "4"
    assert remaining("203.0.113.2", "10.1.2.3") == "8"
    assert remaining("203.0.113.1") == "3"


def test_two_processes_with_redis_count_as_one(start_service: ServiceFactory, redis: RedisServer) -> None:
    redis.flush()
    services = [start_service(limit_api_requests=200, redis_url=redis.url) for _ in range(2)]
    mine = services[0].organization()

    def call(number: int) -> int:
        return services[number % 2].get(PATH, mine.key).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(call, range(260)))
    assert (statuses.count(200), statuses.count(429)) == (200, 60)
    refused = services[1].get(PATH, mine.key)
    assert refused.headers["ratelimit-remaining"] == "0"
    assert 800 < int(refused.headers["retry-after"]) <= 900


def test_calls_go_on_when_redis_is_away(start_service: ServiceFactory) -> None:
    with RedisServer() as own:
        service = start_service(limit_api_requests=200, redis_url=own.url)
        mine = service.organization()
        assert service.get(PATH, mine.key).headers["ratelimit-remaining"] == "199"
        own.stop()
        answer = service.get(PATH, mine.key)
        assert answer.status_code == 200
        assert answer.headers["ratelimit-limit"] == "200"
