"""Reads a JWKS (RFC 7517), and the keys in it that may verify tokens."""

import logging
import os
import re
import stat
import time
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from pydantic_core import from_json

from wavetrim.service.errors import SettingRefused
from wavetrim.service.settings import is_loopback

logger = logging.getLogger(__name__)

_MAX_BYTES: Final = 2**20
_READ_SECONDS: Final = 5.0
"""How long reading a JWKS may take, and how long the issuer may be silent; chosen."""

_CHUNK_BYTES: Final = 2**16
_LEAST_RSA_BITS: Final = 2048
_HANDLERS: Final = (HTTPHandler, HTTPSHandler, HTTPDefaultErrorHandler, HTTPErrorProcessor)

_ALGORITHMS: Final[dict[tuple[str, str | None], frozenset[str]]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
    ("OKP", "Ed448"): frozenset({"EdDSA"}),
}
"""Algorithms of keys, by type and curve. No symmetric ones, whose verifier could sign, too."""

ALGORITHMS: Final = frozenset().union(*_ALGORITHMS.values())
"""All accepted algorithms."""


class JwksRefused(Exception):
    """The content is not a JWKS; the message says why."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key.

    Attributes:
        kid: Its id, if it has one.
        algorithms: Algorithms that it verifies.
        public: The key as an object for PyJWT.
    """

    kid: str | None
    algorithms: frozenset[str]
    public: Any


class JwksSource:
    """Where a JWKS is.

    Args:
        location: A URL, or the path of a file.

    Raises:
        SettingRefused: It is no URL, one with user information, which is not sent, or one without
            TLS, over which others could send keys of theirs.

    Attributes:
        location: As given.
        shown: What the log tells of it: of a URL scheme, host, port and path, as the rest may be
            secret.
        is_file: Whether it is a file.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.is_file = "://" not in location
        self.shown = location if self.is_file else re.sub(r"[^/]*@|[?#].*", "", location)
        try:
            url = urlsplit(location)
        except ValueError as error:
            raise SettingRefused("jwt_jwks", self.shown, f"a URL ({error}), or a file") from error
        if self.is_file:
            return
        is_here = url.scheme == "http" and is_loopback(url.hostname or "")
        if "@" in url.netloc or not (url.scheme == "https" or is_here):
            limit = "an https:// URL, an http:// one of this machine, or a file; no URL with user@"
            raise SettingRefused("jwt_jwks", self.shown, limit)

    def read(self) -> tuple[IssuerKey, ...]:
        """Read the keys; takes a few seconds at most.

        Raises:
            OSError: They cannot be reached, or do not come in time.
            JwksRefused: The answer is not a JWKS.
        """
        if self.is_file:
            try:
                path = Path(self.location).expanduser()
            except RuntimeError as error:  # there is no such user
                raise FileNotFoundError(f"{self.location}: {error}") from error
            with open(path, "rb", opener=_open_regular) as file:
                return parse_jwks(file.read(_MAX_BYTES + 1))
        try:
            return parse_jwks(_fetch(self.location))
        except (HTTPException, ValueError) as error:
            # Its words may have the URL, with what is not shown of it.
            raise JwksRefused(f"the answer is not HTTP ({type(error).__name__})") from error


def parse_jwks(content: bytes) -> tuple[IssuerKey, ...]:
    """The keys of a JWKS that may verify tokens; others are ignored, as the RFC demands.

    Raises:
        JwksRefused: It is not a JWKS, or has no such key.
    """
    if len(content) > _MAX_BYTES:
        raise JwksRefused(f"it is longer than {_MAX_BYTES} bytes")
    try:
        document = from_json(content)
    except ValueError as error:
        raise JwksRefused(f"it is no JSON: {error}") from error
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise JwksRefused("it is no JSON object with a list keys")
    keys = tuple(key for one in listed if (key := _read_key(one)) is not None)
    if not keys:
        raise JwksRefused(
            f"none of its {len(listed)} keys verifies {', '.join(sorted(ALGORITHMS))}"
        )
    return keys


def _read_key(listed: Any) -> IssuerKey | None:
    """A key; None if it cannot verify tokens, cannot be read, or is too short."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        kid, algorithms = listed.get("kid"), _find_algorithms(listed)
        if not (algorithms and isinstance(kid, str | None)):
            return None
        public: Any = PyJWK(listed, min(algorithms)).key
    except (PyJWTError, AttributeError, KeyError, TypeError, ValueError) as error:
        # Its own words may have the value, which may be a private key's.
        logger.warning("a key of the issuer cannot be read: %s", type(error).__name__)
        return None
    if listed["kty"] == "RSA" and public.key_size < _LEAST_RSA_BITS:
        logger.warning("key %r of the issuer has too few bits: %d", kid, public.key_size)
        return None
    return IssuerKey(kid, algorithms, public)


def _find_algorithms(listed: dict[str, Any]) -> frozenset[str]:
    """The algorithms that a key verifies, by its type and curve, and by `alg` if it has one."""
    is_private = listed.get("d") is not None  # only the issuer may have it
    operations = [*listed.get("key_ops", ["verify"])]
    verifies = listed.get("use", "sig") == "sig" and "verify" in operations
    if is_private or not verifies:
        return frozenset()
    kind = listed["kty"], None if listed["kty"] == "RSA" else listed.get("crv")
    algorithms = _ALGORITHMS.get(kind, frozenset())
    return algorithms if listed.get("alg") is None else algorithms & {listed["alg"]}


def _open_regular(path: str, flags: int) -> int:
    """Opens a regular file, also through a link: to open a pipe would wait for its writer.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path}: it is no regular file")
    return file


def _fetch(url: str) -> bytes:
    """The content of a URL; redirects are not followed, as the setting names the only source.

    Raises:
        OSError: It cannot be reached, or the answer is an error or does not come in time.
    """
    end = time.monotonic() + _READ_SECONDS
    opener = OpenerDirector()
    # Over http a proxy could answer with keys of its own; of https it only passes on the bytes.
    opener.add_handler(ProxyHandler(None if urlsplit(url).scheme == "https" else {}))
    for handler in _HANDLERS:
        opener.add_handler(handler())
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310
    try:
        with opener.open(request, timeout=_READ_SECONDS) as response:
            content = b""
            while len(content) <= _MAX_BYTES and (piece := response.read1(_CHUNK_BYTES)):
                content += piece
                if time.monotonic() > end:
                    raise TimeoutError(f"{len(content)} bytes came in {_READ_SECONDS:g} s")
    except HTTPError as error:
        error.close()
        raise
    return content
