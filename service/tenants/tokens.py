"""Tokens of an issuer, which name a caller: JWTs (RFC 7519, RFC 9068) signed by one of its keys."""

import hashlib
import time
from typing import Any, Final

from wavetrim.service.errors import SettingRefused, Unauthorized
from wavetrim.service.settings import Settings
from wavetrim.service.tenants.issuer_keys import IssuerKeys
from wavetrim.service.tenants.jwks import ALGORITHMS, JwksSource
from wavetrim.service.tenants.tenant import SCOPES, Tenant

PREFIX: Final = "jwt:"
"""Prefix of a token's `sub` in its tenant's name; no name of a key has a colon."""

_LEEWAY_SECONDS: Final = 30
"""Largest difference of the issuer's clock from this one; chosen."""

_TIMES: Final = ("exp", "nbf", "iat")

_MOST_SUBJECT: Final = 255
_MOST_KNOWN: Final = 1024
"""The most verified tokens that are remembered, since a signature costs 0.1 ms; chosen."""


class Tokens:
    """Reads the tokens of one issuer. To be used from one event loop.

    Args:
        issuer: The `iss` that they must have.
        audience: The `aud` that they must have.
        keys: The issuer's keys.
    """

    def __init__(self, issuer: str, audience: str, keys: IssuerKeys) -> None:
        self.keys = keys
        self._issuer = issuer
        self._audience = audience
        self._known: dict[bytes, tuple[Tenant, float]] = {}
        keys.on_change = self._known.clear

    async def read(self, token: str) -> Tenant:
        """The caller that a token names.

        Raises:
            Unauthorized: The token is not valid.
            IssuerAway: The key that has signed it cannot be read now.
        """
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is not None and time.time() < known[1]:
            return known[0]
        claims = await self._verify(token)
        tenant = _read_tenant(claims)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        # No float holds every whole number that a token may have.
        self._known[digest] = tenant, min(claims["exp"], 2**53) + _LEEWAY_SECONDS
        return tenant

    async def _verify(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
                known = ", ".join(sorted(ALGORITHMS))
                raise Unauthorized(f"the token's alg must be one of {known}")
            if "crit" in header:
                raise Unauthorized("the token's crit names what is not understood here")
            key = await self.keys.find(kid, algorithm)
            if key is None:
                raise Unauthorized("the token is signed by no key that its issuer has")
            claims: dict[str, Any] = jwt.decode(
                token,
                key.public,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        # PyJWT does not catch what huge numbers and deeply nested JSON raise.
        except (jwt.PyJWTError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise Unauthorized(f"the token is not taken: {error}") from error
        for name in _TIMES:  # PyJWT takes texts of digits, too
            if type(claims.get(name, 0)) not in (int, float):
                raise Unauthorized(f"the token's {name} must be a number")
        return claims


def _read_tenant(claims: dict[str, Any]) -> Tenant:
    """The caller that a token's claims name.

    Raises:
        Unauthorized: A claim is not valid.
    """
    subject, scope = claims["sub"], claims.get("scope", "")
    if not (isinstance(subject, str) and subject.isascii() and subject.isprintable()):
        raise Unauthorized("the token's sub must be printable ASCII")
    if not 0 < len(subject) <= _MOST_SUBJECT:
        raise Unauthorized(f"the token's sub must have 1 to {_MOST_SUBJECT} characters")
    if not isinstance(scope, str):
        raise Unauthorized("the token's scope must be words with spaces between them")
    return Tenant(PREFIX + subject, frozenset(scope.split(" ")).intersection(SCOPES))


def make_tokens(settings: Settings) -> Tokens | None:
    """The reader of tokens; None if the settings name no issuer.

    Raises:
        SettingRefused: A setting of the issuer is missing or not valid, or PyJWT is not installed.
    """
    wanted = {name: getattr(settings, name) for name in ("jwt_issuer", "jwt_audience", "jwt_jwks")}
    if not any(wanted.values()):
        return None
    for name, value in wanted.items():
        if value is None:
            raise SettingRefused(name, value, f"set where one of {', '.join(wanted)} is")
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError as error:
        limit = "unset as long as PyJWT is not there: pip install 'wavetrim[jwt]'"
        raise SettingRefused("jwt_issuer", settings.jwt_issuer, limit) from error
    keys = IssuerKeys(JwksSource(wanted["jwt_jwks"]))
    return Tokens(wanted["jwt_issuer"], wanted["jwt_audience"], keys)
