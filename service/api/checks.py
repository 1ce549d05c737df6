"""The checks of a request, in their order. Each refuses or passes on.

1. Its connection is one of few: `Descriptors`, when it is made.
2. Its head is within limits: `check_head`, and `check_size` while it is read. There is no request
   yet.
3. Its host is this service's: `check_host`.
4. Its key or token is valid: `find_tenant`.
5. That has the scope for the call, 6. and has not too many requests: `check_call`, which makes the
   checks from the host on, before any byte of a body is received.
7. Its query has known fields: `check_query`, and the route's model.
8. Its body has a known media type and coding, and a length within limits: `check_content`,
   `check_length`. The route that takes a body asks for these, and for the key that makes it one of
   a kind: `check_idempotency`.
9. Its bytes are within the caller's quota (`BytesInFlight`), when memory is taken for them.

Then the route checks what only it knows: sizes and shapes.
"""

import hmac
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from wavetrim.service.errors import (
    BodyTooLarge,
    ContentRefused,
    FieldProblem,
    HeadTooLarge,
    HostAmbiguous,
    HostRefused,
    RequestMalformed,
    ScopeMissing,
    Unauthorized,
)
from wavetrim.service.settings import Settings, is_loopback
from wavetrim.service.tenants.tenant import ONE_TENANT, Tenant

if TYPE_CHECKING:
    from wavetrim.service.api.calls import Call

MAX_HEAD_BYTES: Final = 2**16
"""The longest head, and the most bytes of framing in a chunked body at a time; chosen."""

MAX_FIELDS: Final = 100
"""The most header fields, and the most fields of a query; chosen."""

VERSIONS: Final = ("1.0", "1.1")
"""Supported versions of HTTP."""

NPY_TYPES: Final = ("application/octet-stream", "application/x-npy")
"""The media types of a .npy file."""

CODINGS: Final = ("identity", "gzip", "deflate")
"""Content codings of requests."""

MAX_KEY_CHARACTERS: Final = 255
"""The longest Idempotency-Key."""

_AUTHORITY_END: Final = re.compile(rb"[/?#]")

_HOST: Final = re.compile(r"(?P<name>[a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]*)?", re.I | re.ASCII)
"""A name or an address, and a port; a URL parser would accept users, paths and queries, too."""

_KEY: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_KEY_CHARACTERS}}}")


def check_head(
    version: str, url: bytes, headers: list[tuple[bytes, bytes]], *, read_bytes: int
) -> int | None:
    """A complete head is within its limits; the parser accepts more.

    Chunked is the only transfer coding of a body. The parser accepts every list that ends with
    chunked, and would leave a body compressed.

    Args:
        version: Its version of HTTP.
        url: The request's target.
        headers: Its header fields.
        read_bytes: The length of what was read: the head, and perhaps what follows it.

    Returns:
        The body's length in bytes, 0 without a body; None if it comes in chunks.

    Raises:
        RequestMalformed: The version or the transfer coding is not supported.
        HeadTooLarge: It is too long, or has too many fields.
        FieldProblem: The query has too many fields.
    """
    if version not in VERSIONS:
        raise RequestMalformed("HTTP version", version, " or ".join(VERSIONS))
    if read_bytes > MAX_HEAD_BYTES:
        read_bytes = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
    check_size(read_bytes, len(headers))
    count = url.count(b"&") + 1
    if count > MAX_FIELDS:
        raise FieldProblem("query fields", count, f"at most {MAX_FIELDS}")
    length_bytes, codings = 0, []
    for name, value in headers:
        if name == b"content-length":
            length_bytes = int(value)  # the parser takes numbers only
        elif name == b"transfer-encoding":
            codings.append(value.lower())
    if not codings:
        return length_bytes
    if codings != [b"chunked"]:
        shown = b", ".join(codings).decode("latin-1")
        raise RequestMalformed("Transfer-Encoding", shown, "chunked, or left out")
    return None


def check_size(length_bytes: int, field_count: int) -> None:
    """A head, or the part of it that has come, is not too large.

    Raises:
        HeadTooLarge: It is.
    """
    if field_count > MAX_FIELDS:
        raise HeadTooLarge("header fields", field_count, f"at most {MAX_FIELDS}")
    if length_bytes > MAX_HEAD_BYTES:
        limit = f"at most {MAX_HEAD_BYTES} bytes"
        raise HeadTooLarge("request line and headers", f"{length_bytes} bytes", limit)


def take_authority(url: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """If a request's target is a whole URL, its host takes the Host header's place, to be checked.

    That is the host that counts (RFC 9112, section 3.2.2).
    """
    _, absolute, rest = url.partition(b"://")
    if absolute:
        authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
        headers[:] = [(name, authority if name == b"host" else value) for name, value in headers]


def check_host(hosts: Sequence[str], settings: Settings, *, is_needed: bool) -> None:
    """There is one Host header, and it names loopback if the service has no key.

    Without a key the service listens on loopback only. A web page could reach it there by rebinding
    its own host name to 127.0.0.1, and is refused.

    Args:
        hosts: The request's Host headers.
        settings: The service's settings.
        is_needed: Whether the header may not be left out, as in HTTP/1.1.

    Raises:
        HostAmbiguous: There are several, of which a proxy may pick another than the service does;
            or there is none although it is needed (RFC 9112, section 3.2).
        HostRefused: The service has no API key, and the header does not name this machine.
    """
    if len(hosts) > 1 or (is_needed and not hosts):
        raise HostAmbiguous("Host", list(hosts), "one header")
    if settings.names_callers or not hosts:
        return  # HTTP/1.0 without the header, as of a load balancer's check: no browser sends that
    if not _names_loopback(hosts[0], settings.host):
        limit = "localhost or a loopback address, until the service has a WAVETRIM_API_KEY"
        raise HostRefused("Host", hosts[0], limit)


async def check_call(call: "Call") -> None:
    """The call's host is right; its key or token is valid, has the scope, and may call once more.

    From then on the call has a tenant, and counts among its requests until it ends (`calls`).
    GET and HEAD need the scope read, all else compute. Some paths need no key.

    Raises:
        HostAmbiguous, HostRefused: As `check_host`.
        Unauthorized: The service has keys, and the call has no valid key or token.
        IssuerAway: Its token cannot be checked now.
        ScopeMissing: The key is for other calls.
        QuotaReached: The tenant has as many requests as it may.
    """
    is_needed = call.scope["http_version"] == "1.1"
    check_host(call.headers.getlist("host"), call.parts.settings, is_needed=is_needed)
    method, path = call.scope["method"], call.scope["path"]
    if path.startswith(("/v1/", "/v2/")) or path == "/v2":
        needs_key = not path.startswith("/v2/health/")
    else:
        needs_key = path == "/metrics" and call.parts.settings.metrics == "key"
    if not needs_key:
        return
    tenant = await find_tenant(call)
    needed = "read" if method in ("GET", "HEAD") or path == "/v2/repository/index" else "compute"
    if path == "/metrics":  # it tells of all callers
        needed = "admin"
    if not {needed, "admin"} & tenant.scopes:
        raise ScopeMissing("scope", ",".join(sorted(tenant.scopes)), f"{needed} or admin")
    if tenant.name:
        call.parts.descriptors.enter(tenant.name)
    call.tenant = tenant


def check_query(query_string: bytes, known: Mapping[str, bool]) -> dict[str, str | list[str]]:
    """All fields of a query are known, and only lists are there more than once; returns them.

    Args:
        query_string: The query.
        known: The fields that its call knows, and whether each is a list.

    Raises:
        FieldProblem: One is unknown, or there twice.
    """
    fields: dict[str, Any] = {}
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            names = f"the query fields are {', '.join(known)}" if known else "there are none"
            raise FieldProblem(name[:100], value[:200], f"left out: {names}")
        if known[name]:
            fields.setdefault(name, []).append(value)
        elif name in fields:
            limit = "given once: it is in the query before"
            raise FieldProblem(name[:100], value[:200], limit)
        else:
            fields[name] = value
    return fields


@lru_cache(maxsize=64)
def _names_loopback(host: str, own_name: str) -> bool:
    found = _HOST.fullmatch(host)
    name = found["name"].strip("[]").lower() if found else ""
    return name == own_name.lower() or is_loopback(name)


async def find_tenant(call: "Call") -> Tenant:
    """Who makes a call, by the key or token in its headers; raises as `check_call`."""
    settings, keys, tokens = call.parts.settings, call.parts.keys, call.parts.tokens
    if not settings.names_callers and keys.empty:
        return ONE_TENANT
    scheme, _, text = call.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("the call needs the header Authorization: Bearer <API key>")
    # Header values are decoded as Latin-1; the key's own bytes are compared.
    sent, own = text.encode("latin-1", "replace"), settings.api_key
    if own is not None and hmac.compare_digest(sent, own.get_secret_value().encode()):
        return ONE_TENANT
    key = keys.find(sent)
    if key is None and tokens is not None and text.count(".") == 2:
        return await tokens.read(text)
    if key is None or key.revoked_at is not None:
        raise Unauthorized("the API key is not the service's, nor any caller's")
    return key.tenant


def check_content(headers: Headers, media_types: Collection[str] = ()) -> str:
    """The service reads a body's media type and content coding; returns the coding.

    Without `media_types` any type is accepted.

    Raises:
        ContentRefused: It does not read one of them.
    """
    media_type = read_media_type(headers)
    if media_types and media_type not in media_types:
        raise ContentRefused("Content-Type", media_type, " or ".join(filter(None, media_types)))
    coding = headers.get("content-encoding", "").strip().lower() or "identity"
    if coding not in CODINGS:
        raise ContentRefused("Content-Encoding", coding, " or ".join(CODINGS))
    return coding


def read_media_type(headers: Headers) -> str:
    """The media type of a body, without parameters, in lower case; empty if there is none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_length(length_bytes: int | None, most_bytes: int, *, field: str, why: str) -> None:
    """A length, if it is known, is within its limit.

    Args:
        length_bytes: The length of a body or of a part of it.
        most_bytes: The limit.
        field: What has this length.
        why: Where the limit comes from.

    Raises:
        BodyTooLarge: The length is over the limit.
    """
    if length_bytes is not None and length_bytes > most_bytes:
        raise BodyTooLarge(field, length_bytes, f"at most {most_bytes} bytes{why}")


def check_idempotency(key: str | None) -> str | None:
    """The Idempotency-Key, with which a POST that is repeated does nothing twice; None for none.

    Raises:
        FieldProblem: It is too long, or not printable ASCII.
    """
    if key is None or _KEY.fullmatch(key):
        return key
    limit = f"1 to {MAX_KEY_CHARACTERS} printable ASCII characters"
    raise FieldProblem("Idempotency-Key", key, limit)
