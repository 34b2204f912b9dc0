"""The identity provider of this installation: OpenID Connect, by authorisation code with PKCE.

Its documents and answers come over `outbound`, bounded in time and size. An ID token counts if it is signed by one of the
provider's own keys, with an algorithm that needs a private one, and made by it for us, for this attempt and for now.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from kontobahn import __version__
from kontobahn.access.identities import Admission, Shown
from kontobahn.clock import HOUR, MINUTE, SECOND, Clock
from kontobahn.errors import SetupError
from kontobahn.json_text import decode_foreign
from kontobahn.outbound import OutboundClient, Refused, Reply, Rule, Unreached
from kontobahn.settings import Settings

CALLBACK = "/dashboard/sign-in/provider/callback"
AFTER_SIGN_OUT = "/dashboard/sign-in"
SECONDS = 10.0
MAX_BYTES = 256 * 1024
# Documents are kept for an hour. Keys are fetched sooner for a key that is not known, but not more often than this; and a
# provider that does not answer is left alone for a moment.
KEPT = HOUR
BETWEEN_FETCHES = MINUTE
AFTER_FAILURE = 5 * SECOND
LEEWAY = MINUTE
# An attempt to sign in takes less; an older token is not for this one.
OLDEST_TOKEN = HOUR
# None of them can be checked with a key that is public and secret at once.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC"}
MIN_RSA_BITS = 2048
MAX_SUBJECT, MAX_NAME, MAX_EMAIL, MAX_GROUPS = 255, 200, 254, 1000
_EMAIL = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")
_ERROR_CODE = re.compile(r"[a-z_]{1,60}")
T = TypeVar("T")


class Unreachable(Exception):
    """The provider gave no usable answer. The message is for the operator."""


class Rejected(Exception):
    """The provider's answer is not to be believed. The message is for the operator, and quotes no secret."""


class _UnknownKey(Rejected):
    pass


class Discovery(Struct):
    """The provider's description of itself, as far as it matters here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    end_session_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Configuration(NamedTuple):
    issuer: str
    client_id: str
    name: str
    scopes: str
    base_url: str
    admission: Admission
    role_claim: str
    factor_amr: frozenset[str]
    factor_acr: tuple[str, ...]
    sign_out: bool

    @property
    def redirect_uri(self) -> str:
        return self.base_url + CALLBACK


class Attempt(NamedTuple):
    """The secrets of one way to the provider and back."""

    state: str
    nonce: str
    verifier: str


class _Kept(Generic[T]):
    """A document of the provider. Those who ask while it is fetched wait for the same one."""

    def __init__(self, clock: Clock, fetch: Callable[[], Awaitable[T]]) -> None:
        self._clock, self._fetch = clock, fetch
        self._lock = asyncio.Lock()
        self._found: tuple[int, T] | None = None
        self._failed: tuple[int, Unreachable] | None = None

    async def get(self, *, longest: int = KEPT) -> T:
        """Returns it as it was at most so long ago. Raises Unreachable."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._found is not None and now - self._found[0] < longest:
                return self._found[1]
            if self._failed is not None and now - self._failed[0] < AFTER_FAILURE:
                raise Unreachable(str(self._failed[1]))
            try:
                made = await self._fetch()
            except Unreachable as error:
                self._failed = now, error
                raise
            self._found, self._failed = (now, made), None
            return made


class IdentityProvider:
    """Reached as `context.part(IdentityProvider)`, even where the settings name none."""

    def __init__(self, configuration: Configuration | None, secret: str, clock: Clock, network: OutboundClient) -> None:
        self._configuration = configuration
        self._secret = secret
        self._clock = clock
        self._network = network
        self._discovery = _Kept(clock, self._discover)
        self._keys = _Kept(clock, self._fetch_keys)

    @property
    def is_set_up(self) -> bool:
        return self._configuration is not None

    @property
    def configuration(self) -> Configuration:
        assert self._configuration is not None, "asked of an installation without an identity provider"
        return self._configuration

    @property
    def issuer(self) -> str:
        """Empty if there is none."""
        return self._configuration.issuer if self._configuration else ""

    async def close(self) -> None:
        await self._network.close()

    # --- On the way there

    async def sign_in_url(self, attempt: Attempt, *, again: bool = False) -> str:
        """Returns the address to lead a person to; `again` if they are to sign in there anew. Raises Unreachable."""
        ours, theirs = self.configuration, await self._discovery.get()
        challenge = hashlib.sha256(attempt.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": ours.client_id,
            "redirect_uri": ours.redirect_uri,
            "scope": ours.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        if ours.factor_acr:
            query["acr_values"] = " ".join(ours.factor_acr)
        if again:
            query |= {"prompt": "login", "max_age": "0"}
        return _with_query(theirs.authorization_endpoint, query)

    async def sign_out_url(self) -> str:
        """Returns the address at which a person signs out there; empty if there is none."""
        ours = self.configuration
        found = (await self._discovery.get()).end_session_endpoint if ours.sign_out else ""
        if not found:
            return ""
        return _with_query(
            found, {"client_id": ours.client_id, "post_logout_redirect_uri": ours.base_url + AFTER_SIGN_OUT}
        )

    # --- On the way back

    async def redeem(self, attempt: Attempt, code: str, issuer: str) -> Shown:
        """Returns who has signed in. Raises Unreachable or Rejected.

        `issuer` is the parameter of the same name that some providers send along with the code.
        """
        theirs = await self._discovery.get()
        if issuer != self.issuer and (issuer or theirs.authorization_response_iss_parameter_supported):
            raise Rejected("the answer names another issuer")
        token = await self._fetch_token(theirs, attempt, code)
        try:
            claims = await self._verified(token, longest=KEPT)
        except _UnknownKey:
            claims = await self._verified(token, longest=BETWEEN_FETCHES)
        return _shown(self.configuration, claims, attempt.nonce, self._clock.now())

    async def _verified(self, token: str, *, longest: int) -> dict[str, Any]:
        keys = await self._keys.get(longest=longest)
        # Loads the library at the first use.
        return await asyncio.to_thread(_verify, token, keys)

    async def _fetch_token(self, theirs: Discovery, attempt: Attempt, code: str) -> str:
        ours = self.configuration
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": ours.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if not self._secret:
            form["client_id"] = ours.client_id
        elif "client_secret_basic" in theirs.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(ours.client_id)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": ours.client_id, "client_secret": self._secret}
        reply = await self._send("POST", theirs.token_endpoint, headers, urlencode(form).encode())
        answer = _object(reply, "the token endpoint")
        if reply.status != 200:
            # Its further words may repeat what was sent.
            said = answer.get("error")
            reason = said if isinstance(said, str) and _ERROR_CODE.fullmatch(said) else "no reason"
            raise Rejected(f"the token endpoint answered {reply.status}, {reason}")
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Rejected("the token endpoint answered without an ID token")
        return token

    # --- Documents

    async def check(self) -> Discovery:
        """Raises Unreachable if nobody could sign in now; for `kontobahn doctor`."""
        found = await self._discovery.get()
        if not any(_is_usable(key) for key in await self._keys.get()):
            raise Unreachable("the provider publishes no key that signs ID tokens with a usable algorithm")
        return found

    async def _discover(self) -> Discovery:
        url = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
        reply = await self._send("GET", url)
        if reply.status != 200:
            raise Unreachable(f"{url} answered {reply.status}")
        try:
            found = decode_foreign(reply.content, Discovery)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{url} is not a discovery document: {error}") from None
        if found.issuer != self.issuer:
            raise Unreachable(f"the provider calls itself {found.issuer[:200]!r}: set oidc_issuer to exactly that")
        for address in filter(None, (found.authorization_endpoint, found.token_endpoint, found.end_session_endpoint)):
            self._check_address(address)
        return found

    def _check_address(self, url: str) -> None:
        try:
            self._network.rule.parse(url)
        except Refused as error:
            raise Unreachable(f"the provider names {url[:200]!r}: {error}") from None

    async def _fetch_keys(self) -> list[Mapping[str, Any]]:
        reply = await self._send("GET", (await self._discovery.get()).jwks_uri)
        keys = _object(reply, "the list of keys").get("keys") if reply.status == 200 else None
        if not isinstance(keys, list):
            raise Unreachable(f"the list of keys cannot be read (status {reply.status})")
        return [key for key in keys if isinstance(key, dict)]

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        try:
            return await self._network.send(
                method, url, headers={"Accept": "application/json", **(headers or {})}, body=body,
                seconds=SECONDS, max_bytes=MAX_BYTES, whole=True,
            )  # fmt: skip
        except (Refused, Unreached) as error:
            raise Unreachable(f"{urlsplit(url).netloc}: {error}") from None


def _object(reply: Reply, what: str) -> dict[str, Any]:
    try:
        found = decode_foreign(reply.content)
    except msgspec.DecodeError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable(f"{what} answered {reply.status} with something that is no JSON object")
    return found


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"


# --- ID tokens


def _verify(token: str, keys: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the claims of a token with a good signature. Raises Rejected."""
    from joserfc import jwk, jws
    from joserfc.errors import JoseError

    try:
        signed = jws.extract_compact(token.encode())
        header = signed.headers()
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise Rejected(f"the ID token is signed with {str(algorithm)[:20]!r}")
        key = jwk.import_key(dict(_key_for(header, keys)))
        registry = jws.JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        if not jws.validate_compact(signed, key, registry=registry):
            raise (Rejected if "kid" in header else _UnknownKey)("the signature of the ID token is wrong")
        claims = decode_foreign(signed.payload)
    except (JoseError, ValueError, TypeError, KeyError, msgspec.DecodeError) as error:
        raise Rejected(f"the ID token cannot be read: {type(error).__name__}") from None
    if not isinstance(claims, dict):
        raise Rejected("the ID token has no claims")
    return claims


def verified_claims(
    token: str, keys: list[Mapping[str, Any]], *, issuer: str, client_id: str, nonce: str, now: int
) -> dict[str, Any]:
    """Returns the claims of an ID token that is signed with one of these keys, for us, for this attempt and for now.

    For a provider that people sign in to for something else than to get in here. Raises Rejected.
    """
    claims = _verify(token, keys)
    _check_claims(claims, issuer=issuer, client_id=client_id, nonce=nonce, now=now)
    return claims


def _check_claims(claims: dict[str, Any], *, issuer: str, client_id: str, nonce: str, now: int) -> None:
    if claims.get("iss") != issuer:
        raise Rejected("the ID token is of another issuer")
    _check_audience(claims, client_id)
    _check_times(claims, now)
    if not hmac.compare_digest(_text(claims, "nonce").encode(), nonce.encode()):
        raise Rejected("the ID token is for another attempt")


def _key_for(header: Mapping[str, Any], keys: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    algorithm, wanted = header["alg"], header.get("kid")
    fitting = [
        key
        for key in keys
        if _is_usable(key)
        and key["kty"] == KEY_TYPES[algorithm[:2]]
        and key.get("alg", algorithm) == algorithm
        and (wanted is None or key.get("kid") == wanted)
    ]
    if len(fitting) != 1:
        raise _UnknownKey("the ID token is signed with a key that the provider does not publish")
    return fitting[0]


def _is_usable(key: Mapping[str, Any]) -> bool:
    operations, modulus = key.get("key_ops", ["verify"]), key.get("n")
    # A letter of the modulus is six bits.
    is_long = key.get("kty") != "RSA" or (isinstance(modulus, str) and len(modulus) * 6 >= MIN_RSA_BITS)
    return (
        is_long
        and key.get("kty") in KEY_TYPES.values()
        and key.get("use", "sig") == "sig"
        and isinstance(operations, list)
        and "verify" in operations
    )


def _shown(ours: Configuration, claims: dict[str, Any], nonce: str, now: int) -> Shown:
    """Returns who the claims are about. Raises Rejected unless they are for us, for this attempt and for now."""
    _check_claims(claims, issuer=ours.issuer, client_id=ours.client_id, nonce=nonce, now=now)
    subject = _text(claims, "sub")
    if not subject or len(subject) > MAX_SUBJECT or not subject.isprintable():
        raise Rejected("the ID token has no usable subject")
    email, name = _text(claims, "email").strip(), _plain(_text(claims, "name"))
    is_verified = claims.get("email_verified") is True and len(email) <= MAX_EMAIL and _EMAIL.fullmatch(email)
    amr = claims.get("amr")
    methods = {item for item in amr if isinstance(item, str)} if isinstance(amr, list) else set()
    return Shown(
        issuer=ours.issuer,
        subject=subject,
        email=email if is_verified else "",
        name=name,
        label=_plain(email or _text(claims, "preferred_username") or name or subject),
        groups=_groups(claims, ours.role_claim),
        authenticated_at=_instant(claims, "auth_time"),
        with_second_factor=bool(methods & ours.factor_amr) or _text(claims, "acr") in ours.factor_acr,
    )


def _check_audience(claims: dict[str, Any], client_id: str) -> None:
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or client_id not in audiences:
        raise Rejected("the ID token is for somebody else")
    authorised = claims.get("azp")
    if authorised != client_id and (authorised is not None or len(audiences) > 1):
        raise Rejected("the ID token was made at the wish of somebody else")


def _check_times(claims: dict[str, Any], now: int) -> None:
    expires, issued, begins = (_instant(claims, name) for name in ("exp", "iat", "nbf"))
    if expires is None or issued is None:
        raise Rejected("the ID token does not say when it was made and when it ends")
    if expires + LEEWAY <= now or issued + OLDEST_TOKEN <= now:
        raise Rejected("the ID token has expired; are the clocks right?")
    if max(issued, begins or 0) - LEEWAY > now:
        raise Rejected("the ID token is from the future; are the clocks right?")


def _instant(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return int(value * SECOND)


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isprintable()).strip()[:MAX_NAME]


def _groups(claims: dict[str, Any], path: str) -> tuple[str, ...]:
    """The values of a claim: a text or a list of them. A name that has dots itself comes before a way into objects."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
    values = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(value for value in values[:MAX_GROUPS] if isinstance(value, str))


# --- Settings


def set_up(settings: Settings, clock: Clock) -> IdentityProvider:
    """Returns the provider of the settings. Raises SetupError if they contradict each other."""
    rule = Rule.of_setting(settings.oidc_allow, "oidc_allow")
    network = OutboundClient(rule, user_agent=f"Kontobahn/{__version__}")
    if not settings.oidc_issuer:
        return IdentityProvider(None, "", clock, network)
    _check(settings, rule)
    admission = Admission(
        settings.oidc_organization, settings.oidc_new_people, settings.oidc_link_by_email, settings.oidc_roles
    )
    configuration = Configuration(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        name=settings.oidc_name,
        scopes=settings.oidc_scopes,
        base_url=settings.base_url,
        admission=admission,
        role_claim=settings.oidc_role_claim,
        factor_amr=frozenset(_listed(settings.oidc_factor_amr)),
        factor_acr=_listed(settings.oidc_factor_acr),
        sign_out=settings.oidc_sign_out,
    )
    return IdentityProvider(configuration, _secret(settings), clock, network)


def _check(settings: Settings, rule: Rule) -> None:
    try:
        rule.parse(settings.oidc_issuer)
    except Refused as error:
        raise SetupError(f"The setting oidc_issuer cannot be used: {error} See oidc_allow.") from None
    if urlsplit(settings.oidc_issuer).query:
        raise SetupError("The setting oidc_issuer must not have a query.")
    if not settings.oidc_client_id:
        raise SetupError("The setting oidc_issuer needs oidc_client_id as well.")
    if "openid" not in settings.oidc_scopes.split():
        raise SetupError("The setting oidc_scopes must contain openid.")
    if not settings.oidc_name.strip():
        raise SetupError("The setting oidc_name must not be empty.")
    if bool(settings.oidc_roles) != bool(settings.oidc_role_claim):
        raise SetupError("The settings oidc_role_claim and oidc_roles need each other.")
    for name in ("oidc_new_people", "oidc_link_by_email", "oidc_roles"):
        if getattr(settings, name) and not settings.oidc_organization:
            raise SetupError(f"The setting {name} needs oidc_organization: the organisation that it is about.")


def _secret(settings: Settings) -> str:
    if not settings.oidc_client_secret_file:
        return settings.oidc_client_secret
    if settings.oidc_client_secret:
        raise SetupError("Set oidc_client_secret or oidc_client_secret_file, not both.")
    path = Path(settings.oidc_client_secret_file)
    try:
        found = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise SetupError(f"The file oidc_client_secret_file ({path}) cannot be read.") from None
    if not found:
        raise SetupError(f"The file oidc_client_secret_file ({path}) is empty.")
    return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))
